#include "tensor/npy_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include "tandem/error.h"

namespace tandem::npy {
namespace {

struct NumberKind {
  std::string_view name;
  DType dtype;
};

constexpr std::array<NumberKind, 12> kKinds = {{
    {"f2", DType::float16},
    {"f4", DType::float32},
    {"f8", DType::float64},
    {"u1", DType::uint8},
    {"u2", DType::uint16},
    {"u4", DType::uint32},
    {"u8", DType::uint64},
    {"i1", DType::int8},
    {"i2", DType::int16},
    {"i4", DType::int32},
    {"i8", DType::int64},
    {"b1", DType::boolean},
}};

/// Reads the few forms of a Python literal that a header is made of.
class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : text_(text) {}

  bool at_end() {
    skip_space();
    return text_.empty();
  }

  bool take(char wanted) {
    skip_space();
    if (text_.empty() || text_[0] != wanted) return false;
    text_.remove_prefix(1);
    return true;
  }

  void expect(char wanted) {
    if (!take(wanted)) fail(fmt::format("'{}'", wanted));
  }

  bool at_string() {
    skip_space();
    return !text_.empty() && (text_[0] == '\'' || text_[0] == '"');
  }

  std::string_view string() {
    if (!at_string()) fail("a string");
    const size_t end = text_.find(text_[0], 1);
    if (end == std::string_view::npos) fail("the end of a string");
    const auto value = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return value;
  }

  bool boolean() {
    skip_space();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (!text_.starts_with(word)) continue;
      text_.remove_prefix(word.size());
      return value;
    }
    fail("True or False");
  }

  int64_t size() {
    skip_space();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (error != std::errc() || value < 0) fail("a size");
    text_.remove_prefix(static_cast<size_t>(end - text_.data()));
    return value;
  }

  std::vector<int64_t> tuple() {
    std::vector<int64_t> sizes;
    expect('(');
    while (!take(')')) {
      sizes.push_back(size());
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }

  std::string_view rest() const { return text_; }

  [[noreturn]] void fail(std::string_view wanted) const {
    throw DataLoss(fmt::format("the header has {} where {} should be",
                               text_.empty() ? "ended" : fmt::format("'{:.20}'", printable()),
                               wanted));
  }

 private:
  void skip_space() {
    const size_t count = std::min(text_.find_first_not_of(" \t\r\n"), text_.size());
    text_.remove_prefix(count);
  }

  std::string printable() const {
    std::string text(text_.substr(0, 20));
    std::ranges::replace_if(
        text, [](char c) { return c < 32 || c > 126; }, '?');
    return text;
  }

  std::string_view text_;
};

[[noreturn]] void throw_unknown_kind(std::string_view kind) {
  throw Unimplemented(
      fmt::format("elements of type {:.40}; f2, f4, f8, u1, i4, i8 and b1 can be read", kind));
}

void read_kind(LiteralReader& literal, Header& header) {
  if (!literal.at_string()) throw_unknown_kind(literal.rest());
  const std::string_view text = literal.string();
  std::string_view kind = text;
  if (!kind.empty() && std::string_view("<>|=").find(kind[0]) != std::string_view::npos) {
    header.big_endian = kind[0] == '>';
    kind.remove_prefix(1);
  }
  const auto known = std::ranges::find(kKinds, kind, &NumberKind::name);
  if (known == kKinds.end()) throw_unknown_kind(fmt::format("'{}'", text));
  header.dtype = known->dtype;
}

/// The product must be countable in bytes even where another size is zero.
Shape checked_shape(const std::vector<int64_t>& sizes, DType dtype) {
  if (sizes.size() > Shape::kMaxRank) {
    throw Unimplemented(fmt::format("{} axes; at most {} are supported", sizes.size(),
                                    static_cast<int>(Shape::kMaxRank)));
  }
  auto bytes = static_cast<int64_t>(size_of(dtype));
  for (int64_t size : sizes) {
    if (size > 0 && __builtin_mul_overflow(bytes, size, &bytes)) {
      throw DataLoss("the header's shape has more elements than can be counted");
    }
  }
  return Shape(sizes);
}

}  // namespace

Header parse_header(std::string_view text) {
  LiteralReader literal(text);
  Header header;
  std::optional<std::vector<int64_t>> sizes;
  bool has_kind = false;
  bool has_order = false;
  literal.expect('{');
  while (!literal.take('}')) {
    const std::string_view key = literal.string();
    literal.expect(':');
    if (key == "descr") {
      read_kind(literal, header);
      has_kind = true;
    } else if (key == "fortran_order") {
      header.fortran_order = literal.boolean();
      has_order = true;
    } else if (key == "shape") {
      sizes = literal.tuple();
    } else {
      throw DataLoss(fmt::format("the header has an unknown key of {} characters", key.size()));
    }
    if (!literal.take(',')) {
      literal.expect('}');
      break;
    }
  }
  if (!literal.at_end()) literal.fail("its end");
  if (!has_kind || !has_order || !sizes) {
    throw DataLoss("the header lacks one of the keys descr, fortran_order, shape");
  }
  header.shape = checked_shape(*sizes, header.dtype);
  return header;
}

std::string header_of(DType dtype, const Shape& shape) {
  const auto kind = std::ranges::find(kKinds, dtype, &NumberKind::dtype);
  if (kind == kKinds.end()) {
    throw InvalidArgument(
        fmt::format("NumPy has no {}; cast to float32 before saving", name_of(dtype)));
  }
  std::string sizes;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    sizes += fmt::format("{}{}", axis > 0 ? " " : "", shape[axis]);
    if (axis + 1 < shape.rank() || shape.rank() == 1) sizes += ',';
  }
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                 size_of(dtype) == 1 ? '|' : '<', kind->name, sizes);
  constexpr size_t kAlignment = 64;
  const size_t before = kMagic.size() + kVersionBytes + sizeof(uint16_t);
  const size_t whole = (before + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  text.resize(whole - before - 1, ' ');
  text += '\n';

  std::string bytes(kMagic);
  bytes += {1, 0, static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return bytes + text;
}

}  // namespace tandem::npy

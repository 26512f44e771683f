#include "checkpoint/bundle_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "checkpoint/crc32c.h"
#include "checkpoint/wire.h"
#include "tandem/error.h"

namespace tandem::checkpoint {
namespace {

constexpr std::array<std::pair<DType, int>, 13> kTypes = {{
    {DType::float32, 1},
    {DType::float64, 2},
    {DType::int32, 3},
    {DType::uint8, 4},
    {DType::int16, 5},
    {DType::int8, 6},
    {DType::int64, 9},
    {DType::boolean, 10},
    {DType::bfloat16, 14},
    {DType::uint16, 17},
    {DType::float16, 19},
    {DType::uint32, 22},
    {DType::uint64, 23},
}};

int small_number(const WireReader& in, int64_t least, int64_t most, const char* what) {
  const int64_t value = in.number();
  if (value < least || value > most) {
    throw DataLoss(fmt::format("{} is {}, not within {} to {}", what, value, least, most));
  }
  return static_cast<int>(value);
}

std::vector<int64_t> decode_sizes(std::string_view bytes) {
  std::vector<int64_t> sizes;
  for (WireReader in(bytes); in.next();) {
    if (in.field() == 3 && in.number() != 0) throw DataLoss("the number of axes is not known");
    if (in.field() != 2) continue;
    int64_t size = 0;
    for (WireReader axis(in.text()); axis.next();) {
      if (axis.field() == 1) size = axis.number();
    }
    if (size < 0) throw DataLoss(fmt::format("an axis has the size {}", size));
    sizes.push_back(size);
  }
  return sizes;
}

void check_bytes(const BundleEntry& entry) {
  if (entry.offset < 0 || entry.bytes < 0 || entry.offset > INT64_MAX - entry.bytes) {
    throw DataLoss(fmt::format("{} bytes at offset {}", entry.bytes, entry.offset));
  }
  const auto dtype = dtype_of_number(entry.type);
  if (!dtype || !entry.slices.empty()) return;
  auto wanted = static_cast<int64_t>(size_of(*dtype));
  bool too_many = false;
  for (const int64_t size : entry.sizes) {
    if (size == 0) wanted = 0;
  }
  for (const int64_t size : entry.sizes) {
    too_many = too_many || __builtin_mul_overflow(wanted, size, &wanted);
  }
  if (too_many || wanted != entry.bytes) {
    throw DataLoss(fmt::format("{} does not have {} bytes", entry.type_str(), entry.bytes));
  }
}

}  // namespace

int type_number(DType dtype) {
  return std::ranges::find(kTypes, dtype, &std::pair<DType, int>::first)->second;
}

std::optional<DType> dtype_of_number(int type) {
  const auto* found = std::ranges::find(kTypes, type, &std::pair<DType, int>::second);
  return found == kTypes.end() ? std::nullopt : std::optional(found->first);
}

std::string type_name(int type) {
  if (type == kStringType) return "string";
  const auto dtype = dtype_of_number(type);
  return dtype ? std::string(name_of(*dtype)) : fmt::format("type {}", type);
}

std::string BundleEntry::type_str() const {
  return fmt::format("{}[{}]", type_name(type), fmt::join(sizes, ","));
}

std::string encode(const BundleHeader& header) {
  WireWriter version;
  version.number(1, 1);
  return WireWriter()
      .number(1, header.shards)
      .number(2, header.big_endian ? 1 : 0)
      .message(3, version)
      .bytes();
}

BundleHeader decode_header(std::string_view bytes) {
  BundleHeader header{.shards = 0};
  for (WireReader in(bytes); in.next();) {
    if (in.field() == 1) header.shards = small_number(in, 1, 99999, "the number of data files");
    if (in.field() == 2) header.big_endian = small_number(in, 0, 1, "the order of bytes") == 1;
  }
  if (header.shards == 0) throw DataLoss("the header names no data files");
  return header;
}

Shape BundleEntry::shape() const {
  if (sizes.size() > Shape::kMaxRank) {
    throw Unimplemented(fmt::format("a tensor of {} axes; at most {} are supported", sizes.size(),
                                    Shape::kMaxRank));
  }
  return Shape(std::span<const int64_t>(sizes));
}

std::string encode(const BundleEntry& entry) {
  WireWriter shape;
  for (const int64_t size : entry.sizes) shape.message(2, WireWriter().number(1, size));
  WireWriter out;
  out.number(1, entry.type)
      .message(2, shape)
      .number(3, entry.shard)
      .number(4, entry.offset)
      .number(5, entry.bytes)
      .fixed32(6, entry.masked_crc);
  for (const TensorSlice& slice : entry.slices) out.text(7, encode(slice));
  return out.bytes();
}

BundleEntry decode_entry(std::string_view bytes) {
  BundleEntry entry;
  for (WireReader in(bytes); in.next();) {
    switch (in.field()) {
      case 1:
        entry.type = small_number(in, 0, INT32_MAX, "the element type");
        break;
      case 2:
        entry.sizes = decode_sizes(in.text());
        break;
      case 3:
        entry.shard = small_number(in, 0, 99998, "the data file");
        break;
      case 4:
        entry.offset = in.number();
        break;
      case 5:
        entry.bytes = in.number();
        break;
      case 6:
        entry.masked_crc = in.fixed32();
        break;
      case 7:
        entry.slices.push_back(decode_slice(in.text()));
        break;
      default:
        break;
    }
  }
  check_bytes(entry);
  return entry;
}

namespace {

/// The checksum covers the length as a fixed number of 4 bytes, 8 where it needs them.
uint32_t length_crc(uint64_t length) {
  return crc32c(&length, length <= UINT32_MAX ? sizeof(uint32_t) : sizeof length);
}

}  // namespace

StoredString store_string(std::string_view value) {
  StoredString stored;
  append_varint(stored.bytes, value.size());
  stored.crc = length_crc(value.size());
  const uint32_t masked = mask_crc32c(stored.crc);
  stored.bytes.append(reinterpret_cast<const char*>(&masked), sizeof masked);
  stored.crc = extend_crc32c(stored.crc, &masked, sizeof masked);
  stored.bytes += value;
  stored.crc = extend_crc32c(stored.crc, value.data(), value.size());
  return stored;
}

std::string load_string(std::string_view stored, uint32_t masked_crc) {
  const uint64_t length = take_varint(stored);
  uint32_t crc = length_crc(length);
  uint32_t masked = 0;
  if (stored.size() < sizeof masked) throw DataLoss("the string ends before its bytes");
  std::memcpy(&masked, stored.data(), sizeof masked);
  stored.remove_prefix(sizeof masked);
  if (masked != mask_crc32c(crc) || length != stored.size()) {
    throw DataLoss("the length of the string is damaged");
  }
  crc = extend_crc32c(crc, &masked, sizeof masked);
  if (mask_crc32c(extend_crc32c(crc, stored.data(), stored.size())) != masked_crc) {
    throw DataLoss("the checksum does not match");
  }
  return std::string(stored);
}

std::string index_name(const std::string& prefix) { return fmt::format("{}.index", prefix); }

std::string data_name(const std::string& prefix, int shard, int shards) {
  return fmt::format("{}.data-{:05}-of-{:05}", prefix, shard, shards);
}

}  // namespace tandem::checkpoint

#include "checkpoint/wire.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "tandem/error.h"

static_assert(std::endian::native == std::endian::little, "numbers are copied as they lie");

namespace tandem::checkpoint {
namespace {

constexpr int kVarint = 0;
constexpr int kFixed64 = 1;
constexpr int kBytes = 2;
constexpr int kFixed32 = 5;

}  // namespace

void append_varint(std::string& to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) to.push_back(static_cast<char>(value | 0x80));
  to.push_back(static_cast<char>(value));
}

uint64_t take_varint(std::string_view& from) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !from.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(from[0]);
    from.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  throw DataLoss("a number does not end");
}

void WireWriter::tag(int field, int kind) {
  append_varint(bytes_, static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(kind));
}

WireWriter& WireWriter::number(int field, int64_t value) {
  if (value == 0) return *this;
  tag(field, kVarint);
  append_varint(bytes_, static_cast<uint64_t>(value));
  return *this;
}

WireWriter& WireWriter::fixed32(int field, uint32_t value) {
  if (value == 0) return *this;
  tag(field, kFixed32);
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  return *this;
}

WireWriter& WireWriter::text(int field, std::string_view value) {
  if (value.empty()) return *this;
  tag(field, kBytes);
  append_varint(bytes_, value.size());
  bytes_ += value;
  return *this;
}

WireWriter& WireWriter::message(int field, const WireWriter& value) {
  tag(field, kBytes);
  append_varint(bytes_, value.bytes().size());
  bytes_ += value.bytes();
  return *this;
}

bool WireReader::next() {
  if (rest_.empty()) return false;
  const uint64_t tag = take_varint(rest_);
  if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff) {
    throw DataLoss(fmt::format("field {} is out of range", tag >> 3));
  }
  field_ = static_cast<int>(tag >> 3);
  kind_ = static_cast<int>(tag & 7);
  switch (kind_) {
    case kVarint:
      number_ = take_varint(rest_);
      break;
    case kFixed64:
      take(8);
      break;
    case kBytes:
      text_ = take(take_varint(rest_));
      break;
    case kFixed32: {
      uint32_t value = 0;
      std::memcpy(&value, take(4).data(), 4);
      number_ = value;
      break;
    }
    default:
      throw DataLoss(fmt::format("field {} has the unknown kind {}", field_, kind_));
  }
  return true;
}

int64_t WireReader::number() const {
  expect(kVarint);
  return static_cast<int64_t>(number_);
}

uint32_t WireReader::fixed32() const {
  expect(kFixed32);
  return static_cast<uint32_t>(number_);
}

std::string_view WireReader::text() const {
  expect(kBytes);
  return text_;
}

void WireReader::expect(int kind) const {
  if (kind_ != kind) {
    throw DataLoss(fmt::format("field {} is of kind {}, not {}", field_, kind_, kind));
  }
}

std::string_view WireReader::take(uint64_t bytes) {
  if (bytes > rest_.size()) {
    throw DataLoss(
        fmt::format("field {} should have {} bytes, {} are left", field_, bytes, rest_.size()));
  }
  const std::string_view taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return taken;
}

}  // namespace tandem::checkpoint

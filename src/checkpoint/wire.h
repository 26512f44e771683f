/// Protocol buffers' wire format, as much of it as checkpoints need: numbers, fixed 32 bits, bytes
/// and messages within messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::checkpoint {

class WireWriter {
 public:
  /// A field that has its default value, 0 or empty, is left out, as protocol buffers do.
  WireWriter& number(int field, int64_t value);
  WireWriter& fixed32(int field, uint32_t value);
  WireWriter& text(int field, std::string_view value);
  /// Adds a message, also when it is empty.
  WireWriter& message(int field, const WireWriter& value);

  const std::string& bytes() const { return bytes_; }

 private:
  void tag(int field, int kind);

  std::string bytes_;
};

/// Reads the fields of a message one after another:
///   for (WireReader in(bytes); in.next();) if (in.field() == 1) x = in.number();
/// Everything throws DataLoss where the bytes are no message.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  /// Moves on to the next field; false at the end.
  bool next();
  int field() const { return field_; }

  int64_t number() const;
  uint32_t fixed32() const;
  std::string_view text() const;

 private:
  void expect(int kind) const;
  std::string_view take(uint64_t bytes);

  std::string_view rest_;
  int field_ = 0;
  int kind_ = 0;
  uint64_t number_ = 0;
  std::string_view text_;
};

/// Seven bits to a byte, the lowest first.
void append_varint(std::string& to, uint64_t value);

/// Takes one from the front. Throws DataLoss when it does not end.
uint64_t take_varint(std::string_view& from);

}  // namespace tandem::checkpoint

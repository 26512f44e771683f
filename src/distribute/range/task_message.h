/// Numbers and bytes of messages between the tasks of parameter servers, one after another as they
/// lie in memory. All tasks run the same program on machines of one kind.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tandem::distribute {

/// Where pieces of variables and gradients begin in a message.
inline constexpr size_t kPieceAlignment = 16;

class MessageWriter {
 public:
  template <class T>
  MessageWriter& add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  /// Its length comes before it.
  MessageWriter& add_text(std::string_view text) {
    add(static_cast<uint64_t>(text.size()));
    bytes_.append(text);
    return *this;
  }
  /// How many there are comes before them.
  template <class List>
  MessageWriter& add_list(const List& values) {
    add(static_cast<uint64_t>(values.size()));
    for (const auto& value : values) add(value);
    return *this;
  }
  MessageWriter& add_bytes(const void* data, size_t count) {
    bytes_.append(static_cast<const char*>(data), count);
    return *this;
  }
  /// The next byte lies where a piece may begin.
  MessageWriter& align() {
    bytes_.append(padding_after(bytes_.size()), '\0');
    return *this;
  }
  static size_t padding_after(size_t bytes) {
    return (kPieceAlignment - bytes % kPieceAlignment) % kPieceAlignment;
  }
  void reserve(size_t bytes) { bytes_.reserve(bytes); }
  /// For those who append to it themselves.
  std::string& bytes() { return bytes_; }
  std::string take();

 private:
  std::string bytes_;
};

/// Throws DataLoss where there are fewer bytes than are asked for.
class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : bytes_(bytes), all_(bytes.size()) {}

  template <class T>
  T read() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, read_bytes(sizeof value), sizeof value);
    return value;
  }
  std::string_view read_text() {
    const auto count = static_cast<size_t>(read<uint64_t>());
    return {read_bytes(count), count};
  }
  template <class T>
  std::vector<T> read_list() {
    const auto count = static_cast<size_t>(read<uint64_t>());
    if (count > bytes_.size() / sizeof(T)) fail();
    std::vector<T> values(count);
    for (T& value : values) value = read<T>();
    return values;
  }
  const char* read_bytes(size_t count) {
    if (count > bytes_.size()) fail();
    const char* data = bytes_.data();
    bytes_.remove_prefix(count);
    return data;
  }
  void align() { read_bytes(MessageWriter::padding_after(all_ - bytes_.size())); }
  std::string_view rest() const { return bytes_; }

 private:
  [[noreturn]] static void fail();

  std::string_view bytes_;
  size_t all_;
};

}  // namespace tandem::distribute

#include "cluster/frame.h"

#include <charconv>

namespace tandem::cluster {
namespace {

void append_length(std::string& to, size_t length) {
  for (int shift = 0; shift < 32; shift += 8)
    to.push_back(static_cast<char>(length >> shift & 0xff));
}

size_t read_length(std::string_view from) {
  size_t length = 0;
  for (int i = 0; i < 4; ++i) {
    length |= static_cast<size_t>(static_cast<unsigned char>(from[static_cast<size_t>(i)]))
              << 8 * i;
  }
  return length;
}

}  // namespace

std::string Frame::encode() const {
  std::string bytes;
  bytes.push_back(static_cast<char>(type));
  append_length(bytes, fields.size());
  for (const std::string& field : fields) {
    append_length(bytes, field.size());
    bytes += field;
  }
  return bytes;
}

const std::string& Frame::field(size_t i) const {
  static const std::string none;
  return i < fields.size() ? fields[i] : none;
}

int64_t Frame::number(size_t i) const {
  const std::string& text = field(i);
  int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : -1;
}

std::optional<Frame> decode(std::string_view bytes) {
  constexpr size_t kMostFields = 8192;
  if (bytes.size() < 5) return std::nullopt;
  const auto type = static_cast<uint8_t>(bytes[0]);
  const size_t count = read_length(bytes.substr(1));
  if (type < static_cast<uint8_t>(FrameType::hello) ||
      type > static_cast<uint8_t>(FrameType::leaving) || count > kMostFields) {
    return std::nullopt;
  }
  Frame frame{static_cast<FrameType>(type), {}};
  bytes.remove_prefix(5);
  for (size_t i = 0; i < count; ++i) {
    if (bytes.size() < 4) return std::nullopt;
    const size_t length = read_length(bytes);
    bytes.remove_prefix(4);
    if (length > bytes.size()) return std::nullopt;
    frame.fields.emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(length);
  }
  if (!bytes.empty()) return std::nullopt;
  return frame;
}

}  // namespace tandem::cluster

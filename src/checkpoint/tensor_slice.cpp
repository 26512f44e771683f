#include "checkpoint/tensor_slice.h"

#include <algorithm>
#include <bit>

#include "checkpoint/wire.h"
#include "tandem/error.h"

namespace tandem::checkpoint {
namespace {

/// The elements that one step of an axis passes over.
std::vector<int64_t> strides_of(std::span<const int64_t> sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t axis = sizes.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * sizes[axis];
  return strides;
}

/// The box that begins at `begin` and has as many elements as one can have.
TensorSlice largest_at(std::span<const int64_t> sizes, std::span<const int64_t> strides,
                       int64_t begin, int64_t end) {
  size_t axis = 0;
  while (begin % strides[axis] != 0 || begin + strides[axis] > end) ++axis;
  TensorSlice box;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t at = begin / strides[i] % sizes[i];
    box.starts.push_back(i > axis ? 0 : at);
    box.lengths.push_back(i < axis ? 1 : sizes[i]);
    if (i == axis) box.lengths.back() = std::min((end - begin) / strides[i], sizes[i] - at);
  }
  return box;
}

// TensorFlow's keys of slices are in an "ordered code": texts and numbers, of which the order of
// the bytes is that of the values.

/// The number of bytes, then the bytes, the highest first.
void append_count(std::string& key, uint64_t value) {
  const int bytes = (std::bit_width(value) + 7) / 8;
  key += static_cast<char>(bytes);
  for (int i = bytes; i-- > 0;) key += static_cast<char>(value >> (8 * i));
}

void append_text(std::string& key, std::string_view text) {
  for (const char c : text) {
    key += c;
    if (c == '\0') key += '\xff';
    if (c == '\xff') key += '\0';
  }
  key += '\0';
  key += '\1';
}

/// Writes as many ones as there are bytes, a zero, then the number with its sign.
void append_signed(std::string& key, int64_t value) {
  const uint64_t magnitude =
      value < 0 ? ~static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  const int bytes = std::bit_width(magnitude) / 7 + 1;
  for (int i = bytes; i-- > 0;) {
    auto byte = static_cast<uint8_t>(value >> std::min(8 * i, 63));
    const int from_front = bytes - 1 - i;
    const int ones = bytes - 8 * from_front;  // Those of the head that fall on this byte or behind.
    if (ones > 0) byte ^= ones >= 8 ? 0xff : static_cast<uint8_t>(0xff << (8 - ones));
    key += static_cast<char>(byte);
  }
}

}  // namespace

std::vector<TensorSlice> slices_of(std::span<const int64_t> sizes, int64_t begin, int64_t end) {
  const std::vector<int64_t> strides = strides_of(sizes);
  std::vector<TensorSlice> slices;
  while (begin < end) {
    slices.push_back(largest_at(sizes, strides, begin, end));
    begin += count_of(slices.back(), sizes);
  }
  return slices;
}

int64_t count_of(const TensorSlice& slice, std::span<const int64_t> sizes) {
  if (slice.starts.size() != sizes.size()) throw DataLoss("a slice has other axes than its tensor");
  int64_t count = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool is_whole = slice.lengths[i] == TensorSlice::kWholeAxis;
    const int64_t length = is_whole ? sizes[i] : slice.lengths[i];
    const bool is_within = slice.starts[i] >= 0 && length >= 0 && length <= sizes[i] &&
                           slice.starts[i] <= sizes[i] - length;
    if (!is_within) throw DataLoss("a slice is not within its tensor");
    count *= length;
  }
  return count;
}

std::optional<int64_t> first_element(const TensorSlice& slice, std::span<const int64_t> sizes) {
  const std::vector<int64_t> strides = strides_of(sizes);
  int64_t first = 0;
  bool is_cut = false;  // By some axis, so that further ones must be whole.
  for (size_t i = sizes.size(); i-- > 0;) {
    const bool is_whole =
        slice.lengths[i] == TensorSlice::kWholeAxis || slice.lengths[i] == sizes[i];
    if (is_cut && slice.lengths[i] != 1 && sizes[i] != 1) return std::nullopt;
    is_cut = is_cut || !is_whole;
    first += slice.starts[i] * strides[i];
  }
  return first;
}

std::string slice_key(const std::string& tensor, const TensorSlice& slice) {
  std::string key;
  append_count(key, 0);
  append_text(key, tensor);
  append_count(key, slice.starts.size());
  for (size_t i = 0; i < slice.starts.size(); ++i) {
    append_signed(key, slice.starts[i]);
    append_signed(key, slice.lengths[i]);
  }
  return key;
}

std::string encode(const TensorSlice& slice) {
  WireWriter out;
  for (size_t i = 0; i < slice.starts.size(); ++i) {
    WireWriter extent;
    if (slice.lengths[i] != TensorSlice::kWholeAxis) {
      extent.number(1, slice.starts[i]).number(2, slice.lengths[i]);
    }
    out.message(1, extent);
  }
  return out.bytes();
}

TensorSlice decode_slice(std::string_view bytes) {
  TensorSlice slice;
  for (WireReader in(bytes); in.next();) {
    if (in.field() != 1) continue;
    int64_t start = 0;
    int64_t length = TensorSlice::kWholeAxis;
    for (WireReader extent(in.text()); extent.next();) {
      if (extent.field() == 1) start = extent.number();
      if (extent.field() == 2) length = extent.number();
    }
    slice.starts.push_back(start);
    slice.lengths.push_back(length);
  }
  return slice;
}

}  // namespace tandem::checkpoint

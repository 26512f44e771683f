/// Parts of a tensor that a checkpoint stores each by itself, as TensorFlow stores partitioned
/// variables. A slice is a box: a run of indices of each axis.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::checkpoint {

struct TensorSlice {
  static constexpr int64_t kWholeAxis = -1;

  std::vector<int64_t> starts{};
  std::vector<int64_t> lengths{};  ///< kWholeAxis: all of an axis.

  bool operator==(const TensorSlice&) const = default;
};

/// The boxes that the elements from `begin` to `end` of a tensor are, in row-major order; the
/// elements of each box follow one another. Of a matrix there are at most three:
///
///   . . b b b     the end of a row
///   c c c c c     whole rows
///   c c c c c
///   d d . . .     the beginning of a row
std::vector<TensorSlice> slices_of(std::span<const int64_t> sizes, int64_t begin, int64_t end);

/// How many elements a slice of a tensor of these sizes has. Throws DataLoss for one that is not
/// within it.
int64_t count_of(const TensorSlice& slice, std::span<const int64_t> sizes);

/// The number of the slice's first element; none where its elements do not follow one another.
std::optional<int64_t> first_element(const TensorSlice& slice, std::span<const int64_t> sizes);

/// The key under which the slice of a tensor is stored.
std::string slice_key(const std::string& tensor, const TensorSlice& slice);
/// Whether a key is one of these.
inline bool is_slice_key(std::string_view key) { return key.starts_with('\0'); }

/// A TensorSliceProto.
std::string encode(const TensorSlice& slice);
TensorSlice decode_slice(std::string_view bytes);

}  // namespace tandem::checkpoint

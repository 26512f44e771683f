// concat: copies tensors side by side along an axis.
#include <algorithm>
#include <cstring>

#include "kernels/part.h"
#include "op/registry.h"

namespace tandem::kernels::cpu {
namespace {

/// Seen from the axis along which they join, each input is `blocks` runs of bytes, which take turns
/// in the result.
struct Join {
  int64_t blocks = 1;
  std::vector<int64_t> runs;  ///< Bytes, by input.
  int64_t together = 0;       ///< Bytes of one block of the result.
};

Join join_of(const op::Signature& s) {
  const Shape& out = s.outputs[0].shape;
  const auto joined = static_cast<int>(s.attrs.get<int64_t>("axis"));
  Join join;
  auto inner = static_cast<int64_t>(size_of(s.outputs[0].dtype));
  for (int axis = 0; axis < out.rank(); ++axis) {
    if (axis < joined) join.blocks *= out[axis];
    if (axis > joined) inner *= out[axis];
  }
  for (const op::TensorType& input : s.inputs) join.runs.push_back(input.shape[joined] * inner);
  join.together = out[joined] * inner;
  return join;
}

template <int64_t kBytes>
void copy_fixed(const char* from, char* to, int64_t to_stride, int64_t count) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_stride, from + i * kBytes, kBytes);
}

void copy_runs(const char* from, int64_t bytes, char* to, int64_t to_stride, int64_t count) {
  switch (bytes) {
    case 4:
      return copy_fixed<4>(from, to, to_stride, count);
    case 8:
      return copy_fixed<8>(from, to, to_stride, count);
    case 16:
      return copy_fixed<16>(from, to, to_stride, count);
    default:
      for (int64_t i = 0; i < count; ++i) {
        std::memcpy(to + i * to_stride, from + i * bytes, static_cast<size_t>(bytes));
      }
  }
}

/// Blocks [begin, end), few at a time, so that all inputs have written a line of the result while
/// it is in the cache.
void join_blocks(const Join& join, const op::Launch& launch, int64_t begin, int64_t end) {
  const int64_t at_once = std::max<int64_t>(1, (32 << 10) / std::max<int64_t>(1, join.together));
  for (int64_t block = begin; block < end; block += at_once) {
    const int64_t count = std::min(at_once, end - block);
    char* to = launch.out<char>(0) + block * join.together;
    for (size_t i = 0; i < join.runs.size(); ++i) {
      const int64_t run = join.runs[i];
      if (run == 0) continue;
      const char* from = launch.in<char>(static_cast<int>(i)) + block * run;
      copy_runs(from, run, to, join.together, count);
      to += run;
    }
  }
}

/// Bytes [begin, end) of the only block.
void join_bytes(const Join& join, const op::Launch& launch, int64_t begin, int64_t end) {
  int64_t start = 0;
  for (size_t i = 0; i < join.runs.size(); ++i) {
    const int64_t first = std::max(begin, start);
    const int64_t last = std::min(end, start + join.runs[i]);
    if (first < last) {
      std::memcpy(launch.out<char>(0) + first,
                  launch.in<char>(static_cast<int>(i)) + (first - start),
                  static_cast<size_t>(last - first));
    }
    start += join.runs[i];
  }
}

op::ExecutablePtr prepare_concat(const op::Signature& s, int) {
  return op::executable([join = join_of(s), split = RowSplit(s.outputs[0].shape),
                         element = static_cast<int64_t>(size_of(s.outputs[0].dtype)),
                         leading = s.attrs.get<int64_t>("axis") == 0](const op::Launch& launch) {
    const auto [begin, end] = split.part(launch);
    if (begin == end) return;
    if (leading) {
      join_bytes(join, launch, begin * element, end * element);
    } else {
      join_blocks(join, launch, begin * element / join.together, end * element / join.together);
    }
  });
}

}  // namespace

void register_joining(op::BackendKernels& kernels) {
  kernels.add("concat", all_dtypes(), prepare_concat);
}

}  // namespace tandem::kernels::cpu

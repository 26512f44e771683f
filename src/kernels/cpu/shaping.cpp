#include <algorithm>
#include <cstring>

#include "kernels/cpu/half.h"
#include "kernels/cpu/part.h"
#include "op/registry.h"
#include "tandem/error.h"

namespace tandem::kernels::cpu {
namespace {

using op::ExecutablePtr;
using op::Launch;
using op::Signature;

/// The same elements in the same order: a copy.
ExecutablePtr prepare_reshape(const Signature& s, int) {
  return op::executable([split = RowSplit(s.outputs[0].shape),
                         element = size_of(s.outputs[0].dtype)](const Launch& launch) {
    const auto [begin, end] = split.part(launch);
    if (begin == end) return;
    const size_t first = static_cast<size_t>(begin) * element;
    std::memcpy(launch.out<char>(0) + first, launch.in<char>(0) + first,
                static_cast<size_t>(end - begin) * element);
  });
}

template <class T>
ExecutablePtr fill_with(const Shape& shape, T value) {
  return op::executable([split = RowSplit(shape), value](const Launch& launch) {
    const auto [begin, end] = split.part(launch);
    std::fill(launch.out<T>(0) + begin, launch.out<T>(0) + end, value);
  });
}

ExecutablePtr prepare_fill(const Signature& s, int) {
  const Shape& shape = s.outputs[0].shape;
  const auto value = s.attrs.get<double>("value");
  switch (s.outputs[0].dtype) {
    case DType::float32:
      return fill_with(shape, static_cast<float>(value));
    case DType::float64:
      return fill_with(shape, value);
    case DType::float16:
      return fill_with(shape, to_float16(static_cast<float>(value)));
    case DType::bfloat16:
      return fill_with(shape, to_bfloat16(static_cast<float>(value)));
    case DType::uint8:
      return fill_with(shape, static_cast<uint8_t>(value));
    case DType::int32:
      return fill_with(shape, static_cast<int32_t>(value));
    case DType::int64:
      return fill_with(shape, static_cast<int64_t>(value));
    case DType::boolean:
      return fill_with(shape, value != 0);
  }
  throw Unimplemented(s.str() + ": no such dtype");
}

}  // namespace

void register_shaping(op::Registry& registry) {
  registry.add_kernel("reshape", "cpu", all_dtypes(), prepare_reshape);
  registry.add_kernel("fill", "cpu", all_dtypes(), prepare_fill);
}

}  // namespace tandem::kernels::cpu

// broadcast_to: repeats a tensor along axes of size 1 or that it does not have, and scales it where
// a mean's gradient asks for that (ops::Scale).
#include <algorithm>
#include <cstdint>

#include "kernels/cpu/factor.h"
#include "kernels/nest.h"
#include "kernels/part.h"
#include "op/registry.h"

namespace tandem::kernels::cpu {
namespace {

using op::ExecutablePtr;
using op::Launch;
using op::Signature;

struct BroadcastLoops {
  Nest<1> outer;
  Axis<1> inner;
};

BroadcastLoops loops_of(const Signature& s) {
  const Shape& out = s.outputs[0].shape;
  BroadcastLoops loops;
  for (int axis = 0; axis < out.rank(); ++axis) {
    loops.outer.add({out[axis], {broadcast_stride(s.inputs[0].shape, out, axis)}});
  }
  loops.inner = loops.outer.take_inner();
  return loops;
}

/// Along an inner run the input goes on, or its one element is repeated.
template <class T, class F>
void broadcast(const BroadcastLoops& loops, const T* x, T* out, int64_t begin, int64_t end,
               F scaled) {
  for_each_run(loops.outer, loops.inner.size, begin, end,
               [&](const Position<1>& at, int64_t first, int64_t count, int64_t index) {
                 const T* from = x + at.offset();
                 if (loops.inner.strides[0] == 0) {
                   std::fill_n(out + index, count, scaled(*from));
                 } else {
                   std::transform(from + first, from + first + count, out + index, scaled);
                 }
               });
}

template <class T>
ExecutablePtr prepare_scaled(const Signature& s, int) {
  const int64_t from = s.inputs[0].shape.count();
  const int64_t meeting = from == 0 ? 0 : s.outputs[0].shape.count() / from;
  return op::executable([loops = loops_of(s), factor = Factor(s.attrs, meeting),
                         split = RowSplit(s.outputs[0].shape)](const Launch& launch) {
    const auto [begin, end] = split.part(launch);
    if (begin == end) return;
    const auto scale = static_cast<T>(factor.value(launch));
    broadcast(loops, launch.in<T>(0), launch.out<T>(0), begin, end,
              [scale](T x) { return x * scale; });
  });
}

/// Copies types that are only moved; sums, and with them scales, exist for the floating ones.
template <class T>
ExecutablePtr prepare_copy(const Signature& s, int) {
  return op::executable(
      [loops = loops_of(s), split = RowSplit(s.outputs[0].shape)](const Launch& launch) {
        const auto [begin, end] = split.part(launch);
        broadcast(loops, launch.in<T>(0), launch.out<T>(0), begin, end, [](T x) { return x; });
      });
}

}  // namespace

void register_broadcast(op::BackendKernels& kernels) {
  const auto add = [&](std::vector<DType> dtypes, op::PrepareFn prepare) {
    kernels.add("broadcast_to", std::move(dtypes), std::move(prepare));
  };
  add({DType::float32}, prepare_scaled<float>);
  add({DType::float64}, prepare_scaled<double>);
  add({DType::uint8, DType::boolean, DType::int8}, prepare_copy<uint8_t>);
  add({DType::float16, DType::bfloat16, DType::int16, DType::uint16}, prepare_copy<uint16_t>);
  add({DType::int32, DType::uint32}, prepare_copy<uint32_t>);
  add({DType::int64, DType::uint64}, prepare_copy<uint64_t>);
}

}  // namespace tandem::kernels::cpu

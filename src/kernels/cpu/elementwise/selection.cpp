// where and clip: results that are one or the other of given values.
//
// This file is compiled once per instruction set; the best one is chosen when a kernel is prepared.
#include <algorithm>
#include <cstdint>

#include "kernels/cpu/elementwise/pointwise.h"
#include "kernels/nest.h"
#include "kernels/part.h"
#include "op/registry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise/selection.cpp"
#include <hwy/foreach_target.h>
// These come after foreach_target.h, which sets what they expand to.
#include <hwy/highway.h>

#include "kernels/cpu/elementwise/pointwise_simd.h"
#include "kernels/cpu/elementwise/vector_math.h"

#ifndef TANDEM_SELECTION_ONCE
#define TANDEM_SELECTION_ONCE
namespace tandem::kernels::cpu {
namespace {

/// How far each operand of a run of `where` moves with each element: 1 or 0.
using Steps = std::array<int64_t, 3>;

/// Elements are bits of their size, whatever they mean; conditions are bytes, 0 or 1.
template <class Bits>
using WhereFn = void (*)(const uint8_t* condition, const Bits* a, const Bits* b, const Steps& steps,
                         Bits* out, int64_t count);

}  // namespace
}  // namespace tandem::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

struct Clip : Unary {
  explicit Clip(const double* parameters) : low(parameters[0]), high(parameters[1]) {}
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return at_most(at_least(x, constant(d, low)), constant(d, high));
  }
  double low, high;
};

struct ClipGrad : Binary {
  explicit ClipGrad(const double* parameters) : low(parameters[0]), high(parameters[1]) {}
  template <class D, class V>
  HWY_INLINE V operator()(D d, V g, V x) const {
    const auto inside = hn::And(hn::Ge(x, constant(d, low)), hn::Le(x, constant(d, high)));
    return hn::IfThenElseZero(inside, g);
  }
  double low, high;
};

template <class T>
Functions<T> selection() {
  static constexpr Pointwise<T> kFunctions[] = {
      pointwise<Clip, T>("clip", {"low", "high"}),
      pointwise<ClipGrad, T>("clip_grad", {"low", "high"}),
  };
  return kFunctions;
}

Functions<float> selection_float32() { return selection<float>(); }
Functions<double> selection_float64() { return selection<double>(); }

/// True where the byte of a lane is not 0.
template <class D>
HWY_INLINE hn::Mask<D> mask_of(D d, const uint8_t* bytes) {
  const hn::Rebind<uint32_t, D> d32;
  const auto words = hn::PromoteTo(d32, hn::LoadU(hn::Rebind<uint8_t, D>(), bytes));
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return hn::Ne(words, hn::Zero(d));
  } else {
    return hn::Ne(hn::PromoteTo(d, words), hn::Zero(d));
  }
}

template <class Bits>
void where(const uint8_t* condition, const Bits* a, const Bits* b, const Steps& steps, Bits* out,
           int64_t count) {
  if (steps[0] == 0) {
    const Bits* from = *condition != 0 ? a : b;
    const int64_t step = *condition != 0 ? steps[1] : steps[2];
    if (step == 0) {
      std::fill_n(out, count, *from);
    } else {
      std::copy_n(from, count, out);
    }
    return;
  }
  int64_t i = 0;
  if constexpr (sizeof(Bits) >= 4) {
    const hn::ScalableTag<Bits> d;
    const auto first_a = hn::Set(d, *a);
    const auto first_b = hn::Set(d, *b);
    for (; i + lanes(d) <= count; i += lanes(d)) {
      const auto chosen = steps[1] == 1 ? hn::LoadU(d, a + i) : first_a;
      const auto other = steps[2] == 1 ? hn::LoadU(d, b + i) : first_b;
      hn::StoreU(hn::IfThenElse(mask_of(d, condition + i), chosen, other), d, out + i);
    }
  }
  for (; i < count; ++i) {
    out[i] = condition[i] != 0 ? a[i * steps[1]] : b[i * steps[2]];
  }
}

WhereFn<uint8_t> where_1_byte() { return where<uint8_t>; }
WhereFn<uint16_t> where_2_bytes() { return where<uint16_t>; }
WhereFn<uint32_t> where_4_bytes() { return where<uint32_t>; }
WhereFn<uint64_t> where_8_bytes() { return where<uint64_t>; }

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels::cpu {
namespace {

HWY_EXPORT(selection_float32);
HWY_EXPORT(selection_float64);
HWY_EXPORT(where_1_byte);
HWY_EXPORT(where_2_bytes);
HWY_EXPORT(where_4_bytes);
HWY_EXPORT(where_8_bytes);

using op::ExecutablePtr;
using op::Launch;
using op::Signature;

template <class Bits>
ExecutablePtr prepared(const Signature& s, WhereFn<Bits> run) {
  Nest<3> outer = broadcast_nest<3>(s);
  const Axis<3> inner = outer.take_inner();
  return op::executable([outer, inner_size = inner.size, steps = inner.strides, run,
                         split = RowSplit(s.outputs[0].shape)](const Launch& launch) {
    const auto [begin, end] = split.part(launch);
    const auto* condition = launch.in<uint8_t>(0);
    const auto* a = launch.in<Bits>(1);
    const auto* b = launch.in<Bits>(2);
    Bits* out = launch.out<Bits>(0);
    for_each_run(outer, inner_size, begin, end,
                 [&](const Position<3>& at, int64_t first, int64_t count, int64_t index) {
                   run(condition + at.offset(0) + first * steps[0],
                       a + at.offset(1) + first * steps[1], b + at.offset(2) + first * steps[2],
                       steps, out + index, count);
                 });
  });
}

ExecutablePtr prepare_where(const Signature& s, int) {
  switch (size_of(s.outputs[0].dtype)) {
    case 1:
      return prepared(s, HWY_DYNAMIC_DISPATCH(where_1_byte)());
    case 2:
      return prepared(s, HWY_DYNAMIC_DISPATCH(where_2_bytes)());
    case 4:
      return prepared(s, HWY_DYNAMIC_DISPATCH(where_4_bytes)());
    default:
      return prepared(s, HWY_DYNAMIC_DISPATCH(where_8_bytes)());
  }
}

}  // namespace

template <>
Functions<float> selection_functions(Table table) {
  return table == Table::fastest ? HWY_DYNAMIC_DISPATCH(selection_float32)()
                                 : HWY_STATIC_DISPATCH(selection_float32)();
}
template <>
Functions<double> selection_functions(Table table) {
  return table == Table::fastest ? HWY_DYNAMIC_DISPATCH(selection_float64)()
                                 : HWY_STATIC_DISPATCH(selection_float64)();
}

void register_selection(op::BackendKernels& kernels) {
  kernels.add("where", {DType::boolean}, prepare_where);
}

}  // namespace tandem::kernels::cpu
#endif

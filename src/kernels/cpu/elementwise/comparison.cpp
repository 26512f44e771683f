// Comparisons and logic, whose results are bools.
//
// This file is compiled once per instruction set; the best one is chosen when a kernel is prepared.
#include <cmath>
#include <cstdint>
#include <functional>

#include "kernels/nest.h"
#include "kernels/part.h"
#include "op/registry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise/comparison.cpp"
#include <hwy/foreach_target.h>
// These come after foreach_target.h, which sets what they expand to.
#include <hwy/highway.h>

#include "kernels/cpu/simd.h"

#ifndef TANDEM_COMPARISON_ONCE
#define TANDEM_COMPARISON_ONCE
namespace tandem::kernels::cpu {
namespace {

/// One run; an operand moves by its step, 1 or 0, with each element.
template <class T>
using CompareFn = void (*)(const T* a, const T* b, int64_t step_a, int64_t step_b, bool* out,
                           int64_t count);

enum class Comparison { equal, not_equal, less, less_equal, greater, greater_equal };

}  // namespace
}  // namespace tandem::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

template <Comparison kComparison, class V>
HWY_INLINE auto compared(V a, V b) {
  switch (kComparison) {
    case Comparison::equal:
      return hn::Eq(a, b);
    case Comparison::not_equal:
      return hn::Not(hn::Eq(a, b));  // NaN differs from everything; Ne would say it does not.
    case Comparison::less:
      return hn::Lt(a, b);
    case Comparison::less_equal:
      return hn::Le(a, b);
    case Comparison::greater:
      return hn::Gt(a, b);
    default:
      return hn::Ge(a, b);
  }
}

/// Compares vectors of float32; the masks become words and then bytes of 0 or 1.
template <Comparison kComparison>
void compare(const float* a, const float* b, int64_t step_a, int64_t step_b, bool* out,
             int64_t count) {
  if (count == 0) return;
  auto* bytes = reinterpret_cast<uint8_t*>(out);
  const float first_a = *a;
  const float first_b = *b;
  for_vectors<float>(count, [&](auto d, int64_t i) HWY_ATTR {
    const hn::Rebind<int32_t, decltype(d)> words;
    const hn::Rebind<uint8_t, decltype(d)> narrow;
    const auto left = step_a == 1 ? hn::LoadU(d, a + i) : hn::Set(d, first_a);
    const auto right = step_b == 1 ? hn::LoadU(d, b + i) : hn::Set(d, first_b);
    const auto mask = hn::RebindMask(words, compared<kComparison>(left, right));
    hn::StoreU(hn::DemoteTo(narrow, hn::IfThenElseZero(mask, hn::Set(words, 1))), narrow,
               bytes + i);
  });
}

CompareFn<float> compare_float32(Comparison comparison) {
  switch (comparison) {
    case Comparison::equal:
      return compare<Comparison::equal>;
    case Comparison::not_equal:
      return compare<Comparison::not_equal>;
    case Comparison::less:
      return compare<Comparison::less>;
    case Comparison::less_equal:
      return compare<Comparison::less_equal>;
    case Comparison::greater:
      return compare<Comparison::greater>;
    default:
      return compare<Comparison::greater_equal>;
  }
}

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels::cpu {
namespace {

HWY_EXPORT(compare_float32);

using op::ExecutablePtr;
using op::Launch;
using op::PrepareFn;
using op::Registry;
using op::Signature;

template <class T, class F>
void run_plain(const T* a, const T* b, int64_t step_a, int64_t step_b, bool* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = F()(a[i * step_a], b[i * step_b]);
}

template <class T>
ExecutablePtr prepared(const Signature& s, CompareFn<T> run) {
  Nest<2> outer = broadcast_nest<2>(s);
  const Axis<2> inner = outer.take_inner();
  return op::executable([outer, inner, run, split = RowSplit(s.outputs[0].shape)](const Launch& l) {
    const auto [begin, end] = split.part(l);
    const auto [step_a, step_b] = inner.strides;
    for_each_run(outer, inner.size, begin, end,
                 [&, step_a = step_a, step_b = step_b](const Position<2>& at, int64_t first,
                                                       int64_t count, int64_t index) {
                   run(l.in<T>(0) + at.offset(0) + first * step_a,
                       l.in<T>(1) + at.offset(1) + first * step_b, step_a, step_b,
                       l.out<bool>(0) + index, count);
                 });
  });
}

template <class T, class F>
PrepareFn plain() {
  return [](const Signature& s, int) { return prepared<T>(s, run_plain<T, F>); };
}

PrepareFn vectors(Comparison comparison) {
  return [comparison](const Signature& s, int) {
    return prepared<float>(s, HWY_DYNAMIC_DISPATCH(compare_float32)(comparison));
  };
}

template <template <class> class F, class... T>
void add_comparison(op::BackendKernels& kernels, const char* name, Comparison comparison) {
  kernels.add(name, {DType::float32}, vectors(comparison));
  (kernels.add(name, {dtype_of<T>}, plain<T, F<T>>()), ...);
}

template <class T, class F>
ExecutablePtr prepare_test(const Signature& s, int) {
  return op::executable([split = RowSplit(s.outputs[0].shape)](const Launch& launch) {
    const auto [begin, end] = split.part(launch);
    const T* x = launch.in<T>(0);
    bool* out = launch.out<bool>(0);
    for (int64_t i = begin; i < end; ++i) out[i] = F()(x[i]);
  });
}

struct IsNan {
  template <class T>
  bool operator()(T x) const {
    return std::isnan(x);
  }
};
struct IsInf {
  template <class T>
  bool operator()(T x) const {
    return std::isinf(x);
  }
};
struct IsFinite {
  template <class T>
  bool operator()(T x) const {
    return std::isfinite(x);
  }
};

template <class T>
void register_tests(op::BackendKernels& kernels) {
  kernels.add("is_nan", {dtype_of<T>}, prepare_test<T, IsNan>);
  kernels.add("is_inf", {dtype_of<T>}, prepare_test<T, IsInf>);
  kernels.add("is_finite", {dtype_of<T>}, prepare_test<T, IsFinite>);
}

}  // namespace

void register_comparison(op::BackendKernels& r) {
  using std::equal_to, std::not_equal_to, std::less, std::less_equal, std::greater,
      std::greater_equal;
  add_comparison<equal_to, double, int32_t, int64_t, uint8_t, bool>(r, "equal", Comparison::equal);
  add_comparison<not_equal_to, double, int32_t, int64_t, uint8_t, bool>(r, "not_equal",
                                                                        Comparison::not_equal);
  add_comparison<less, double, int32_t, int64_t, uint8_t>(r, "less", Comparison::less);
  add_comparison<less_equal, double, int32_t, int64_t, uint8_t>(r, "less_equal",
                                                                Comparison::less_equal);
  add_comparison<greater, double, int32_t, int64_t, uint8_t>(r, "greater", Comparison::greater);
  add_comparison<greater_equal, double, int32_t, int64_t, uint8_t>(r, "greater_equal",
                                                                   Comparison::greater_equal);
  const std::vector<DType> bools = {DType::boolean};
  r.add("logical_and", bools, plain<bool, std::logical_and<bool>>());
  r.add("logical_or", bools, plain<bool, std::logical_or<bool>>());
  r.add("logical_xor", bools, plain<bool, not_equal_to<bool>>());
  r.add("logical_not", bools, prepare_test<bool, std::logical_not<bool>>);
  register_tests<float>(r);
  register_tests<double>(r);
}

}  // namespace tandem::kernels::cpu
#endif

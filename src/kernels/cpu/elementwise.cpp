// This file is compiled once per instruction set; the best one is chosen when a kernel is prepared.
#include <cstdint>
#include <functional>

#include "kernels/cpu/nest.h"
#include "kernels/cpu/part.h"
#include "kernels/cpu/wrapping.h"
#include "op/registry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets what they expand to.
#include <hwy/highway.h>

#include "kernels/cpu/simd.h"

#ifndef TANDEM_ELEMENTWISE_ONCE
#define TANDEM_ELEMENTWISE_ONCE
namespace tandem::kernels::cpu {
namespace {

enum class Function { add, sub, mul, relu_grad };

/// The loops of out = f(a, b): inner runs along which each side goes on or stays.
struct BinaryLoops {
  Nest<2> outer;
  Axis<2> inner;
};

template <class T>
using BinaryFn = void (*)(const BinaryLoops& loops, const T* a, const T* b, T* out, int64_t begin,
                          int64_t end);
template <class T>
using UnaryFn = void (*)(const T* x, T* out, int64_t count);

}  // namespace
}  // namespace tandem::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

struct Add {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Add(a, b);
  }
};

struct Sub {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Sub(a, b);
  }
};

struct Mul {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Mul(a, b);
  }
};

struct ReluGrad {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V g, V y) const {
    return hn::IfThenElseZero(hn::Gt(y, hn::Zero(d)), g);
  }
};

/// One side of an inner run: it goes on along the run, or stays.
template <class T, bool kGoesOn>
struct Side {
  const T* p;
  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, int64_t i) const {
    if constexpr (kGoesOn) {
      return hn::LoadU(d, p + i);
    } else {
      return hn::Set(d, *p);
    }
  }
};

template <class F, class T, bool kA, bool kB>
void binary(const BinaryLoops& loops, const T* a, const T* b, T* out, int64_t begin, int64_t end) {
  const auto visit = [&](const Position<2>& at, int64_t first, int64_t count, int64_t index)
                         HWY_ATTR {
                           const Side<T, kA> left{a + at.offset(0) + (kA ? first : 0)};
                           const Side<T, kB> right{b + at.offset(1) + (kB ? first : 0)};
                           T* to = out + index;
                           for_vectors<T>(count, [&](auto d, int64_t i) HWY_ATTR {
                             hn::StoreU(F()(d, left.load(d, i), right.load(d, i)), d, to + i);
                           });
                         };
  for_each_run(loops.outer, loops.inner.size, begin, end, visit);
}

template <class F, class T>
BinaryFn<T> along(bool a, bool b) {
  if (a == b) return binary<F, T, true, true>;  // Both stay: a run of one point.
  return a ? binary<F, T, true, false> : binary<F, T, false, true>;
}

template <class T>
BinaryFn<T> select_binary(Function function, bool a, bool b) {
  switch (function) {
    case Function::add:
      return along<Add, T>(a, b);
    case Function::sub:
      return along<Sub, T>(a, b);
    case Function::mul:
      return along<Mul, T>(a, b);
    case Function::relu_grad:
      return along<ReluGrad, T>(a, b);
  }
  return nullptr;
}

/// Not by a maximum, which would turn NaN into 0 on some instruction sets.
template <class T>
void relu(const T* x, T* out, int64_t count) {
  for_vectors<T>(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, x + i);
    hn::StoreU(hn::IfThenZeroElse(hn::Lt(v, hn::Zero(d)), v), d, out + i);
  });
}

BinaryFn<float> binary_float32(Function function, bool a, bool b) {
  return select_binary<float>(function, a, b);
}
BinaryFn<double> binary_float64(Function function, bool a, bool b) {
  return select_binary<double>(function, a, b);
}
UnaryFn<float> relu_float32() { return relu<float>; }
UnaryFn<double> relu_float64() { return relu<double>; }

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels::cpu {
namespace {

HWY_EXPORT(binary_float32);
HWY_EXPORT(binary_float64);
HWY_EXPORT(relu_float32);
HWY_EXPORT(relu_float64);

using op::ExecutablePtr;
using op::Launch;
using op::Registry;
using op::Signature;

BinaryFn<float> best_binary(Function f, bool a, bool b, float) {
  return HWY_DYNAMIC_DISPATCH(binary_float32)(f, a, b);
}
BinaryFn<double> best_binary(Function f, bool a, bool b, double) {
  return HWY_DYNAMIC_DISPATCH(binary_float64)(f, a, b);
}
UnaryFn<float> best_relu(float) { return HWY_DYNAMIC_DISPATCH(relu_float32)(); }
UnaryFn<double> best_relu(double) { return HWY_DYNAMIC_DISPATCH(relu_float64)(); }

BinaryLoops loops_of(const Signature& s) {
  const Shape& out = s.outputs[0].shape;
  BinaryLoops loops;
  for (int axis = 0; axis < out.rank(); ++axis) {
    loops.outer.add({out[axis],
                     {broadcast_stride(s.inputs[0].shape, out, axis),
                      broadcast_stride(s.inputs[1].shape, out, axis)}});
  }
  loops.inner = loops.outer.take_inner();
  return loops;
}

template <class T>
op::PrepareFn prepare_binary(Function function) {
  return [function](const Signature& s, int) {
    const BinaryLoops loops = loops_of(s);
    const auto run =
        best_binary(function, loops.inner.strides[0] != 0, loops.inner.strides[1] != 0, T());
    return op::executable([loops, run, split = RowSplit(s.outputs[0].shape)](const Launch& launch) {
      const auto [begin, end] = split.part(launch);
      run(loops, launch.in<T>(0), launch.in<T>(1), launch.out<T>(0), begin, end);
    });
  };
}

template <class T>
ExecutablePtr prepare_relu(const Signature& s, int) {
  return op::executable(
      [run = best_relu(T()), split = RowSplit(s.outputs[0].shape)](const Launch& launch) {
        const auto [begin, end] = split.part(launch);
        run(launch.in<T>(0) + begin, launch.out<T>(0) + begin, end - begin);
      });
}

/// Loops without vectors, for types and functions whose speed does not matter.
template <class T, class Out, class F>
ExecutablePtr prepare_plain(const Signature& s, int) {
  return op::executable(
      [loops = loops_of(s), split = RowSplit(s.outputs[0].shape)](const Launch& launch) {
        const auto [begin, end] = split.part(launch);
        const auto [step_a, step_b] = loops.inner.strides;
        for_each_run(loops.outer, loops.inner.size, begin, end,
                     [&, step_a = step_a, step_b = step_b](const Position<2>& at, int64_t first,
                                                           int64_t count, int64_t index) {
                       const T* a = launch.in<T>(0) + at.offset(0) + first * step_a;
                       const T* b = launch.in<T>(1) + at.offset(1) + first * step_b;
                       Out* out = launch.out<Out>(0) + index;
                       for (int64_t i = 0; i < count; ++i)
                         out[i] = F()(a[i * step_a], b[i * step_b]);
                     });
      });
}

template <class T>
void register_floating(Registry& registry) {
  const auto add = [&](const char* name, const op::PrepareFn& prepare) {
    registry.add_kernel(name, "cpu", {dtype_of<T>}, prepare);
  };
  add("add", prepare_binary<T>(Function::add));
  add("sub", prepare_binary<T>(Function::sub));
  add("mul", prepare_binary<T>(Function::mul));
  add("relu", prepare_relu<T>);
  add("relu_grad", prepare_binary<T>(Function::relu_grad));
}

template <class T>
void register_whole(Registry& registry) {
  registry.add_kernel("add", "cpu", {dtype_of<T>}, prepare_plain<T, T, Wrapping<std::plus>>);
  registry.add_kernel("sub", "cpu", {dtype_of<T>}, prepare_plain<T, T, Wrapping<std::minus>>);
  registry.add_kernel("mul", "cpu", {dtype_of<T>}, prepare_plain<T, T, Wrapping<std::multiplies>>);
}

template <class... T>
void register_equal(Registry& registry) {
  (registry.add_kernel("equal", "cpu", {dtype_of<T>}, prepare_plain<T, bool, std::equal_to<T>>),
   ...);
}

}  // namespace

void register_elementwise(Registry& registry) {
  register_floating<float>(registry);
  register_floating<double>(registry);
  register_whole<int32_t>(registry);
  register_whole<int64_t>(registry);
  register_equal<float, double, int32_t, int64_t, uint8_t, bool>(registry);
}

}  // namespace tandem::kernels::cpu
#endif

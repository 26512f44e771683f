// Layer normalisation and its gradients. Each line is normalised by its own mean and deviation.
//
// This file is compiled once per instruction set; the best one is chosen when a kernel is prepared.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>

#include "op/registry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/normalization/layer_norm.cpp"
#include <hwy/foreach_target.h>
// These come after foreach_target.h, which sets what they expand to.
#include <hwy/highway.h>

#include "kernels/cpu/simd.h"

#ifndef TANDEM_LAYER_NORM_ONCE
#define TANDEM_LAYER_NORM_ONCE
namespace tandem::kernels::cpu {
namespace {

template <class T>
struct Statistics {
  T mean, inverse;
};

template <class T>
struct LayerNormFns {
  Statistics<T> (*line)(const T* x, const T* gamma, const T* beta, T* y, int64_t count, T epsilon);
  void (*grad)(const T* g, const T* x, Statistics<T> at, const T* gamma, T* out, int64_t count);
  /// Adds g (x - mean) inverse to `gamma`, and g to `beta`.
  void (*add)(const T* g, const T* x, Statistics<T> at, T* gamma, T* beta, int64_t count);
};

}  // namespace
}  // namespace tandem::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

/// The sum of term(tag, i) over a line.
template <class T, class Term>
HWY_INLINE T sum_line(int64_t count, const Term& term) {
  const hn::ScalableTag<T> d;
  const int64_t n = lanes(d);
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 4 * n <= count; i += 4 * n) {
    s0 = hn::Add(s0, term(d, i));
    s1 = hn::Add(s1, term(d, i + n));
    s2 = hn::Add(s2, term(d, i + 2 * n));
    s3 = hn::Add(s3, term(d, i + 3 * n));
  }
  for (; i + n <= count; i += n) s0 = hn::Add(s0, term(d, i));
  T sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  const hn::CappedTag<T, 1> one;
  for (; i < count; ++i) sum += hn::GetLane(term(one, i));
  return sum;
}

template <class T>
Statistics<T> line(const T* x, const T* gamma, const T* beta, T* y, int64_t count, T epsilon) {
  const T mean =
      sum_line<T>(count, [&](auto d, int64_t i) HWY_ATTR { return hn::LoadU(d, x + i); }) /
      static_cast<T>(count);
  const T squares = sum_line<T>(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto distance = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
    return hn::Mul(distance, distance);
  });
  const T inverse = T(1) / std::sqrt(squares / static_cast<T>(count) + epsilon);
  for_vectors<T>(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto n = hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean)), hn::Set(d, inverse));
    hn::StoreU(hn::MulAdd(n, hn::LoadU(d, gamma + i), hn::LoadU(d, beta + i)), d, y + i);
  });
  return {mean, inverse};
}

/// inverse (v - mean of v - n (mean of v n)) with v = g gamma, n = (x - mean) inverse.
template <class T>
void grad(const T* g, const T* x, Statistics<T> at, const T* gamma, T* out, int64_t count) {
  const auto v = [&](auto d, int64_t i)
                     HWY_ATTR { return hn::Mul(hn::LoadU(d, g + i), hn::LoadU(d, gamma + i)); };
  const auto n = [&](auto d, int64_t i) HWY_ATTR {
    return hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, at.mean)), hn::Set(d, at.inverse));
  };
  const T mean_v = sum_line<T>(count, v) / static_cast<T>(count);
  const T mean_vn =
      sum_line<T>(count, [&](auto d, int64_t i) HWY_ATTR { return hn::Mul(v(d, i), n(d, i)); }) /
      static_cast<T>(count);
  for_vectors<T>(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto rest = hn::Sub(v(d, i), hn::Set(d, mean_v));
    hn::StoreU(hn::Mul(hn::NegMulAdd(n(d, i), hn::Set(d, mean_vn), rest), hn::Set(d, at.inverse)),
               d, out + i);
  });
}

template <class T>
void add(const T* g, const T* x, Statistics<T> at, T* gamma, T* beta, int64_t count) {
  for_vectors<T>(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto gradient = hn::LoadU(d, g + i);
    const auto n =
        hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, at.mean)), hn::Set(d, at.inverse));
    hn::StoreU(hn::MulAdd(gradient, n, hn::LoadU(d, gamma + i)), d, gamma + i);
    hn::StoreU(hn::Add(gradient, hn::LoadU(d, beta + i)), d, beta + i);
  });
}

LayerNormFns<float> layer_norm_float32() { return {line<float>, grad<float>, add<float>}; }
LayerNormFns<double> layer_norm_float64() { return {line<double>, grad<double>, add<double>}; }

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels::cpu {
namespace {

HWY_EXPORT(layer_norm_float32);
HWY_EXPORT(layer_norm_float64);

LayerNormFns<float> best(float) { return HWY_DYNAMIC_DISPATCH(layer_norm_float32)(); }
LayerNormFns<double> best(double) { return HWY_DYNAMIC_DISPATCH(layer_norm_float64)(); }

using op::Launch;
using op::Signature;

/// A tensor seen as lines of elements.
struct Lines {
  explicit Lines(const Signature& s) {
    const Shape& shape = s.inputs[0].shape;
    const auto axis = static_cast<int>(s.attrs.get<int64_t>("axis"));
    for (int i = 0; i < shape.rank(); ++i) (i < axis ? lines : length) *= shape[i];
  }

  int64_t lines = 1, length = 1;
};

template <class T>
op::ExecutablePtr prepare_forward(const Signature& s, int) {
  return op::executable(
      [shape = Lines(s), fns = best(T()),
       epsilon = static_cast<T>(s.attrs.get<double>("epsilon"))](const Launch& launch) {
        const auto [begin, end] = op::part_of(shape.lines, launch);
        for (int64_t i = begin; i < end; ++i) {
          const int64_t at = i * shape.length;
          const auto [mean, inverse] =
              shape.length == 0 ? Statistics<T>{0, 0}
                                : fns.line(launch.in<T>(0) + at, launch.in<T>(1), launch.in<T>(2),
                                           launch.out<T>(0) + at, shape.length, epsilon);
          launch.out<T>(1)[i] = mean;
          launch.out<T>(2)[i] = inverse;
        }
      });
}

template <class T>
op::ExecutablePtr prepare_grad(const Signature& s, int) {
  return op::executable([shape = Lines(s), fns = best(T())](const Launch& launch) {
    const auto [begin, end] = op::part_of(shape.lines, launch);
    if (shape.length == 0) return;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = i * shape.length;
      fns.grad(launch.in<T>(0) + at, launch.in<T>(1) + at, {launch.in<T>(2)[i], launch.in<T>(3)[i]},
               launch.in<T>(4), launch.out<T>(0) + at, shape.length);
    }
  });
}

/// Each thread sums over its lines into its workspace, then each joins some elements.
template <class T>
class ParameterGradient final : public op::Executable {
 public:
  ParameterGradient(const Signature& s, int parts)
      : shape_(s), fns_(best(T())), alone_(parts == 1) {}

  void run(const Launch& launch) const override { launch.phase == 0 ? sum(launch) : join(launch); }
  int phases() const override { return alone_ ? 1 : 2; }
  size_t workspace_bytes() const override {
    return alone_ ? 0 : 2 * static_cast<size_t>(shape_.length) * sizeof(T);
  }

 private:
  void sum(const Launch& launch) const {
    T* gamma = alone_ ? launch.out<T>(0) : launch.workspace<T>();
    T* beta = alone_ ? launch.out<T>(1) : gamma + shape_.length;
    std::fill_n(gamma, shape_.length, T(0));
    std::fill_n(beta, shape_.length, T(0));
    const auto [begin, end] = op::part_of(shape_.lines, launch);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = i * shape_.length;
      fns_.add(launch.in<T>(0) + at, launch.in<T>(1) + at, {launch.in<T>(2)[i], launch.in<T>(3)[i]},
               gamma, beta, shape_.length);
    }
  }

  void join(const Launch& launch) const {
    const auto [begin, end] = op::part_of(shape_.length, launch);
    for (int output = 0; output < 2; ++output) {
      T* out = launch.out<T>(output);
      std::fill(out + begin, out + end, T(0));
      for (int part = 0; part < launch.parts; ++part) {
        const T* own = launch.workspace<T>(part) + output * shape_.length;
        for (int64_t i = begin; i < end; ++i) out[i] += own[i];
      }
    }
  }

  const Lines shape_;
  const LayerNormFns<T> fns_;
  const bool alone_;
};

template <class T>
void register_for(op::BackendKernels& kernels) {
  const auto add = [&](const char* name, const op::PrepareFn& prepare) {
    kernels.add(name, {dtype_of<T>}, prepare);
  };
  add("layer_norm", prepare_forward<T>);
  add("layer_norm_grad", prepare_grad<T>);
  add("layer_norm_parameter_grad", [](const Signature& s, int parts) {
    return std::make_shared<ParameterGradient<T>>(s, parts);
  });
}

}  // namespace

void register_layer_norm(op::BackendKernels& kernels) {
  register_for<float>(kernels);
  register_for<double>(kernels);
}

}  // namespace tandem::kernels::cpu
#endif

// This file is compiled once per instruction set; the best one is chosen when a kernel is prepared.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "op/registry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/optimizer.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets what they expand to.
#include <hwy/highway.h>

#include "kernels/cpu/simd.h"

#ifndef TANDEM_OPTIMIZER_ONCE
#define TANDEM_OPTIMIZER_ONCE
namespace tandem::kernels::cpu {
namespace {

/// A run of elements that one step of Adam changes; see ops/optimizer.h for the formula.
template <class T>
struct AdamRun {
  const T* g;
  T* w;
  T* m;
  T* v;
  int64_t count;
};

template <class T>
struct AdamScalars {
  T alpha;
  T one_minus_beta_1;
  T one_minus_beta_2;
  T epsilon;
  T decay;  ///< The part of itself that a weight loses.
};

template <class T>
using AdamFn = void (*)(const AdamRun<T>& run, const AdamScalars<T>& scalars);

}  // namespace
}  // namespace tandem::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

template <class T>
void adam(const AdamRun<T>& at, const AdamScalars<T>& scalars) {
  for_vectors<T>(at.count, [&](auto d, int64_t i) HWY_ATTR {
    const auto g = hn::LoadU(d, at.g + i);
    auto m = hn::LoadU(d, at.m + i);
    auto v = hn::LoadU(d, at.v + i);
    m = hn::MulAdd(hn::Sub(g, m), hn::Set(d, scalars.one_minus_beta_1), m);
    v = hn::MulAdd(hn::Sub(hn::Mul(g, g), v), hn::Set(d, scalars.one_minus_beta_2), v);
    const auto step = hn::Div(hn::Mul(m, hn::Set(d, scalars.alpha)),
                              hn::Add(hn::Sqrt(v), hn::Set(d, scalars.epsilon)));
    hn::StoreU(m, d, at.m + i);
    hn::StoreU(v, d, at.v + i);
    const auto w = hn::LoadU(d, at.w + i);
    const auto kept = hn::NegMulAdd(w, hn::Set(d, scalars.decay), w);
    hn::StoreU(hn::Sub(kept, step), d, at.w + i);
  });
}

AdamFn<float> adam_float32() { return adam<float>; }
AdamFn<double> adam_float64() { return adam<double>; }

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels::cpu {
namespace {

HWY_EXPORT(adam_float32);
HWY_EXPORT(adam_float64);

AdamFn<float> best(float) { return HWY_DYNAMIC_DISPATCH(adam_float32)(); }
AdamFn<double> best(double) { return HWY_DYNAMIC_DISPATCH(adam_float64)(); }

/// Of all variables end to end a thread takes a run of chunks, which may cut and span many of them.
template <class T>
class AdamUpdate final : public op::Executable {
 public:
  explicit AdamUpdate(const op::Signature& s)
      : beta_1_(s.attrs.get<double>("beta_1")),
        beta_2_(s.attrs.get<double>("beta_2")),
        epsilon_(s.attrs.get<double>("epsilon")),
        weight_decay_(s.attrs.get<double>("weight_decay")),
        chunks_(s.op->split(s).extent) {
    for (const op::TensorType& gradient : s.inputs)
      ends_.push_back(elements() + gradient.shape.count());
  }

  void run(const op::Launch& launch) const override {
    const auto [first_chunk, end_chunk] = op::part_of(chunks_, launch);
    int64_t at = first_chunk * op::Split::kChunk;
    const int64_t end = std::min(end_chunk * op::Split::kChunk, elements());
    if (at >= end) return;
    const AdamScalars<T> scalars = scalars_of(launch);
    auto variable = static_cast<size_t>(std::ranges::upper_bound(ends_, at) - ends_.begin());
    for (; at < end; ++variable) {
      const int64_t stop = std::min(ends_[variable], end);
      step_(run_of(launch, variable, at, stop), scalars);
      at = stop;
    }
  }

 private:
  int64_t elements() const { return ends_.empty() ? 0 : ends_.back(); }

  AdamRun<T> run_of(const op::Launch& launch, size_t variable, int64_t begin, int64_t end) const {
    const int64_t offset = begin - (variable == 0 ? 0 : ends_[variable - 1]);
    const int i = static_cast<int>(variable);
    return {launch.in<T>(i) + offset, launch.range<T>(3 * i) + offset,
            launch.range<T>(3 * i + 1) + offset, launch.range<T>(3 * i + 2) + offset, end - begin};
  }

  AdamScalars<T> scalars_of(const op::Launch& launch) const {
    const int first_scalar = 3 * static_cast<int>(ends_.size());
    const auto t = static_cast<double>(*launch.range<int64_t>(first_scalar) + 1);
    const double rate = *launch.range<double>(first_scalar + 1);
    const double alpha = rate * std::sqrt(1 - std::pow(beta_2_, t)) / (1 - std::pow(beta_1_, t));
    return {static_cast<T>(alpha), static_cast<T>(1 - beta_1_), static_cast<T>(1 - beta_2_),
            static_cast<T>(epsilon_), static_cast<T>(rate * weight_decay_)};
  }

  const AdamFn<T> step_ = best(T());
  const double beta_1_, beta_2_, epsilon_, weight_decay_;
  const int64_t chunks_;
  std::vector<int64_t> ends_;  // Of each variable, counted in elements from the first.
};

template <class T>
op::ExecutablePtr prepare_adam(const op::Signature& s, int) {
  return std::make_shared<AdamUpdate<T>>(s);
}

}  // namespace

void register_optimizer(op::Registry& registry) {
  registry.add_kernel("adam_update", "cpu", {DType::float32}, prepare_adam<float>);
  registry.add_kernel("adam_update", "cpu", {DType::float64}, prepare_adam<double>);
}

}  // namespace tandem::kernels::cpu
#endif

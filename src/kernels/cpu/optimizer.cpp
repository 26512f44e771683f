// The update ops of optimizers. One call updates many variables and their slots, a chunk at a time.
//
// This file is compiled once per instruction set; the best one is chosen when a kernel is prepared.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "op/registry.h"
#include "op/update.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/optimizer.cpp"
#include <hwy/foreach_target.h>
// These come after foreach_target.h, which sets what they expand to.
#include <hwy/highway.h>

#include "kernels/cpu/simd.h"

#ifndef TANDEM_OPTIMIZER_ONCE
#define TANDEM_OPTIMIZER_ONCE
namespace tandem::kernels::cpu {
namespace {

/// What is done to one element; see ops/optimizer.h for the formulas.
enum class Rule {
  sgd,
  momentum,
  nesterov,
  rmsprop,
  rmsprop_momentum,
  rmsprop_centered,
  rmsprop_centered_momentum,
  adagrad,
  adam,
  amsgrad,
  add,
  clear,
};

constexpr size_t kMostSlots = 3;

/// A run of elements that one step changes.
template <class T>
struct Run {
  const T* g;
  T* w;
  std::array<T*, kMostSlots> slots;
  int64_t count;
};

/// The numbers of one step.
struct Scalars {
  double rate = 0;      ///< Adam's alpha.
  double decay = 0;     ///< The part of itself that a weight loses.
  double momentum = 0;  ///< The part of the last change that is made again.
  double to_g = 0;      ///< The part of the way that averages of g go towards it,
  double to_g2 = 0;     ///< and those of its square.
  double epsilon = 0;
};

template <class T>
using StepFn = void (*)(const Run<T>& run, const Scalars& scalars);

}  // namespace
}  // namespace tandem::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

template <class D>
HWY_INLINE hn::Vec<D> set(D d, double value) {
  return hn::Set(d, static_cast<hn::TFromD<D>>(value));
}

/// The weights at i less their decay. All threads have read them in this step, so those further on
/// are taken from the other cores early.
template <class D, class T>
HWY_INLINE hn::Vec<D> kept_weight(D d, const Run<T>& at, const Scalars& s, int64_t i) {
  constexpr int64_t kAhead = 768 / sizeof(T);
  prefetch_to_write(at.w + i + kAhead);
  const auto w = hn::LoadU(d, at.w + i);
  return hn::NegMulAdd(w, set(d, s.decay), w);
}

/// An average that goes `part` of the way to `target`; stored, and returned.
template <class D, class T>
HWY_INLINE hn::Vec<D> moved(D d, T* average, hn::Vec<D> target, double part) {
  const auto old = hn::LoadU(d, average);
  const auto now = hn::MulAdd(hn::Sub(target, old), set(d, part), old);
  hn::StoreU(now, d, average);
  return now;
}

template <class T>
void sgd(const Run<T>& at, const Scalars& s) {
  for_vectors<T>(at.count, [&](auto d, int64_t i) HWY_ATTR {
    const auto g = hn::LoadU(d, at.g + i);
    hn::StoreU(hn::NegMulAdd(g, set(d, s.rate), kept_weight(d, at, s, i)), d, at.w + i);
  });
}

template <class T, bool kNesterov>
void momentum(const Run<T>& at, const Scalars& s) {
  for_vectors<T>(at.count, [&](auto d, int64_t i) HWY_ATTR {
    const auto fall = hn::Mul(hn::LoadU(d, at.g + i), set(d, s.rate));
    const auto m = hn::MulSub(hn::LoadU(d, at.slots[0] + i), set(d, s.momentum), fall);
    hn::StoreU(m, d, at.slots[0] + i);
    const auto change = kNesterov ? hn::MulSub(m, set(d, s.momentum), fall) : m;
    hn::StoreU(hn::Add(kept_weight(d, at, s, i), change), d, at.w + i);
  });
}

template <class T, bool kMomentum, bool kCentered>
void rmsprop(const Run<T>& at, const Scalars& s) {
  T* const average = at.slots[kMomentum ? 2 : 1];
  for_vectors<T>(at.count, [&](auto d, int64_t i) HWY_ATTR {
    const auto g = hn::LoadU(d, at.g + i);
    auto v = moved(d, at.slots[0] + i, hn::Mul(g, g), s.to_g2);
    if constexpr (kCentered) {
      const auto a = moved(d, average + i, g, s.to_g);
      v = hn::NegMulAdd(a, a, v);
    }
    auto fall = hn::Div(hn::Mul(g, set(d, s.rate)), hn::Sqrt(hn::Add(v, set(d, s.epsilon))));
    if constexpr (kMomentum) {
      fall = hn::MulAdd(hn::LoadU(d, at.slots[1] + i), set(d, s.momentum), fall);
      hn::StoreU(fall, d, at.slots[1] + i);
    }
    hn::StoreU(hn::Sub(kept_weight(d, at, s, i), fall), d, at.w + i);
  });
}

template <class T>
void adagrad(const Run<T>& at, const Scalars& s) {
  for_vectors<T>(at.count, [&](auto d, int64_t i) HWY_ATTR {
    const auto g = hn::LoadU(d, at.g + i);
    const auto a = hn::MulAdd(g, g, hn::LoadU(d, at.slots[0] + i));
    hn::StoreU(a, d, at.slots[0] + i);
    const auto fall = hn::Div(hn::Mul(g, set(d, s.rate)), hn::Sqrt(hn::Add(a, set(d, s.epsilon))));
    hn::StoreU(hn::Sub(kept_weight(d, at, s, i), fall), d, at.w + i);
  });
}

template <class T, bool kAmsgrad>
void adam(const Run<T>& at, const Scalars& s) {
  for_vectors<T>(at.count, [&](auto d, int64_t i) HWY_ATTR {
    const auto g = hn::LoadU(d, at.g + i);
    const auto m = moved(d, at.slots[0] + i, g, s.to_g);
    auto v = moved(d, at.slots[1] + i, hn::Mul(g, g), s.to_g2);
    if constexpr (kAmsgrad) {
      v = hn::Max(hn::LoadU(d, at.slots[2] + i), v);
      hn::StoreU(v, d, at.slots[2] + i);
    }
    const auto fall = hn::Div(hn::Mul(m, set(d, s.rate)), hn::Add(hn::Sqrt(v), set(d, s.epsilon)));
    hn::StoreU(hn::Sub(kept_weight(d, at, s, i), fall), d, at.w + i);
  });
}

template <class T>
void add(const Run<T>& at, const Scalars&) {
  for_vectors<T>(at.count, [&](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(d, at.w + i), hn::LoadU(d, at.g + i)), d, at.w + i);
  });
}

template <class T>
void clear(const Run<T>& at, const Scalars&) {
  std::fill_n(at.w, at.count, T{0});
}

template <class T>
StepFn<T> step_of(Rule rule) {
  switch (rule) {
    case Rule::sgd:
      return sgd<T>;
    case Rule::momentum:
      return momentum<T, false>;
    case Rule::nesterov:
      return momentum<T, true>;
    case Rule::rmsprop:
      return rmsprop<T, false, false>;
    case Rule::rmsprop_momentum:
      return rmsprop<T, true, false>;
    case Rule::rmsprop_centered:
      return rmsprop<T, false, true>;
    case Rule::rmsprop_centered_momentum:
      return rmsprop<T, true, true>;
    case Rule::adagrad:
      return adagrad<T>;
    case Rule::adam:
      return adam<T, false>;
    case Rule::amsgrad:
      return adam<T, true>;
    case Rule::add:
      return add<T>;
    case Rule::clear:
      return clear<T>;
  }
  return nullptr;
}

StepFn<float> step_float32(Rule rule) { return step_of<float>(rule); }
StepFn<double> step_float64(Rule rule) { return step_of<double>(rule); }

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels::cpu {
namespace {

HWY_EXPORT(step_float32);
HWY_EXPORT(step_float64);

template <class T>
StepFn<T> best(Rule rule) {
  if constexpr (std::is_same_v<T, float>) {
    return HWY_DYNAMIC_DISPATCH(step_float32)(rule);
  } else {
    return HWY_DYNAMIC_DISPATCH(step_float64)(rule);
  }
}

/// The numbers of one step, from the rate and the number of the update, from 1 on.
using ScalarsFn = std::function<Scalars(double rate, double t)>;

/// An update op: what it does in each `every`-th step and in the others, if anything.
struct Algorithm {
  Rule rule;
  ScalarsFn scalars;
  bool adds_meanwhile = false;
};

Algorithm sgd_of(const op::Attrs& attrs) {
  const auto momentum = attrs.get<double>("momentum");
  const auto decay = attrs.get<double>("weight_decay");
  const Rule moving = attrs.get<bool>("nesterov") ? Rule::nesterov : Rule::momentum;
  return {momentum == 0 ? Rule::sgd : moving, [=](double rate, double) {
            return Scalars{.rate = rate, .decay = rate * decay, .momentum = momentum};
          }};
}

Algorithm rmsprop_of(const op::Attrs& attrs) {
  const auto rho = attrs.get<double>("rho");
  const auto momentum = attrs.get<double>("momentum");
  const auto epsilon = attrs.get<double>("epsilon");
  const auto decay = attrs.get<double>("weight_decay");
  const Rule plain = momentum == 0 ? Rule::rmsprop : Rule::rmsprop_momentum;
  const Rule centered = momentum == 0 ? Rule::rmsprop_centered : Rule::rmsprop_centered_momentum;
  return {attrs.get<bool>("centered") ? centered : plain, [=](double rate, double) {
            return Scalars{.rate = rate,
                           .decay = rate * decay,
                           .momentum = momentum,
                           .to_g = 1 - rho,
                           .to_g2 = 1 - rho,
                           .epsilon = epsilon};
          }};
}

Algorithm adagrad_of(const op::Attrs& attrs) {
  const auto epsilon = attrs.get<double>("epsilon");
  const auto decay = attrs.get<double>("weight_decay");
  return {Rule::adagrad, [=](double rate, double) {
            return Scalars{.rate = rate, .decay = rate * decay, .epsilon = epsilon};
          }};
}

Algorithm adam_of(const op::Attrs& attrs) {
  const auto beta_1 = attrs.get<double>("beta_1");
  const auto beta_2 = attrs.get<double>("beta_2");
  const auto epsilon = attrs.get<double>("epsilon");
  const auto decay = attrs.get<double>("weight_decay");
  return {attrs.get<bool>("amsgrad") ? Rule::amsgrad : Rule::adam, [=](double rate, double t) {
            const double alpha =
                rate * std::sqrt(1 - std::pow(beta_2, t)) / (1 - std::pow(beta_1, t));
            return Scalars{.rate = alpha,
                           .decay = rate * decay,
                           .to_g = 1 - beta_1,
                           .to_g2 = 1 - beta_2,
                           .epsilon = epsilon};
          }};
}

Algorithm accumulate_of(const op::Attrs&) {
  return {Rule::clear, [](double, double) { return Scalars{}; }, true};
}

/// A thread takes a run of chunks of all variables, laid end to end; it may cut and span many of
/// them.
template <class T>
class Update final : public op::Executable {
 public:
  Update(const op::Signature& s, const Algorithm& algorithm)
      : step_(best<T>(algorithm.rule)),
        meanwhile_(algorithm.adds_meanwhile ? best<T>(Rule::add) : nullptr),
        scalars_(algorithm.scalars),
        every_(s.attrs.get<int64_t>("every")),
        chunks_(s.op->split(s).extent),
        layout_(s) {}

  void run(const op::Launch& launch) const override {
    const auto [first_chunk, end_chunk] = op::part_of(chunks_, launch);
    int64_t at = first_chunk * op::Split::kChunk;
    const int64_t end = std::min(end_chunk * op::Split::kChunk, layout_.elements());
    const int64_t step = *launch.in<int64_t>(static_cast<int>(layout_.step()));
    const double rate = *launch.in<double>(static_cast<int>(layout_.rate()));
    const StepFn<T> change = (step + 1) % every_ == 0 ? step_ : meanwhile_;
    const bool is_on = *launch.in<bool>(static_cast<int>(layout_.condition()));
    if (at >= end || change == nullptr || !is_on) return;
    const int64_t updates = step / every_ + 1;
    const Scalars scalars = scalars_(rate, static_cast<double>(updates));
    for (size_t variable = layout_.variable_with(at); at < end; ++variable) {
      const int64_t stop = std::min(layout_.start(variable + 1), end);
      change(run_of(launch, variable, at, stop), scalars);
      at = stop;
    }
  }

 private:
  Run<T> run_of(const op::Launch& launch, size_t variable, int64_t begin, int64_t end) const {
    const int64_t offset = begin - layout_.start(variable);
    const auto range = [&](size_t position) {
      return launch.range<T>(static_cast<int>(position)) + offset;
    };
    Run<T> run{launch.in<T>(static_cast<int>(variable)) + offset,
               range(layout_.variable(variable)),
               {},
               end - begin};
    for (size_t k = 0; k < layout_.slots_each(); ++k)
      run.slots[k] = range(layout_.slot(variable, k));
    return run;
  }

  const StepFn<T> step_;
  const StepFn<T> meanwhile_;  // Null where nothing is done.
  const ScalarsFn scalars_;
  const int64_t every_;
  const int64_t chunks_;
  const op::UpdateLayout layout_;
};

template <class T>
void register_for(op::BackendKernels& kernels, const char* name,
                  Algorithm (*algorithm)(const op::Attrs&)) {
  kernels.add(name, {dtype_of<T>}, [algorithm](const op::Signature& s, int) -> op::ExecutablePtr {
    return std::make_shared<Update<T>>(s, algorithm(s.attrs));
  });
}

}  // namespace

void register_optimizer(op::BackendKernels& kernels) {
  const auto add = [&](const char* name, Algorithm (*algorithm)(const op::Attrs&)) {
    register_for<float>(kernels, name, algorithm);
    register_for<double>(kernels, name, algorithm);
  };
  add("sgd_update", sgd_of);
  add("rmsprop_update", rmsprop_of);
  add("adagrad_update", adagrad_of);
  add("adam_update", adam_of);
  add("accumulate_update", accumulate_of);
}

}  // namespace tandem::kernels::cpu
#endif

// The update ops of optimizers. One call updates many variables and their slots, a chunk at a time.
//
// This file is compiled once per instruction set; the best one is chosen when a kernel is prepared.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/update_rules.h"
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

constexpr size_t kMostSlots = 3;

/// A run of elements that one step changes.
template <class T>
struct Run {
  const T* g;
  T* w;
  std::array<T*, kMostSlots> slots;
  int64_t count;
};

template <class T>
using StepFn = void (*)(const Run<T>& run, const UpdateScalars& scalars);

}  // namespace
}  // namespace tandem::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

/// An element, as vectors or as Texts. A rule changes the weight and the slots.
template <class V>
struct Element {
  V g;
  V w;
  V slots[kMostSlots];
};

template <class D>
HWY_INLINE hn::Vec<D> set(D d, double value) {
  return hn::Set(d, static_cast<hn::TFromD<D>>(value));
}
template <class T>
text::Text set(text::TextTag<T> d, double value) {
  return text::constant(d, value);
}

/// A weight less its decay.
template <class D, class V>
HWY_INLINE V kept(D d, V w, const UpdateScalars& s) {
  return hn::NegMulAdd(w, set(d, s.decay), w);
}

/// An average that goes `part` of the way to `target`.
template <class D, class V>
HWY_INLINE V moved(D d, V average, V target, double part) {
  return hn::MulAdd(hn::Sub(target, average), set(d, part), average);
}

struct Sgd {
  static constexpr int kSlots = 0;
  template <class D, class V>
  HWY_INLINE void operator()(D d, const UpdateScalars& s, Element<V>& e) const {
    e.w = hn::NegMulAdd(e.g, set(d, s.rate), kept(d, e.w, s));
  }
};

template <bool kNesterov>
struct Momentum {
  static constexpr int kSlots = 1;
  template <class D, class V>
  HWY_INLINE void operator()(D d, const UpdateScalars& s, Element<V>& e) const {
    const V fall = hn::Mul(e.g, set(d, s.rate));
    V& m = e.slots[0];
    m = hn::MulSub(m, set(d, s.momentum), fall);
    const V change = kNesterov ? hn::MulSub(m, set(d, s.momentum), fall) : m;
    e.w = hn::Add(kept(d, e.w, s), change);
  }
};

template <bool kMomentum, bool kCentered>
struct RmsProp {
  static constexpr int kSlots = 1 + kMomentum + kCentered;
  template <class D, class V>
  HWY_INLINE void operator()(D d, const UpdateScalars& s, Element<V>& e) const {
    e.slots[0] = moved(d, e.slots[0], hn::Mul(e.g, e.g), s.to_g2);
    V v = e.slots[0];
    if constexpr (kCentered) {
      V& a = e.slots[kMomentum ? 2 : 1];
      a = moved(d, a, e.g, s.to_g);
      v = hn::NegMulAdd(a, a, v);
    }
    V fall = hn::Div(hn::Mul(e.g, set(d, s.rate)), hn::Sqrt(hn::Add(v, set(d, s.epsilon))));
    if constexpr (kMomentum) {
      fall = hn::MulAdd(e.slots[1], set(d, s.momentum), fall);
      e.slots[1] = fall;
    }
    e.w = hn::Sub(kept(d, e.w, s), fall);
  }
};

struct Adagrad {
  static constexpr int kSlots = 1;
  template <class D, class V>
  HWY_INLINE void operator()(D d, const UpdateScalars& s, Element<V>& e) const {
    V& a = e.slots[0];
    a = hn::MulAdd(e.g, e.g, a);
    const V fall = hn::Div(hn::Mul(e.g, set(d, s.rate)), hn::Sqrt(hn::Add(a, set(d, s.epsilon))));
    e.w = hn::Sub(kept(d, e.w, s), fall);
  }
};

template <bool kAmsgrad>
struct Adam {
  static constexpr int kSlots = 2 + kAmsgrad;
  template <class D, class V>
  HWY_INLINE void operator()(D d, const UpdateScalars& s, Element<V>& e) const {
    V& m = e.slots[0];
    m = moved(d, m, e.g, s.to_g);
    e.slots[1] = moved(d, e.slots[1], hn::Mul(e.g, e.g), s.to_g2);
    V v = e.slots[1];
    if constexpr (kAmsgrad) {
      v = hn::Max(e.slots[2], v);
      e.slots[2] = v;
    }
    const V fall = hn::Div(hn::Mul(m, set(d, s.rate)), hn::Add(hn::Sqrt(v), set(d, s.epsilon)));
    e.w = hn::Sub(kept(d, e.w, s), fall);
  }
};

struct Add {
  static constexpr int kSlots = 0;
  template <class D, class V>
  HWY_INLINE void operator()(D, const UpdateScalars&, Element<V>& e) const {
    e.w = hn::Add(e.w, e.g);
  }
};

struct Clear {
  static constexpr int kSlots = 0;
  template <class D, class V>
  HWY_INLINE void operator()(D d, const UpdateScalars&, Element<V>& e) const {
    e.w = hn::Zero(d);
  }
};

/// All threads have read the weights in this step, so those further on are taken from the other
/// cores early.
template <class R, class T>
void step(const Run<T>& at, const UpdateScalars& s) {
  constexpr int64_t kAhead = 768 / sizeof(T);
  for_vectors<T>(at.count, [&](auto d, int64_t i) HWY_ATTR {
    prefetch_to_write(at.w + i + kAhead);
    Element<hn::Vec<decltype(d)>> e;
    e.g = hn::LoadU(d, at.g + i);
    e.w = hn::LoadU(d, at.w + i);
    for (int k = 0; k < R::kSlots; ++k)
      e.slots[k] = hn::LoadU(d, at.slots[static_cast<size_t>(k)] + i);
    R()(d, s, e);
    for (int k = 0; k < R::kSlots; ++k)
      hn::StoreU(e.slots[k], d, at.slots[static_cast<size_t>(k)] + i);
    hn::StoreU(e.w, d, at.w + i);
  });
}

/// Calls f with the rule.
template <class F>
auto with_rule(Rule rule, F f) {
  switch (rule) {
    case Rule::sgd:
      return f(Sgd());
    case Rule::momentum:
      return f(Momentum<false>());
    case Rule::nesterov:
      return f(Momentum<true>());
    case Rule::rmsprop:
      return f(RmsProp<false, false>());
    case Rule::rmsprop_momentum:
      return f(RmsProp<true, false>());
    case Rule::rmsprop_centered:
      return f(RmsProp<false, true>());
    case Rule::rmsprop_centered_momentum:
      return f(RmsProp<true, true>());
    case Rule::adagrad:
      return f(Adagrad());
    case Rule::adam:
      return f(Adam<false>());
    case Rule::amsgrad:
      return f(Adam<true>());
    case Rule::add:
      return f(Add());
    case Rule::clear:
      break;
  }
  return f(Clear());
}

template <class T>
StepFn<T> step_of(Rule rule) {
  return with_rule(rule, []<class R>(R) -> StepFn<T> { return step<R, T>; });
}

StepFn<float> step_float32(Rule rule) { return step_of<float>(rule); }
StepFn<double> step_float64(Rule rule) { return step_of<double>(rule); }

#if HWY_ONCE
template <class T>
RuleText print(Rule rule) {
  text::Listing listing;
  const text::TextTag<T> d{&listing};
  UpdateScalars s;
  int parameter = 0;
  for (double* scalar : {&s.rate, &s.decay, &s.momentum, &s.to_g, &s.to_g2, &s.epsilon}) {
    *scalar = text::parameter(parameter++);
  }
  return with_rule(rule, [&]<class R>(R apply) {
    Element<text::Text> e{{&listing, "g"}, {&listing, "w"}, {}};
    for (int k = 0; k < R::kSlots; ++k) e.slots[k] = {&listing, fmt::format("s{}", k)};
    apply(d, s, e);
    RuleText result{listing.str(), e.w.name, {}};
    for (int k = 0; k < R::kSlots; ++k) result.slots.push_back(e.slots[k].name);
    return result;
  });
}

RuleText print_float32(Rule rule) { return print<float>(rule); }
RuleText print_float64(Rule rule) { return print<double>(rule); }
#endif

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

/// A thread takes a run of chunks of all variables, laid end to end; it may cut and span many of
/// them.
template <class T>
class Update final : public op::Executable {
 public:
  Update(const op::Signature& s, const Algorithm& algorithm)
      : step_(best<T>(algorithm.rule)),
        meanwhile_(algorithm.adds_meanwhile ? best<T>(Rule::add) : nullptr),
        algorithm_(algorithm),
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
    const UpdateScalars scalars = algorithm_.scalars(rate, static_cast<double>(updates));
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
  const Algorithm algorithm_;
  const int64_t every_;
  const int64_t chunks_;
  const op::UpdateLayout layout_;
};

template <class T>
op::ExecutablePtr prepare(const op::Signature& s, int) {
  return std::make_shared<Update<T>>(s, algorithm_of(s.op->name, s.attrs));
}

}  // namespace

void register_optimizer(op::BackendKernels& kernels) {
  for (const char* name :
       {"sgd_update", "rmsprop_update", "adagrad_update", "adam_update", "accumulate_update"}) {
    kernels.add(name, {DType::float32}, prepare<float>);
    kernels.add(name, {DType::float64}, prepare<double>);
  }
}

}  // namespace tandem::kernels::cpu

namespace tandem::kernels {

template <>
RuleText print_rule<float>(Rule rule) {
  return cpu::HWY_STATIC_DISPATCH(print_float32)(rule);
}
template <>
RuleText print_rule<double>(Rule rule) {
  return cpu::HWY_STATIC_DISPATCH(print_float64)(rule);
}

}  // namespace tandem::kernels
#endif

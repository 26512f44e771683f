/// Learning rates that change from step to step, given to an optimizer in place of a number:
///
///   Adam(schedules::CosineDecay(0.0, 9000, {.warmup_target = 1e-3, .warmup_steps = 1000}))
///
/// A schedule is a function of the step, computed where the update is: in a compiled step it is
/// part of the program. Names, defaults and arithmetic are Keras's, in float64.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tandem/tensor.h"

namespace tandem::keras::optimizers::schedules {

/// The handle is cheap, and copies are the same schedule.
class TANDEM_API LearningRateSchedule {
 public:
  /// The rate, a scalar of a floating dtype, at the step, a scalar int64 tensor.
  using Rate = std::function<Tensor(const Tensor& step)>;

  /// One's own. It may be traced: what it does with tensors counts, not with what is around them.
  explicit LearningRateSchedule(Rate rate) : rate_(std::move(rate)) {}

  /// The rate of a step, a float64 scalar. Throws InvalidArgument when it is no scalar.
  Tensor operator()(const Tensor& step) const;

 private:
  Rate rate_;
};

struct ExponentialDecayOptions {
  bool staircase = false;  ///< Only whole multiples of decay_steps count.
};

/// initial_learning_rate * decay_rate ^ (step / decay_steps). Throws InvalidArgument unless
/// decay_steps > 0, as the others do.
class TANDEM_API ExponentialDecay : public LearningRateSchedule {
 public:
  ExponentialDecay(double initial_learning_rate, int64_t decay_steps, double decay_rate,
                   const ExponentialDecayOptions& options = {});
};

struct CosineDecayOptions {
  double alpha = 0;  ///< What is left in the end, as a part of where the decay began.
  std::optional<double> warmup_target{};
  int64_t warmup_steps = 0;
};

/// The rate falls from initial_learning_rate along half a cosine to alpha of it, in decay_steps
/// (Loshchilov and Hutter, 2016). With a warmup_target it first goes from initial_learning_rate to
/// the target along a line, in warmup_steps, and decays from there.
class TANDEM_API CosineDecay : public LearningRateSchedule {
 public:
  CosineDecay(double initial_learning_rate, int64_t decay_steps,
              const CosineDecayOptions& options = {});
};

/// values[0] up to and including step boundaries[0], values[1] up to boundaries[1], and so on; the
/// last after the last boundary. Throws InvalidArgument unless boundaries rise and there is one
/// value more than boundaries.
class TANDEM_API PiecewiseConstantDecay : public LearningRateSchedule {
 public:
  PiecewiseConstantDecay(const std::vector<int64_t>& boundaries, const std::vector<double>& values);
};

struct PolynomialDecayOptions {
  double end_learning_rate = 0.0001;
  double power = 1;
  bool cycle = false;  ///< decay_steps becomes its first multiple that the step does not exceed.
};

/// end + (initial_learning_rate - end) * (1 - step / decay_steps) ^ power, and `end` from
/// decay_steps on.
class TANDEM_API PolynomialDecay : public LearningRateSchedule {
 public:
  PolynomialDecay(double initial_learning_rate, int64_t decay_steps,
                  const PolynomialDecayOptions& options = {});
};

}  // namespace tandem::keras::optimizers::schedules

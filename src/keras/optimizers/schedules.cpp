// Learning rates as functions of the number of updates so far: expressions of ops, so that they are
// part of a compiled step.
#include "tandem/keras/schedules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numbers>

#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::keras::optimizers::schedules {
namespace {

/// `decay_steps` as a double.
double checked(const char* schedule, int64_t decay_steps) {
  if (decay_steps > 0) return static_cast<double>(decay_steps);
  throw InvalidArgument(fmt::format("{}: decay_steps is {}, must be > 0", schedule, decay_steps));
}

Tensor as_float64(const Tensor& step) { return cast(step, DType::float64); }

/// Half a cosine from `start` to `alpha` of it while `done` goes from 0 to 1.
Tensor cosine(const Tensor& done, double start, double alpha) {
  const Tensor falling = (cos(done * std::numbers::pi) + 1.0) * 0.5;
  return (falling * (1 - alpha) + alpha) * start;
}

}  // namespace

Tensor LearningRateSchedule::operator()(const Tensor& step) const {
  const Tensor rate = rate_(step);
  if (!rate.defined() || rate.shape().rank() != 0) {
    throw InvalidArgument(fmt::format("LearningRateSchedule: a rate is {}, must be a scalar",
                                      rate.defined() ? rate.shape().str() : "undefined"));
  }
  return rate.dtype() == DType::float64 ? rate : cast(rate, DType::float64);
}

ExponentialDecay::ExponentialDecay(double initial_learning_rate, int64_t decay_steps,
                                   double decay_rate, const ExponentialDecayOptions& options)
    : LearningRateSchedule([=, steps = checked("ExponentialDecay", decay_steps)](const Tensor& s) {
        const Tensor passed = as_float64(s) / steps;
        const Tensor power = options.staircase ? floor(passed) : passed;
        return pow(Tensor(decay_rate), power) * initial_learning_rate;
      }) {}

CosineDecay::CosineDecay(double initial_learning_rate, int64_t decay_steps,
                         const CosineDecayOptions& options)
    : LearningRateSchedule([=, steps = checked("CosineDecay", decay_steps)](const Tensor& s) {
        const Tensor step = as_float64(s);
        if (!options.warmup_target) {
          const Tensor done = minimum(step, Tensor(steps)) / steps;
          return cosine(done, initial_learning_rate, options.alpha);
        }
        const auto warmup = static_cast<double>(options.warmup_steps);
        const double target = *options.warmup_target;
        const Tensor done = minimum(step - warmup, Tensor(steps)) / steps;
        Tensor decayed = cosine(done, target, options.alpha);
        if (options.warmup_steps == 0) return decayed;
        const Tensor warming = step * ((target - initial_learning_rate) / warmup);
        return where(less(step, Tensor(warmup)), warming + initial_learning_rate, decayed);
      }) {
  if (options.warmup_steps < 0) {
    throw InvalidArgument(
        fmt::format("CosineDecay: warmup_steps is {}, must be >= 0", options.warmup_steps));
  }
}

PiecewiseConstantDecay::PiecewiseConstantDecay(const std::vector<int64_t>& boundaries,
                                               const std::vector<double>& values)
    : LearningRateSchedule([=](const Tensor& step) {
        Tensor rate(values.back());
        for (size_t i = boundaries.size(); i-- > 0;) {
          rate = where(less_equal(step, Tensor(boundaries[i])), Tensor(values[i]), rate);
        }
        return rate;
      }) {
  if (values.size() != boundaries.size() + 1) {
    throw InvalidArgument(fmt::format(
        "PiecewiseConstantDecay: {} values for {} boundaries, must be one more than boundaries",
        values.size(), boundaries.size()));
  }
  if (!std::ranges::is_sorted(boundaries, std::less_equal())) {
    throw InvalidArgument(fmt::format("PiecewiseConstantDecay: boundaries are [{}], must rise",
                                      fmt::join(boundaries, ", ")));
  }
}

PolynomialDecay::PolynomialDecay(double initial_learning_rate, int64_t decay_steps,
                                 const PolynomialDecayOptions& options)
    : LearningRateSchedule([=, steps = checked("PolynomialDecay", decay_steps)](const Tensor& s) {
        const Tensor passed = as_float64(s) / steps;
        const Tensor done = options.cycle ? passed / maximum(ceil(passed), Tensor(1.0))
                                          : minimum(passed, Tensor(1.0));
        const Tensor left = pow(1.0 - done, Tensor(options.power));
        return left * (initial_learning_rate - options.end_learning_rate) +
               options.end_learning_rate;
      }) {}

}  // namespace tandem::keras::optimizers::schedules

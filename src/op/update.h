/// Where an update (an op of ops/optimizer.h) has its operands. A call of n gradients, each with
/// its variable and k slots:
///
///   inputs   g0   g1   ..   g(n-1)   rate   step   condition
///   ranges   w0 s00 .. s0k   w1 s10 .. s1k   ..   w(n-1) ..
///
/// The work is cut into chunks of the gradients, laid end to end. Of a range a thread changes the
/// elements whose gradient is in its chunks.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "op/op_def.h"

namespace tandem::op {

class UpdateLayout {
 public:
  /// The layout of a call of an op with OpDef::is_update.
  explicit UpdateLayout(const Signature& signature)
      : variables_(signature.inputs.size() - kScalars),
        ranges_each_(variables_ == 0 ? 0 : signature.ranges.size() / variables_) {
    for (const TensorType& gradient : gradients(signature.inputs)) {
      starts_.push_back(elements() + gradient.shape.total_extent());
    }
  }

  size_t variables() const { return variables_; }
  size_t slots_each() const { return ranges_each_ - 1; }

  /// The elements of the gradients before the i-th, and those of all.
  int64_t start(size_t i) const { return starts_[i]; }
  int64_t elements() const { return starts_.back(); }

  /// The variable whose gradient has this element of all.
  size_t variable_with(int64_t element) const {
    return static_cast<size_t>(std::ranges::upper_bound(starts_, element) - starts_.begin()) - 1;
  }

  /// Positions among the inputs.
  size_t rate() const { return variables_; }
  size_t step() const { return variables_ + 1; }
  size_t condition() const { return variables_ + 2; }

  /// Positions among the ranges.
  size_t variable(size_t i) const { return i * ranges_each_; }
  size_t slot(size_t i, size_t k) const { return variable(i) + 1 + k; }

  /// The variable that is, or has as a slot, the range at this position; its gradient is the input
  /// at the position returned.
  size_t owner(size_t range) const { return range / ranges_each_; }

  /// Those of a call's inputs, in whatever form it has them.
  template <class Input>
  std::span<const Input> gradients(const std::vector<Input>& inputs) const {
    return std::span(inputs).first(variables_);
  }

  template <class Input>
  struct Scalars {
    Input rate;
    Input step;
    Input condition;
  };
  template <class Input>
  static std::vector<Input> inputs(std::vector<Input> gradients, const Scalars<Input>& scalars) {
    gradients.push_back(scalars.rate);
    gradients.push_back(scalars.step);
    gradients.push_back(scalars.condition);
    return gradients;
  }

 private:
  static constexpr size_t kScalars = 3;

  size_t variables_;
  size_t ranges_each_;                 // A variable and its slots.
  std::vector<int64_t> starts_ = {0};  // Where each gradient starts, and the end of the last.
};

}  // namespace tandem::op

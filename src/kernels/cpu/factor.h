/// The factor that reduce and broadcast_to multiply by.
#pragma once

#include "op/kernel.h"
#include "ops/reduction/reduction_rules.h"

namespace tandem::kernels::cpu {

class Factor {
 public:
  Factor() = default;  ///< 1.

  /// `meeting` is the number of elements that meet in one.
  Factor(const op::Attrs& attrs, int64_t meeting)
      : scale_(static_cast<ops::Scale>(attrs.get<int64_t>("scale"))),
        divisor_(attrs.get<int64_t>("divisor")),
        mean_(1.0 / static_cast<double>(meeting)) {}

  bool is_one() const { return scale_ == ops::Scale::none; }

  double value(const op::Launch& launch) const {
    switch (scale_) {
      case ops::Scale::none:
        return 1.0;
      case ops::Scale::mean:
        return mean_;
      case ops::Scale::global_mean:
        return ops::global_factor(divisor_, *launch.step);
    }
    return 1.0;
  }

 private:
  ops::Scale scale_ = ops::Scale::none;
  int64_t divisor_ = 0;
  double mean_ = 1;
};

}  // namespace tandem::kernels::cpu

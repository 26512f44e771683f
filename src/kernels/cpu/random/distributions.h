/// The distributions of random numbers, and what each is told about itself.
#pragma once

#include <cstdint>

#include "op/attrs.h"

namespace tandem::kernels::cpu {

enum class Distribution { normal, truncated_normal, uniform, integers, bernoulli };

struct DistributionParameters {
  DistributionParameters(Distribution distribution, const op::Attrs& attrs) {
    if (distribution == Distribution::integers) {
      least = attrs.get<int64_t>("minval");
      range = static_cast<uint64_t>(attrs.get<int64_t>("maxval")) - static_cast<uint64_t>(least);
    } else {
      a = attrs.get<double>("a");
      b = attrs.get<double>("b");
    }
  }

  double a = 0;  ///< Mean, lower end, or probability.
  double b = 0;  ///< Standard deviation or upper end.
  int64_t least = 0;
  uint64_t range = 0;  ///< How many whole numbers there are from `least` on.
};

}  // namespace tandem::kernels::cpu

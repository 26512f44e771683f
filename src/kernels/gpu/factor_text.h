/// The factor that reduce multiplies by. Over all replicas it is known only when the step begins.
#pragma once

#include <string_view>

#include "kernels/gpu/gpu_kernel.h"
#include "ops/reduction/reduction_rules.h"

namespace tandem::kernels::gpu {

/// factor_of(step, divisor, factor): of the arguments that Factor::pass() gives.
inline constexpr std::string_view kFactor = R"(
FN double factor_of(const GLOBAL i64* step, i64 divisor, double factor) {
  if (divisor == 0) return factor;
  const i64 global_rows = step[2];
  const i32 replicas = ((const GLOBAL i32*)step)[7];
  return 1.0 / (divisor < 0 ? (double)-divisor * (double)global_rows
                            : (double)divisor * (double)replicas);
}
)";
static_assert(offsetof(op::StepScalars, global_rows) == 2 * sizeof(int64_t));
static_assert(offsetof(op::StepScalars, replicas) == 7 * sizeof(int32_t));

class Factor {
 public:
  Factor() = default;  ///< 1.

  /// `meeting` is the number of elements that meet in one.
  Factor(const op::Attrs& attrs, int64_t meeting) {
    const auto scale = static_cast<ops::Scale>(attrs.get<int64_t>("scale"));
    if (scale == ops::Scale::mean) factor_ = 1.0 / static_cast<double>(meeting);
    if (scale == ops::Scale::global_mean) divisor_ = attrs.get<int64_t>("divisor");
  }

  /// MEMORY(k), i64 divisor, double factor.
  Call& pass(Call& call, const Launch& launch) const {
    if (divisor_ == 0) return call.out(0).whole(0).real(factor_);
    if (launch.device_step != nullptr) return call.step().whole(divisor_).real(1);
    const double factor = ops::global_factor(divisor_, op::StepScalars());
    return call.out(0).whole(0).real(factor);
  }

 private:
  int64_t divisor_ = 0;
  double factor_ = 1;
};

}  // namespace tandem::kernels::gpu

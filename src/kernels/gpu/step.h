/// The step's scalars (op::StepScalars) as kernels read them. A kernel gets them with Call::step()
/// as MEMORY(k); `AT(const char, k)` is the argument of these functions.
#pragma once

#include <cstddef>
#include <string_view>

#include "op/kernel.h"

namespace tandem::kernels::gpu {

inline constexpr std::string_view kStepFunctions = R"(
FN i64 step_rows(const GLOBAL char* step) { return ((const GLOBAL i64*)step)[0]; }
FN i64 step_row_offset(const GLOBAL char* step) { return ((const GLOBAL i64*)step)[1]; }
FN i64 step_global_rows(const GLOBAL char* step) { return ((const GLOBAL i64*)step)[2]; }
FN i32 step_replica(const GLOBAL char* step) { return ((const GLOBAL i32*)step)[6]; }
FN i32 step_replicas(const GLOBAL char* step) { return ((const GLOBAL i32*)step)[7]; }
FN u64 step_random_call(const GLOBAL char* step) { return ((const GLOBAL u64*)step)[4]; }
FN u32 step_random_sequence(const GLOBAL char* step) { return ((const GLOBAL u32*)step)[10]; }
FN u64 step_random_seed(const GLOBAL char* step) { return ((const GLOBAL u64*)step)[6]; }
FN u64 step_random_unseeded_seed(const GLOBAL char* step) { return ((const GLOBAL u64*)step)[7]; }
/* ops::global_factor */
FN double step_global_factor(const GLOBAL char* step, i64 divisor) {
  return 1.0 / (divisor < 0 ? (double)-divisor * (double)step_global_rows(step)
                            : (double)divisor * step_replicas(step));
}
)";
static_assert(offsetof(op::StepScalars, global_rows) == 16);
static_assert(offsetof(op::StepScalars, replica) == 24);
static_assert(offsetof(op::StepScalars, replicas) == 28);
static_assert(offsetof(op::StepScalars, random) == 32);
static_assert(offsetof(op::RandomRun, purpose) == 8);
static_assert(offsetof(op::RandomRun, seed) == 16);
static_assert(offsetof(op::RandomRun, unseeded_seed) == 24);

}  // namespace tandem::kernels::gpu

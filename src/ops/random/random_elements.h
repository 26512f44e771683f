/// Some elements of what a call of a random op draws, without the others.
#pragma once

#include <cstdint>

#include "op/kernel.h"
#include "tandem/ops/random.h"

namespace tandem::ops {

/// A call of an op that draws numbers of a distribution with two parameters.
struct RandomCall {
  const char* op;  ///< random_normal, random_truncated_normal or random_uniform.
  double a;        ///< The mean or the least number,
  double b;        ///< the standard deviation or the bound.
  RandomOptions options{};
  op::RandomRun run{};  ///< Which call it is.
};

/// Writes `count` elements of what the call draws, from element `begin` on, with the bits that the
/// whole has there.
void draw_elements(const RandomCall& call, int64_t begin, int64_t count, void* to);

}  // namespace tandem::ops

// How many rows a step of training may have: the memory plan of the step, compiled and not yet run,
// held against the limits of the devices.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "distribute/memory_room.h"
#include "distribute/strategy_body.h"
#include "keras/training/trainer.h"
#include "tandem/error.h"

namespace tandem::keras {

/// Compiles a step, and runs nothing.
void Trainer::compile(const FlatFunction& step, const Tensors& batch) const {
  if (strategy_.body().is_default()) {
    step.body()->trace({.tensors = graph::argument_list(batch)});
  } else {
    strategy_.body().compile(strategy_, step, strategy_.split(batch));
  }
}

int64_t Trainer::largest_batch(const Tensors& batch, int64_t rows) {
  if (options_.run_eagerly) {
    throw InvalidArgument(
        "fit: batch_size is automatic and the model runs eagerly; memory is planned for compiled "
        "steps only");
  }
  compile(train_, batch);
  const int64_t replicas = strategy_.num_replicas_in_sync();
  const auto fits = [&](int64_t size) {
    const int64_t own = (size + replicas - 1) / replicas;
    const size_t bytes = distribute::row_bytes(batch) * static_cast<size_t>(own);
    return distribute::has_room(train_.memory_plan(own), bytes);
  };
  if (!fits(1)) {
    throw ResourceExhausted(fmt::format(
        "fit: batch_size is automatic, and a step with a single row takes more than 90 % of the "
        "memory limit:\n{}",
        train_.memory_table({1})));
  }
  // What fits is a power of two below one that does not.
  int least = 0;
  int most = std::bit_width(static_cast<uint64_t>(std::max<int64_t>(rows, 1)));
  while (most - least > 1) {
    const int middle = (least + most) / 2;
    (fits(int64_t{1} << middle) ? least : most) = middle;
  }
  return int64_t{1} << least;
}

}  // namespace tandem::keras

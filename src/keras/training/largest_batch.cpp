// How many rows a step of training may have, and into how many micro-batches more of them are cut:
// the memory plan of the step, compiled and not yet run, held against the limits of the devices.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "distribute/strategy_body.h"
#include "keras/training/trainer.h"
#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::keras {
namespace {

/// The limit of a logical device: its own, else its share of what the machine has; 0 where nobody
/// knows.
size_t limit_of(const std::string& name) {
  if (const size_t own = config::get_memory_info(name).limit; own != 0) return own;
  const auto logical = config::list_logical_devices();
  const auto found = std::ranges::find(logical, name, &config::LogicalDevice::name);
  if (found == logical.end()) return 0;
  const auto sharing = static_cast<size_t>(
      std::ranges::count(logical, found->physical, &config::LogicalDevice::physical));
  for (const config::PhysicalDevice& physical : config::list_physical_devices()) {
    if (physical.name == found->physical) return physical.memory / sharing;
  }
  return 0;
}

/// The bytes of a row of all tensors of a batch.
size_t row_bytes(const Tensors& batch) {
  size_t bytes = 0;
  for (const Tensor& tensor : batch) {
    const int64_t rows = std::max<int64_t>(tensor.shape()[0], 1);
    bytes += static_cast<size_t>(tensor.shape().count() / rows) * size_of(tensor.dtype());
  }
  return bytes;
}

}  // namespace

/// Compiles a step, and runs nothing.
void Trainer::compile(const FlatFunction& step, const Tensors& batch) const {
  if (strategy_.body().is_default()) {
    step.body()->trace({.tensors = graph::argument_list(batch)});
  } else {
    strategy_.body().compile(strategy_, step, strategy_.split(batch));
  }
}

/// True where a compiled step with so many rows on each replica, and so many bytes of the batch on
/// each device, stays within 90 % of the memory limit of each device.
bool Trainer::fits(const FlatFunction& step, int64_t own_rows, size_t batch_bytes) {
  constexpr size_t kInFlight = 2;  // Batches on their way to a device.
  return std::ranges::all_of(
      step.memory_plan(own_rows).devices, [&](const MemoryPlan::Device& device) {
        const size_t limit = limit_of(device.name);
        const size_t needed =
            config::get_memory_info(device.name).current + device.bytes() + kInFlight * batch_bytes;
        return limit == 0 || needed <= limit / 10 * 9;
      });
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
    return this->fits(train_, own, row_bytes(batch) * static_cast<size_t>(own));
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

int Trainer::choose_microbatches(const Tensors& batch, int64_t rows) {
  const distribute::Strategy::Body& body = strategy_.body();
  // What is compiled to find the number goes, with its sums.
  const auto compiled_for = [&](int microbatches) {
    body.choose_microbatches(microbatches);
    FlatFunction step([this](const Tensors& flat) {
      train_step(flat);
      return Tensors();
    });
    compile(step, batch);
    return step;
  };
  const size_t bytes = row_bytes(batch) * static_cast<size_t>(rows);
  if (fits(compiled_for(1), rows, bytes)) return 1;
  constexpr int kSeveral = 2;  // What a step takes for each row is the same for any number.
  int64_t fitting = 0;
  {
    const FlatFunction step = compiled_for(kSeveral);
    for (int64_t too_many = (rows + 1) / kSeveral + 1; too_many - fitting > 1;) {
      const int64_t middle = fitting + (too_many - fitting) / 2;
      (fits(step, middle, bytes) ? fitting : too_many) = middle;
    }
    if (fitting == 0) {
      throw ResourceExhausted(fmt::format(
          "fit: micro-batches are automatic, and one of a single row takes more than 90 % of the "
          "memory limit:\n{}",
          step.memory_table({1})));
    }
  }
  const auto count = static_cast<int>((rows + fitting - 1) / fitting);
  body.choose_microbatches(count);
  return count;
}

}  // namespace tandem::keras

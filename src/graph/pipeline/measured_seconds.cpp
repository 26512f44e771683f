#include "graph/pipeline/measured_seconds.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <numeric>

#include "core/alignment.h"
#include "core/compute_scope.h"
#include "op/cost.h"
#include "op/instruction_hook.h"
#include "op/registry.h"
#include "tandem/error.h"

namespace tandem::graph {
namespace {

constexpr double kLeastSeconds = 20e-6;         // What takes less by its cost is not measured.
constexpr size_t kMostBytes = size_t{1} << 28;  // Nor is what would take more memory.

bool is_alike(const op::Signature& a, const op::Signature& b) {
  return a.op == b.op && a.inputs == b.inputs && a.ranges == b.ranges && a.attrs == b.attrs;
}

bool is_float(const op::TensorType& type) {
  return type.dtype == DType::float32 || type.dtype == DType::float64;
}

/// A call of a prepared kernel on zeros, in memory that counts for no device.
class TrialCall {
 public:
  TrialCall(const op::Signature& signature, const devices::Device& device)
      : name_(signature.op->name),
        executable_(op::Registry::instance().prepare(signature, device, 1)) {
    for (const auto* types : {&signature.inputs, &signature.outputs, &signature.ranges}) {
      for (const op::TensorType& type : *types) addresses_.push_back(new_memory(type.bytes()));
    }
    operands_.resize(addresses_.size());
    std::iota(operands_.begin(), operands_.end(), 0);
    launch_.addresses = addresses_.data();
    launch_.operands = operands_.data();
    launch_.inputs = static_cast<int>(signature.inputs.size());
    launch_.outputs = static_cast<int>(signature.outputs.size());
    launch_.step = &step_;
    if (const size_t bytes = executable_->workspace_bytes(); bytes > 0) {
      launch_.workspace_stride = core::aligned(bytes);
      launch_.workspaces = new_memory(bytes);
    }
  }

  /// The seconds of a run.
  double run() const {
    op::Launch launch = launch_;
    const auto start = std::chrono::steady_clock::now();
    if (const auto* hook = op::instruction_hook()) (*hook)(0, name_);
    executable_->play(launch, {});
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  /// Aligned as the memory of devices is, and zero.
  void* new_memory(size_t bytes) {
    constexpr size_t kAlignment = 64;
    memory_.emplace_back(bytes + kAlignment);
    void* at = memory_.back().data();
    size_t room = memory_.back().size();
    return std::align(kAlignment, bytes, at, room);
  }

  const std::string& name_;
  const op::ExecutablePtr executable_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<void*> addresses_;
  std::vector<int> operands_;
  op::StepScalars step_{};
  op::Launch launch_{};
};

}  // namespace

double seconds_by_cost(const Node& node, int64_t rows) {
  constexpr double kOperationsPerSecond = 5e10;
  constexpr double kBytesPerSecond = 1e10;
  const op::Cost cost = op::cost_of(node.signature.resolved(rows));
  return std::max(cost.flops / kOperationsPerSecond, cost.bytes / kBytesPerSecond);
}

double MeasuredSeconds::of(const Node& node) {
  const double by_cost = seconds_by_cost(node, rows_);
  if (by_cost < kLeastSeconds) return by_cost;
  const op::Signature signature = node.signature.resolved(rows_);
  if (!is_measurable(signature, node)) return by_cost;
  const auto known = std::ranges::find_if(
      known_, [&](const auto& entry) { return is_alike(entry.first, signature); });
  if (known != known_.end()) return known->second;
  double seconds = by_cost;
  try {
    seconds = measure(signature);
  } catch (const Error&) {  // The run will say what is wrong with it.
  }
  known_.emplace_back(signature, seconds);
  return seconds;
}

/// Whole numbers other than places in a table could be divided by, and are zeros here.
bool MeasuredSeconds::is_measurable(const op::Signature& signature, const Node& node) const {
  if (!device_->works_on_threads() || !node.regions.empty() || node.op().is_collective) {
    return false;
  }
  return op::cost_of(signature).bytes < static_cast<double>(kMostBytes) &&
         !signature.outputs.empty() && std::ranges::all_of(signature.outputs, is_float);
}

/// The least of some runs. The first one brings the memory.
double MeasuredSeconds::measure(const op::Signature& signature) const {
  constexpr int kRuns = 3;
  constexpr double kLong = 10e-3;  // So long a run is not made again.
  const core::ComputeScope computing;
  const TrialCall call(signature, *device_);
  double least = call.run();
  for (int i = 1; i < kRuns && least < kLong; ++i) least = std::min(least, call.run());
  return least;
}

}  // namespace tandem::graph

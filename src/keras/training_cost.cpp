#include "keras/training_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "device/logical_device.h"
#include "graph/trace.h"
#include "keras/models/functional.h"
#include "op/cost.h"
#include "tandem/error.h"
#include "tandem/gradient_tape.h"
#include "tandem/ops.h"

namespace tandem::keras {
namespace {

using graph::kNominalRows;

op::TensorTypes inputs_of(const Model& model) {
  TensorSpecs specs;
  if (const auto* described = dynamic_cast<const FunctionalBody*>(model.body().get())) {
    specs = described->input_specs();
  } else if (const auto only = model.body()->input_spec()) {
    specs = {*only};
  } else {
    throw FailedPrecondition(fmt::format(
        "plan: the inputs of model '{}' are not known; describe them with Input(), or give its "
        "first layer an input_shape",
        model.name()));
  }
  op::TensorTypes types;
  for (const TensorSpec& spec : specs) types.push_back({spec.dtype, spec.shape.with(0, -1)});
  return types;
}

/// Both passes, with a loss that costs next to nothing.
graph::Graph trace_training(const Model& model, const op::TensorTypes& inputs) {
  return graph::Trace::of(
      [&](const Tensors& x) {
        GradientTape tape;
        Tensor loss;
        for (const Tensor& output : model(x, {.training = true})) {
          const Tensor own = reduce_mean(square(output));
          loss = loss.defined() ? loss + own : own;
        }
        return tape.gradient(loss, model.trainable_weights());
      },
      inputs);
}

bool is_product(const graph::Node& node) {
  const std::string& name = node.op().name;
  return name.find("matmul") != std::string::npos || name.find("attention") != std::string::npos ||
         name.find("conv") != std::string::npos;
}

/// The largest result of a layer that comes most often, of one row: what goes through the model.
double width_of(const Model& model) {
  std::vector<double> bytes;
  for (const Layer& layer : model.layers()) {
    for (const TensorSpec& spec : layer.body()->outputs()) {
      if (spec.shape.rank() == 0) continue;
      bytes.push_back(
          static_cast<double>(op::TensorType{spec.dtype, spec.shape.with(0, 1)}.bytes()));
    }
  }
  if (bytes.empty()) return 0;
  std::ranges::nth_element(bytes, bytes.begin() + static_cast<ptrdiff_t>(bytes.size() / 2));
  return bytes[bytes.size() / 2];
}

}  // namespace

TrainingCost::TrainingCost(const Model& model, const distribute::DeviceSpeed& speed)
    : speed_(speed) {
  const op::TensorTypes inputs = inputs_of(model);
  graph::Graph graph = trace_training(model, inputs);
  if (speed_.operations <= 0 || speed_.bytes <= 0) measure_speed(model, inputs);
  for (const graph::Node& node : graph.nodes) {
    if (node.near == graph::kNoValue) forward_.push_back(seconds_of(node, kNominalRows));
  }
  boundary_bytes_ = width_of(model);
  most_stages_ = static_cast<int>(std::max<size_t>(model.layers().size(), 1));
  program_ = std::make_unique<graph::Program>(std::move(graph), 1);
}

/// Scales usual speeds so that the forward pass takes as long as it does here.
void TrainingCost::measure_speed(const Model& model, const std::vector<op::TensorType>& inputs) {
  constexpr int64_t kRows = 8;
  constexpr int kTimes = 5;
  speed_ = {.operations = 5e10, .bytes = 1e10};
  const graph::Program forward(graph::Trace::of([&](const Tensors& x) { return model(x); }, inputs),
                               1);
  Tensors x;
  for (const op::TensorType& type : inputs)
    x.push_back(zeros(type.shape.resolved(kRows), type.dtype));
  const FlatFunction f([&](const Tensors& given) { return model(given); });
  double best = 1e30;
  for (int i = 0; i < kTimes; ++i) {
    const auto start = std::chrono::steady_clock::now();
    for (const Tensor& result : f(x)) result.body()->ready.wait(std::chrono::minutes(1));
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    best = std::min(best, taken.count());
  }
  const double factor = total(forward, kRows) / best;
  speed_ = {.operations = speed_.operations * factor, .bytes = speed_.bytes * factor};
}

double TrainingCost::seconds_of(const graph::Node& node, int64_t rows) const {
  const op::Cost cost = op::cost_of(node.signature.resolved(rows));
  return std::max(cost.flops / speed_.operations, cost.bytes / speed_.bytes);
}

double TrainingCost::total(const graph::Program& program, int64_t rows) const {
  double sum = 0;
  for (const graph::Instruction& each : program.instructions()) sum += seconds_of(each.node, rows);
  return sum;
}

double TrainingCost::seconds(int64_t rows) const { return total(*program_, rows); }

double TrainingCost::cut_share(int64_t rows) const {
  double products = 0;
  for (const graph::Instruction& each : program_->instructions()) {
    if (is_product(each.node)) products += seconds_of(each.node, rows);
  }
  return products / std::max(seconds(rows), 1e-30);
}

/// Fills stage after stage up to a time that is made as small as can be.
double TrainingCost::slowest_stage(int stages) const {
  double all = 0;
  double low = 0;
  for (double call : forward_) {
    all += call;
    low = std::max(low, call);
  }
  const auto fits = [&](double most) {
    int used = 1;
    double filled = 0;
    for (double call : forward_) {
      if (filled + call > most) {
        ++used;
        filled = 0;
      }
      filled += call;
    }
    return used <= stages;
  };
  double high = all;
  constexpr int kHalvings = 40;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return high / std::max(all, 1e-30);
}

double TrainingCost::activation_bytes(int64_t rows) const {
  return static_cast<double>(
      graph::make_plan(*program_, rows, devices::host_device(), 1, 1).arena_bytes);
}

}  // namespace tandem::keras

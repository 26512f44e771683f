/// What a step of training costs on one device, by the ops of the model's forward and backward
/// pass.
#pragma once

#include <memory>
#include <vector>

#include "graph/program.h"
#include "tandem/distribute/plan.h"
#include "tandem/keras/model.h"

namespace tandem::keras {

class TrainingCost {
 public:
  /// Throws FailedPrecondition for a model whose inputs are not described.
  TrainingCost(const Model& model, const distribute::DeviceSpeed& speed);

  /// Both passes of so many rows.
  double seconds(int64_t rows) const;
  /// The share of that time in products and attention, which can be cut by weights.
  double cut_share(int64_t rows) const;
  /// The time of the slowest of so many stages, of that of all; `stages` of equal times give 1 /
  /// stages.
  double slowest_stage(int stages) const;
  /// What a stage hands to the next for each row.
  double boundary_bytes() const { return boundary_bytes_; }
  /// Activations of so many rows, in the memory of one device.
  double activation_bytes(int64_t rows) const;
  /// The bytes that a device's memory moves in a second.
  double memory_speed() const { return speed_.bytes; }
  /// The most stages that make sense.
  int most_stages() const { return most_stages_; }

 private:
  using Seconds = std::vector<double>;
  double seconds_of(const graph::Node& node, int64_t rows) const;
  double total(const graph::Program& program, int64_t rows) const;
  void measure_speed(const Model& model, const std::vector<op::TensorType>& inputs);

  std::unique_ptr<graph::Program> program_;
  distribute::DeviceSpeed speed_;
  Seconds forward_;  // The time of each call of the forward pass, in order.
  double boundary_bytes_ = 0;
  int most_stages_ = 1;
};

}  // namespace tandem::keras

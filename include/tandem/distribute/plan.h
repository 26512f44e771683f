/// How to train a model on several devices, before anybody has them: by what its ops cost.
///
///   const auto plan = distribute::plan(model, {.devices = 8, .batch = 256, .memory = 16e9});
///   std::printf("%s", plan.str().c_str());
///
/// Each way of cutting the batch, the layers and the weights over the devices is priced: the time
/// of its computing, of what waits in its pipeline, of what its devices tell each other, and the
/// memory of the fullest device. These are estimates, to choose by.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tandem/keras/model.h"

namespace tandem::distribute {

/// What a device can do in a second. Where it is 0, what this machine's first device needs for the
/// model's forward pass is measured instead.
struct DeviceSpeed {
  double operations = 0;  ///< Floating point operations, in matrix products.
  double bytes = 0;       ///< What its memory moves.
};

/// The way from each device to the others.
struct LinkSpeed {
  double bytes = 10e9;    ///< In a second.
  double latency = 5e-6;  ///< Seconds.
};

struct PlanOptions {
  int devices = 1;
  int64_t batch = 32;  ///< Rows of a step, over all devices.
  double memory = 0;   ///< Bytes of each device; 0: as much as it takes.
  LinkSpeed link{};
  DeviceSpeed device{};
  int slots = 2;  ///< Values that the optimizer keeps for each weight; Adam's.
};

/// One way to train.
struct TANDEM_API PlannedMesh {
  int data = 1;   ///< Parts of the batch,
  int stage = 1;  ///< of the layers,
  int model = 1;  ///< and of the weights: devices along each axis of the mesh.
  int microbatches = 1;
  std::string schedule{};  ///< As PipelineOptions::schedule; empty where there is one stage.

  double seconds = 0;          ///< The time of a step,
  double computing = 0;        ///< of which the slowest device computes,
  double waiting = 0;          ///< waits for other stages,
  double communicating = 0;    ///< and waits for bytes of others.
  double exchanged_bytes = 0;  ///< What a device sends in a step.
  double memory_bytes = 0;     ///< What the fullest device holds.

  std::string str() const;
};

struct TANDEM_API TrainingPlan {
  /// The fastest first; those that do not fit into the memory come last, smallest first.
  std::vector<PlannedMesh> meshes;
  double memory = 0;  ///< Each device's, as the options say.

  /// Throws ResourceExhausted, which says how much would be needed, where none fits, and
  /// InvalidArgument where no mesh has something to do for each device.
  const PlannedMesh& best() const;
  /// A table of the best ten.
  std::string str() const;
};

/// Prices all meshes of so many devices. The model's inputs must be described, by Input() or by its
/// first layer's input_shape. Throws InvalidArgument for options, FailedPrecondition for a model
/// whose inputs are not known.
TANDEM_API TrainingPlan plan(const keras::Model& model, const PlanOptions& options);

}  // namespace tandem::distribute

// Plans for devices that nobody has: what must hold whatever the ops cost.
#include <gtest/gtest.h>

#include <cmath>

#include "harness/throws.h"
#include "tandem/distribute/plan.h"
#include "tandem/keras/layers.h"

namespace tandem::distribute {
namespace {

namespace layers = keras::layers;

keras::Model classifier() {
  const auto x = keras::Input({256});
  auto hidden = x;
  for (int i = 0; i < 4; ++i) hidden = layers::Dense(512, {.activation = "relu"})(hidden);
  return {{x}, {layers::Dense(10)(hidden)}};
}

/// Numbers that do not depend on this machine.
PlanOptions known(int devices) {
  return {.devices = devices, .batch = 256, .device = {.operations = 1e11, .bytes = 2e10}};
}

const PlannedMesh& mesh_of(const TrainingPlan& plan, int data, int stage, int model, int micro) {
  const auto found = std::ranges::find_if(plan.meshes, [&](const PlannedMesh& mesh) {
    return mesh.data == data && mesh.stage == stage && mesh.model == model &&
           mesh.microbatches == micro && mesh.schedule != "gpipe";
  });
  EXPECT_NE(found, plan.meshes.end());
  return *found;
}

TEST(ParallelPlan, ADeviceAloneNeitherWaitsNorTells) {
  const TrainingPlan alone = plan(classifier(), known(1));
  const PlannedMesh& best = alone.best();
  EXPECT_EQ(best.data * best.stage * best.model, 1);
  EXPECT_EQ(best.microbatches, 1);
  EXPECT_GT(best.computing, 0);
  EXPECT_EQ(best.waiting + best.communicating + best.exchanged_bytes, 0);
  // Micro-batches save memory.
  EXPECT_LT(mesh_of(alone, 1, 1, 1, 8).memory_bytes, best.memory_bytes);
}

TEST(ParallelPlan, TwoDevicesShareWhatTheMeshSays) {
  const keras::Model model = classifier();
  const PlannedMesh one = plan(model, known(1)).best();
  const TrainingPlan two = plan(model, known(2));
  const PlannedMesh& by_rows = mesh_of(two, 2, 1, 1, 1);
  const PlannedMesh& by_stages = mesh_of(two, 1, 2, 1, 4);
  const PlannedMesh& by_weights = mesh_of(two, 1, 1, 2, 1);
  const double parameters = 4.0 * static_cast<double>(model.count_params());
  EXPECT_DOUBLE_EQ(by_rows.exchanged_bytes, parameters);
  EXPECT_LT(by_rows.computing, one.computing);
  EXPECT_GT(by_rows.computing, one.computing / 2.001);
  // Two stages of equal times and 4 micro-batches: a fifth of the time is waited.
  EXPECT_GT(by_stages.waiting, by_stages.computing / 5);
  EXPECT_LT(by_stages.memory_bytes, by_rows.memory_bytes);
  EXPECT_LT(by_weights.memory_bytes, one.memory_bytes);
  EXPECT_LT(by_weights.computing, one.computing);
}

TEST(ParallelPlan, TheBestFitsIntoTheMemoryOrThereIsNone) {
  const keras::Model model = classifier();
  PlanOptions options = known(8);
  const double all = plan(model, options).best().memory_bytes;
  options.memory = all / 2;
  const TrainingPlan small = plan(model, options);
  EXPECT_LE(small.best().memory_bytes, options.memory);
  EXPECT_NE(small.str().find("a step"), std::string::npos);
  options.memory = 1e3;
  EXPECT_TRUE(harness::throws<ResourceExhausted>([&] { plan(model, options).best(); },
                                                 {"0.001 MB", "smallest takes"}));
}

/// Kernels of 256 by 512 have no seven equal parts, and three rows are none for each of 7 devices.
TEST(ParallelPlan, WeightsAreCutIntoEqualParts) {
  const keras::Model model = classifier();
  for (const PlannedMesh& mesh : plan(model, known(56)).meshes) EXPECT_NE(mesh.model % 7, 0);
  PlanOptions options = known(7);
  options.batch = 3;
  EXPECT_TRUE(harness::throws<InvalidArgument>([&] { plan(model, options).best(); },
                                               {"so many devices", "fewer"}));
}

TEST(ParallelPlan, ASlowLinkMakesTheDevicesTellLess) {
  const keras::Model model = classifier();
  PlanOptions options = known(4);
  const PlannedMesh fast = plan(model, options).best();
  options.link = {.bytes = 1e6, .latency = 1e-3};
  const PlannedMesh slow = plan(model, options).best();
  EXPECT_LE(slow.exchanged_bytes, fast.exchanged_bytes);
  EXPECT_GT(slow.seconds, fast.seconds);
}

TEST(ParallelPlan, WhatIsNotKnownIsAskedFor) {
  const std::pair<PlanOptions, const char*> wrong[] = {
      {{.devices = 0}, "devices is 0"},
      {{.batch = 0}, "batch is 0"},
      {{.memory = NAN}, "memory is nan"},
      {{.link = {.bytes = 0}}, "link.bytes is 0"},
      {{.link = {.latency = -1}}, "link.latency is -1"},
      {{.device = {.operations = -1}}, "device.operations is -1"},
      {{.slots = -1}, "slots is -1"}};
  for (const auto& [options, told] : wrong) {
    EXPECT_TRUE(harness::throws<InvalidArgument>([&] { plan(classifier(), options); },
                                                 {told, "is accepted"}));
  }
  const keras::Sequential vague({layers::Dense(3)});
  EXPECT_TRUE(
      harness::throws<FailedPrecondition>([&] { plan(vague, known(2)); }, {"inputs", "Input()"}));
}

}  // namespace
}  // namespace tandem::distribute

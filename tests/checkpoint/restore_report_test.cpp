// What a restore tells: reports on request, and a warning when nothing matched.
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/saving.h"
#include "harness/temp_folder.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem::train {
namespace {

using harness::throws;
using Names = std::vector<std::string>;

Variable variable() { return Variable(zeros({2})); }

Trackable node(const std::vector<std::string>& names) {
  const Trackable made;
  for (const std::string& name : names) made.track(name, variable());
  return made;
}

class RestoreReportTest : public testing::Test {
 protected:
  RestoreReportTest() {
    former_ = logging::set_sink(
        [this](logging::Level, std::string_view message) { warnings_.emplace_back(message); });
  }
  ~RestoreReportTest() override { logging::set_sink(former_); }

  bool warned_of(const std::vector<std::string>& parts) const {
    return warnings_.size() == 1 && std::ranges::all_of(parts, [&](const std::string& part) {
             return warnings_[0].find(part) != std::string::npos;
           });
  }

  harness::TempFolder folder_;
  Names warnings_;

 private:
  logging::Sink former_;
};

TEST_F(RestoreReportTest, ListsWhatMatchedAndWhatDidNotOnEitherSide) {
  Checkpoint({{"model", node({"a", "b"})}, {"step", variable()}}).save(folder_ / "c");
  const Trackable model = node({"b", "c"});
  model.track("spare", variable(), {.optional = true});
  const CheckpointStatus status =
      Checkpoint({{"model", model}, {"rest", variable()}}).restore(folder_ / "c-1");
  RestoreReport report = status.report();
  EXPECT_EQ(report.matched, (Names{"model/b"}));
  EXPECT_EQ(report.unmatched_in_checkpoint, (Names{"step", "model/a"}));
  EXPECT_EQ(report.unmatched_in_objects, (Names{"rest", "model/c"}));
  EXPECT_TRUE(throws<FailedPrecondition>([&] { status.assert_existing_objects_matched(); },
                                         {"has no values for rest, model/c"}));

  model.track("a", variable());  // One that comes late.
  report = status.report();
  EXPECT_EQ(report.matched, (Names{"model/b", "model/a"}));
  EXPECT_EQ(report.unmatched_in_checkpoint, (Names{"step"}));
  EXPECT_TRUE(warnings_.empty()) << warnings_[0];
}

TEST_F(RestoreReportTest, WithoutACheckpointNothingMatched) {
  const CheckpointStatus status = Checkpoint({{"a", variable()}}).restore(std::nullopt);
  EXPECT_EQ(status.report().unmatched_in_objects, (Names{"a"}));
  EXPECT_TRUE(status.report().matched.empty());
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(RestoreReportTest, WarnsWhenNothingMatched) {
  Checkpoint({{"model", node({"a", "b"})}}).save(folder_ / "c");
  const Checkpoint other({{"network", node({"a", "b"})}});
  const CheckpointStatus status = other.restore(folder_ / "c-1");
  EXPECT_TRUE(warned_of({"c-1", "nothing in it matched the objects", "network/a", "model/b"}))
      << testing::PrintToString(warnings_);
  EXPECT_TRUE(status.report().matched.empty());  // The counter of saves is not among the objects.
}

TEST_F(RestoreReportTest, WarnsWhenNothingOfAnObjectMatched) {
  Checkpoint({{"model", node({"a"})}, {"step", variable()}}).save(folder_ / "c");
  Checkpoint({{"model", node({"b"})}, {"step", variable()}, {"more", variable()}})
      .restore(folder_ / "c-1");
  EXPECT_TRUE(warned_of({"matched 'model'", "has model/b", "taken: model/a"}))
      << testing::PrintToString(warnings_);
}

TEST_F(RestoreReportTest, PathsAreOfTheNamesThatTheObjectsGive) {
  const keras::Sequential model({keras::layers::Dense(1, {.input_shape = {1}})});
  const keras::optimizers::SGD optimizer(0.1);
  optimizer.build(model.weights());
  const Checkpoint checkpoint({{"model", model}, {"optimizer", optimizer}});
  const CheckpointStatus status = checkpoint.restore(checkpoint.save(folder_ / "c"));
  EXPECT_EQ(status.report().matched, (Names{"optimizer/_iterations", "optimizer/_learning_rate",
                                            "model/_functional/_operations/1/_kernel",
                                            "model/_functional/_operations/1/bias"}));
}

TEST_F(RestoreReportTest, ValuesThatWaitAreWarnedOfWhenNobodyCanTakeThemAnyMore) {
  Checkpoint({{"model", node({"a"})}}).save(folder_ / "c");
  for (const bool comes : {true, false}) {
    const Trackable model;
    Checkpoint({{"model", model}}).restore(folder_ / "c-1");
    if (comes) model.track("a", variable());
    EXPECT_TRUE(warnings_.empty());
  }
  EXPECT_TRUE(warned_of({"c-1", "no object ever took"})) << testing::PrintToString(warnings_);
}

TEST_F(RestoreReportTest, PartialRestoresMayBeExpected) {
  Checkpoint({{"model", node({"a"})}}).save(folder_ / "c");
  Checkpoint({{"model", Trackable()}}).restore(folder_ / "c-1").expect_partial();
  EXPECT_TRUE(warnings_.empty());
}

/// What TensorFlow writes without counting does not have it.
TEST_F(RestoreReportTest, TheCounterOfSavesIsNotMissed) {
  checkpoint::save_objects(node({"a"}), folder_ / "c");
  Checkpoint({{"a", variable()}}).restore(folder_ / "c").assert_consumed();
}

}  // namespace
}  // namespace tandem::train

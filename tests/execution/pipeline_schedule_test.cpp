// Schedules of pipelines: each is played by the checker for all shapes of a grid, its cost is held
// against the published formulas, and the checker against schedules that were broken on purpose.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "execution/pipeline/schedule.h"
#include "harness/throws.h"
#include "tandem/error.h"

namespace tandem::graph {
namespace {

using harness::throws;

std::vector<PipelineShape> grid() {
  std::vector<PipelineShape> shapes;
  for (int stages = 1; stages <= 8; ++stages) {
    for (int microbatches = 1; microbatches <= 32; ++microbatches) {
      shapes.push_back({PipelineKind::gpipe, stages, microbatches});
      shapes.push_back({PipelineKind::one_f_one_b, stages, microbatches});
      for (int chunks = 1; chunks <= 4; ++chunks) {
        shapes.push_back({PipelineKind::interleaved, stages, microbatches, chunks});
      }
    }
  }
  return shapes;
}

std::string str(const PipelineShape& shape) {
  return fmt::format("{}, {} stages of {} chunks, {} micro-batches", name_of(shape.kind),
                     shape.stages, shape.chunks, shape.microbatches);
}

TEST(PipelineScheduleTest, NoneComesToAStopAndEachPassIsDoneOnce) {
  for (const PipelineShape& shape : grid()) {
    SCOPED_TRACE(str(shape));
    EXPECT_NO_THROW(check_schedule(shape, make_schedule(shape)));
  }
}

TEST(PipelineScheduleTest, TheBubbleIsThePublishedOne) {
  for (const PipelineShape& shape : grid()) {
    const bool is_even = shape.chunks == 1 || shape.microbatches % shape.stages == 0;
    if (!is_even) continue;
    SCOPED_TRACE(str(shape));
    const double wait = shape.stages - 1;
    const double bubble = wait / (shape.chunks * shape.microbatches + wait);
    EXPECT_NEAR(check_schedule(shape, make_schedule(shape)).bubble, bubble, 1e-9);
  }
}

TEST(PipelineScheduleTest, UnevenInterleavedStagesWaitNoLongerThanOneForwardOneBackward) {
  for (const PipelineShape& shape : grid()) {
    if (shape.kind != PipelineKind::interleaved || shape.microbatches < shape.stages) continue;
    SCOPED_TRACE(str(shape));
    const PipelineShape plain{PipelineKind::one_f_one_b, shape.stages, shape.microbatches};
    EXPECT_LE(check_schedule(shape, make_schedule(shape)).time,
              check_schedule(plain, make_schedule(plain)).time + 1e-9);
  }
}

TEST(PipelineScheduleTest, ActivationsHeldAreThePublishedNumbers) {
  for (const PipelineShape& shape : grid()) {
    if (shape.kind == PipelineKind::interleaved) continue;
    SCOPED_TRACE(str(shape));
    const PipelineReport report = check_schedule(shape, make_schedule(shape));
    for (int s = 0; s < shape.stages; ++s) {
      const int held = shape.kind == PipelineKind::gpipe
                           ? shape.microbatches
                           : std::min(shape.microbatches, shape.stages - s);
      EXPECT_EQ(report.in_flight[static_cast<size_t>(s)], held) << "stage " << s;
    }
  }
}

TEST(PipelineScheduleTest, InterleavedStagesHoldNoMoreThanTheirWarmUp) {
  for (const PipelineShape& shape : grid()) {
    if (shape.chunks == 1 || shape.microbatches % shape.stages != 0) continue;
    SCOPED_TRACE(str(shape));
    const PipelineReport report = check_schedule(shape, make_schedule(shape));
    for (int s = 0; s < shape.stages; ++s) {
      const int warm_up = 2 * (shape.stages - 1 - s) + (shape.chunks - 1) * shape.stages + 1;
      EXPECT_LE(report.in_flight[static_cast<size_t>(s)],
                std::min(warm_up, shape.microbatches * shape.chunks));
    }
  }
}

TEST(PipelineScheduleTest, APictureShowsWhoWaits) {
  const PipelineShape shape{PipelineKind::one_f_one_b, 2, 3};
  EXPECT_EQ(picture_of(shape, make_schedule(shape)),
            "stage 0  0 1     [0] 2 [1]   [2]\n"
            "stage 1    0 [0] 1 [1] 2 [2]\n");
}

class BrokenScheduleTest : public testing::Test {
 protected:
  BrokenScheduleTest() : schedule_(make_schedule(shape_)) {}

  StageTasks& stage(int s) { return schedule_[static_cast<size_t>(s)]; }
  bool fails_with(const std::string& text) {
    return throws<FailedPrecondition>([&] { check_schedule(shape_, schedule_); },
                                      {"pipeline schedule: ", text});
  }

  PipelineShape shape_{PipelineKind::one_f_one_b, 2, 3};
  PipelineSchedule schedule_;
};

TEST_F(BrokenScheduleTest, AMissingSendIsAWaitForEver) {
  std::erase_if(stage(0), [](const PipelineTask& task) {
    return task == PipelineTask{PipelineAction::send_output, 1, 0};
  });
  EXPECT_TRUE(fails_with("stage 0 waits for ever for the gradient of micro-batch 1 in chunk 0"));
}

TEST_F(BrokenScheduleTest, APassDoneTwiceIsNamed) {
  stage(1).insert(stage(1).begin() + 2, {PipelineAction::forward, 0, 0});
  EXPECT_TRUE(fails_with("stage 1 does the forward pass of micro-batch 0 in chunk 0 twice"));
}

TEST_F(BrokenScheduleTest, ABackwardPassBeforeItsForwardPassIsNamed) {
  stage(1).insert(stage(1).begin(), {PipelineAction::backward, 2, 0});
  EXPECT_TRUE(fails_with(
      "stage 1 does the backward pass of micro-batch 2 in chunk 0 before the forward pass"));
}

TEST_F(BrokenScheduleTest, AnUpdateIsTheLastTask) {
  std::rotate(stage(0).begin(), stage(0).end() - 1, stage(0).end());
  EXPECT_TRUE(fails_with("stage 0 does not end with its one update"));
}

TEST(PipelineShapeTest, NumbersThatMakeNoPipelineAreRefused) {
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        make_schedule({PipelineKind::gpipe, 0, 1});
      },
      {"0 stages"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        make_schedule({PipelineKind::gpipe, 1, 0});
      },
      {"0 micro-batches"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        make_schedule({PipelineKind::gpipe, 2, 2, 2});
      },
      {"2 chunks in a stage need the schedule 'interleaved', not 'gpipe'"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] { pipeline_kind("zigzag"); },
      {"no schedule 'zigzag'; the schedules are gpipe, 1f1b and interleaved"}));
}

}  // namespace
}  // namespace tandem::graph

// Where the list of a model's calls is cut into chunks.
#include "graph/pipeline/stage_search.h"

#include <gtest/gtest.h>

namespace tandem::graph {
namespace {

using Ends = std::vector<size_t>;

/// Calls of so many seconds, each of which keeps ten bytes.
std::vector<CallLoad> calls_of(const std::vector<double>& seconds) {
  std::vector<CallLoad> calls;
  for (double each : seconds) calls.push_back({.seconds = each, .kept_bytes = 10});
  return calls;
}

Ends found(const std::vector<CallLoad>& calls, const std::vector<ChunkPlace>& places) {
  return find_chunks(calls, std::vector<double>(calls.size() + 1, 0), places);
}

TEST(StageSearch, TheSlowestOfUnevenChunksIsAsFastAsCanBe) {
  EXPECT_EQ(found(calls_of({8, 1, 1, 1, 1, 4}), {{}, {}}), (Ends{1, 6}));
  EXPECT_EQ(found(calls_of({1, 1, 1, 1, 1, 9}), {{}, {}}), (Ends{5, 6}));
  EXPECT_EQ(found(calls_of({2, 2, 2, 3, 3, 6}), {{}, {}, {}}), (Ends{3, 5, 6}));
}

TEST(StageSearch, CutsAreWhereLittleIsHandedOn) {
  const std::vector<CallLoad> calls = calls_of({1, 1, 1, 1});
  EXPECT_EQ(find_chunks(calls, {0, 5, 5, 0.5, 0}, {{}, {}}), (Ends{3, 4}));
}

TEST(StageSearch, AStageWithMoreThreadsHasMoreCalls) {
  EXPECT_EQ(found(calls_of({1, 1, 1, 1}), {{.threads = 3}, {.threads = 1}}), (Ends{3, 4}));
}

TEST(StageSearch, AChunkKeepsWithinItsRoomForTheMicroBatchesInFlight) {
  const std::vector<CallLoad> calls = calls_of({1, 1, 1, 1});
  EXPECT_EQ(found(calls, {{.in_flight = 2, .room = 20}, {}}), (Ends{1, 4}));
  EXPECT_EQ(found(calls, {{.in_flight = 1, .room = 20}, {}}), (Ends{2, 4}));
  EXPECT_EQ(found(calls, {{}, {.in_flight = 1, .room = 10}}), (Ends{3, 4}));
}

TEST(StageSearch, WhereNothingFitsTheRoomsAreExceededByLittle) {
  EXPECT_EQ(found(calls_of({9, 1, 1, 1}), {{.room = 1}, {.room = 1}}), (Ends{2, 4}));
}

}  // namespace
}  // namespace tandem::graph

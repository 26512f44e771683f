#include <gtest/gtest.h>

#include "distribute/range/parameter_layout.h"
#include "distribute/range/update_ledger.h"
#include "distribute/server/ticket_table.h"
#include "harness/throws.h"
#include "tandem/error.h"

namespace tandem::distribute {
namespace {

using Outcome = PushAnswer::Outcome;

TensorTypes some_variables() {
  return {{DType::float32, {1000, 64}}, {DType::float64, {300}}, {DType::float32, {}}};
}

/// How often each element of each variable is on some server.
std::vector<std::vector<int>> holdings(const TensorTypes& variables,
                                       const ParameterLayout& layout) {
  std::vector<std::vector<int>> held;
  for (const TensorType& variable : variables) {
    held.emplace_back(static_cast<size_t>(variable.shape.count()));
  }
  for (int s = 0; s < layout.servers(); ++s) {
    for (const ServerPiece& piece : layout.pieces(s)) {
      for (int64_t i = piece.begin; i < piece.end; ++i) {
        ++held[piece.variable][static_cast<size_t>(i)];
      }
    }
  }
  return held;
}

void expect_each_once(const TensorTypes& variables, const ParameterLayout& layout) {
  for (const std::vector<int>& variable : holdings(variables, layout)) {
    for (int count : variable) ASSERT_EQ(count, 1);
  }
}

TEST(ParameterLayout, ServersHaveEqualBytesOfOneLargeVariable) {
  const TensorTypes variables = some_variables();
  for (int servers = 1; servers <= 5; ++servers) {
    const ParameterLayout layout(variables, servers);
    expect_each_once(variables, layout);
    const int64_t all = 1000 * 64 * 4 + 300 * 8 + 4;
    for (int s = 0; s < servers; ++s) {
      EXPECT_NEAR(static_cast<double>(layout.bytes(s)), static_cast<double>(all) / servers, 64 * 8);
      for (const ServerPiece& piece : layout.pieces(s)) EXPECT_EQ(piece.begin % 64, 0);
    }
  }
}

TEST(ParameterLayout, MoreServersThanChunksLeaveSomeWithNothing) {
  const TensorTypes variables = {{DType::float32, {10}}};
  const ParameterLayout layout(variables, 4);
  expect_each_once(variables, layout);
  EXPECT_EQ(layout.bytes(3), 40);
}

TEST(ParameterLayout, PartitionersCutByRows) {
  const TensorTypes variables = {{DType::float32, {10, 3}}, {DType::float32, {2}}};
  const ParameterLayout layout(variables, 2, partitioners::fixed_shards(3));
  expect_each_once(variables, layout);
  const std::vector<ServerPiece> first = {{0, 0, 12}, {0, 21, 30}, {1, 1, 2}};
  EXPECT_EQ(std::vector(layout.pieces(0).begin(), layout.pieces(0).end()), first);
}

TEST(ParameterLayout, PartitionersAreTensorFlows) {
  const Shape shape{16, 16};  // 1024 bytes of float32.
  EXPECT_EQ(partitioners::min_size(256, 8)(shape, DType::float32), 4);
  EXPECT_EQ(partitioners::min_size(256, 2)(shape, DType::float32), 2);
  EXPECT_EQ(partitioners::min_size()(shape, DType::float32), 1);
  EXPECT_EQ(partitioners::max_size(200)(shape, DType::float32), 6);
  EXPECT_EQ(partitioners::max_size(200, 2)(shape, DType::float32), 2);
  EXPECT_EQ(partitioners::max_size(1)(shape, DType::float32), 16);
  EXPECT_EQ(partitioners::fixed_shards(40)(shape, DType::float32), 16);
  EXPECT_THROW(partitioners::fixed_shards(0), InvalidArgument);
  EXPECT_THROW(ParameterLayout({{DType::float32, {2}}}, 1, [](const Shape&, DType) { return 0; }),
               InvalidArgument);
}

TEST(UpdateLedger, StaleUpdatesAreDampedAndDropped) {
  UpdateLedger ledger({.damping = true, .drop_older_than = 2});
  for (int64_t t = 0; t < 3; ++t) ledger.admit({0, 1, t, t, t});
  const PushAnswer damped = ledger.admit({1, 1, 0, 3, 1});
  EXPECT_EQ(damped.outcome, Outcome::applied);
  EXPECT_EQ(damped.staleness, 2);
  EXPECT_DOUBLE_EQ(damped.scale, 1.0 / 3);
  const PushAnswer late = ledger.admit({1, 1, 1, 4, 1});
  EXPECT_EQ(late.outcome, Outcome::dropped);
  EXPECT_EQ(ledger.version(), 4);
  EXPECT_EQ(ledger.statistics().str(),
            "staleness of 5 updates: mean 1.0, at most 3\n"
            "  worker 0: 3 updates, mean 0.0, at most 0: 3 x 0\n"
            "  worker 1: 2 updates, mean 2.5, at most 3: 1 x 2, 1 x 3\n");
}

TEST(UpdateLedger, ARetryGetsTheOldAnswer) {
  UpdateLedger ledger({});
  ledger.admit({0, 1, 0, 0, 0});
  const PushAnswer first = ledger.admit({1, 1, 0, 1, 0});
  ledger.admit({0, 1, 1, 2, 1});
  PushAnswer again = ledger.admit({1, 1, 0, 1, 0});
  EXPECT_EQ(again.outcome, Outcome::repeated);
  again.outcome = first.outcome;
  EXPECT_EQ(again, first);
}

TEST(UpdateLedger, AWorkerThatWasReplacedIsRefused) {
  UpdateLedger ledger({});
  ledger.admit({0, 2, 0, 0, 0});
  EXPECT_EQ(ledger.admit({0, 1, 7, 1, 0}).outcome, Outcome::refused);
  EXPECT_FALSE(ledger.has(1));
}

TEST(UpdateLedger, AStepIsAppliedWhenAllOfItIsThereAndTheNextBegins) {
  UpdateLedger ledger({.synchronous = true, .shares = 2});
  EXPECT_EQ(ledger.admit({0, 1, 0, 0, 0}).outcome, Outcome::held);
  EXPECT_FALSE(ledger.commit(1));
  EXPECT_EQ(ledger.admit({1, 1, 0, 1, 0}).outcome, Outcome::held);
  EXPECT_FALSE(ledger.commit(0));
  EXPECT_EQ(ledger.commit(1), 0);
  EXPECT_EQ(ledger.version(), 1);
  EXPECT_EQ(ledger.admit({0, 1, 1, 4, 0}).outcome, Outcome::refused);
}

TEST(UpdateLedger, WhatWasMadeIsKnownAfterARestart) {
  UpdateLedger ledger({});
  for (const int64_t t : {0, 1, 4, 6}) ledger.admit({0, 1, t, t, 0});
  UpdateLedger other({});
  other.restore(ledger.save());
  EXPECT_EQ(other.version(), 4);
  EXPECT_EQ(other.admit({0, 1, 9, 4, 0}).outcome, Outcome::repeated);
  EXPECT_EQ(other.admit({0, 1, 10, 5, 0}).outcome, Outcome::applied);
  EXPECT_THROW(other.restore("3 1"), DataLoss);
  EXPECT_THROW(other.restore("3 1 2 5"), DataLoss);
  EXPECT_THROW(other.restore("-3 1 0"), DataLoss);
}

TEST(TicketTable, AWorkerMoreThanTheBoundAheadWaits) {
  TicketTable table(1);
  for (int b = 0; b < 6; ++b) table.add(0, b);
  table.join(0, 1);
  table.join(1, 1);
  const auto slow = table.take(1);
  for (int i = 0; i < 2; ++i) table.finish(0, *table.take(0));
  EXPECT_FALSE(table.take(0));
  table.finish(1, *slow);
  EXPECT_TRUE(table.take(0));
}

TEST(TicketTable, AReservedTicketIsTheWorkersUnlessAnotherHasNothingToDo) {
  TicketTable tickets(unbounded);
  for (int64_t batch = 0; batch < 3; ++batch) tickets.add(0, batch);
  tickets.join(0, 1);
  tickets.join(1, 1);
  EXPECT_EQ(tickets.take(0)->batch, 0);
  EXPECT_EQ(tickets.reserve(0)->batch, 1);
  EXPECT_EQ(tickets.reserve(0)->batch, 1);  // One at a time.
  EXPECT_EQ(tickets.take(1)->batch, 2);
  EXPECT_EQ(tickets.take(0)->batch, 1);
  tickets.add(0, 3);
  tickets.add(0, 4);
  EXPECT_EQ(tickets.reserve(0)->batch, 3);
  EXPECT_EQ(tickets.take(1)->batch, 4);
  EXPECT_EQ(tickets.take(1)->batch, 3);
  EXPECT_FALSE(tickets.take(0));
  tickets.add(0, 5);
  EXPECT_EQ(tickets.reserve(0)->batch, 5);
  tickets.leave(0);  // With all that it held.
  EXPECT_EQ(tickets.take(1)->batch, 0);
  EXPECT_EQ(tickets.take(1)->batch, 1);
  EXPECT_EQ(tickets.take(1)->batch, 5);
}

TEST(TicketTable, AReservedTicketDoesNotLetAWorkerPastTheBound) {
  TicketTable table(1);
  for (int b = 0; b < 4; ++b) table.add(0, b);
  table.join(0, 1);
  table.join(1, 1);
  const auto slow = table.take(1);
  for (int i = 0; i < 2; ++i) table.finish(0, *table.take(0));
  EXPECT_EQ(table.reserve(0)->batch, 3);
  EXPECT_FALSE(table.take(0));
  table.finish(1, *slow);
  // The one that is waited for does it where nothing else is left.
  EXPECT_EQ(table.take(1)->batch, 3);
  TicketTable in_step(0, 2);
  in_step.add(0, 0);
  in_step.join(0, 1);
  EXPECT_FALSE(in_step.reserve(0));
}

TEST(TicketTable, WorkersDoSeveralSharesAtOnceWhereSomeAreGone) {
  TicketTable table(0, 4);
  table.add(0, 0);
  table.add(0, 1);
  for (int worker : {0, 1, 2}) table.join(worker, 1);
  EXPECT_FALSE(table.take_beside(0));  // It has no share of its own yet.
  EXPECT_EQ(table.take(0)->share, 0);
  EXPECT_EQ(table.take(1)->share, 1);
  EXPECT_FALSE(table.take_beside(0));  // Worker 2 is there, too.
  EXPECT_EQ(table.take(2)->share, 2);
  EXPECT_EQ(table.take_beside(0)->share, 3);
  table.leave(2);
  EXPECT_FALSE(table.take_beside(0));  // The other one has fewer.
  EXPECT_EQ(table.take_beside(1)->share, 2);
  table.leave(1);
  const auto third = table.take_beside(0);
  const auto fourth = table.take_beside(0);
  EXPECT_EQ(third->share, 1);
  EXPECT_EQ(fourth->share, 2);
  EXPECT_FALSE(table.take_beside(0));  // The next step's turn has not come.
  table.finish(0, *third);
  table.finish(0, *fourth);
  table.join(1, 2);
  EXPECT_FALSE(table.take(1));
  EXPECT_EQ(table.done(), 2);
}

TEST(TicketTable, NobodyWaitsForAWorkerThatIsGone) {
  TicketTable table(0, 2);
  table.add(0, 0);
  table.add(0, 1);
  table.join(0, 1);
  table.join(1, 1);
  const auto lost = table.take(1);
  table.finish(0, *table.take(0));
  EXPECT_FALSE(table.take(0));
  table.heard_of(0, std::chrono::seconds(9));
  EXPECT_EQ(table.leave_silent(std::chrono::seconds(10), std::chrono::seconds(5)),
            std::vector<int>{1});
  EXPECT_EQ(table.take(0)->number, lost->number);
}

}  // namespace
}  // namespace tandem::distribute

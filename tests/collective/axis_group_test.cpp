// Groups of some of the processes of a group, as along the axes of a mesh: each exchanges among its
// own members, at the same time as others do.
#include "collective/axis_group.h"

#include <gtest/gtest.h>

#include <numeric>

#include "collective/tree.h"
#include "harness/socket_group.h"

namespace tandem::collective {
namespace {

using Doubles = std::vector<double>;

/// Values that each member has others of, of which the sum depends on the order.
Doubles values_of(int rank, int64_t count) {
  Doubles values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = (rank + 1) * 0.1 + static_cast<double>(i) * (rank % 2 == 0 ? 1e-9 : 1e9);
  }
  return values;
}

Doubles sum_of(const std::vector<int>& ranks, int64_t count) {
  Doubles sums(static_cast<size_t>(count));
  for (size_t i = 0; i < sums.size(); ++i) {
    const auto value = [&](int member, int) {
      return values_of(ranks[static_cast<size_t>(member)], count)[i];
    };
    const auto add = [](double a, double b, int) { return a + b; };
    sums[i] = tree_sum(0, static_cast<int>(ranks.size()), value, add);
  }
  return sums;
}

op::Piece piece_of(Doubles& values) {
  return {values.data(), static_cast<int64_t>(values.size()), DType::float64};
}

void expect_exchanges(AxisGroup& group, const std::vector<int>& ranks, int own) {
  EXPECT_EQ(group.size(), static_cast<int>(ranks.size()));
  EXPECT_EQ(ranks[static_cast<size_t>(group.rank())], own);
  EXPECT_EQ(group.describe(0).find("rank " + std::to_string(ranks[0])), 0u);
  // Sent whole, and by parts, of which the last is short.
  for (const int64_t count : {3, 2500}) {
    Doubles values = values_of(own, count);
    float half = 0.5F;  // Pieces of several types travel together.
    const op::Piece pieces[] = {{&half, 1, DType::float32}, piece_of(values)};
    group.run({.pieces = pieces, .name = "sum"});
    EXPECT_EQ(values, sum_of(ranks, count));
    EXPECT_EQ(half, 0.5F * static_cast<float>(ranks.size()));
  }
  Doubles parts = values_of(own, 300);
  const op::Piece piece = piece_of(parts);
  group.run({.kind = op::ExchangeKind::sum_parts, .pieces = {&piece, 1}, .name = "parts"});
  group.run({.kind = op::ExchangeKind::gather_parts, .pieces = {&piece, 1}, .name = "parts"});
  EXPECT_EQ(parts, sum_of(ranks, 300));
  for (int root = 0; root < group.size(); ++root) {
    Doubles told = values_of(own, 5);
    const op::Piece of_root = piece_of(told);
    group.run({.kind = op::ExchangeKind::broadcast,
               .pieces = {&of_root, 1},
               .root = root,
               .name = "broadcast"});
    EXPECT_EQ(told, values_of(ranks[static_cast<size_t>(root)], 5));
  }
  const std::vector<std::string> texts =
      group.gather_texts("texts", own == 0 ? "" : std::to_string(own));
  for (size_t i = 0; i < ranks.size(); ++i) {
    EXPECT_EQ(texts[i], ranks[i] == 0 ? "" : std::to_string(ranks[i]));
  }
}

TEST(AxisGroup, TheRanksAlongEachAxisExchange) {
  harness::in_processes(4, [](const std::shared_ptr<harness::SocketGroup>& all) {
    const int rank = all->rank();
    const std::vector<int> row{rank / 2 * 2, rank / 2 * 2 + 1};
    const std::vector<int> column{rank % 2, rank % 2 + 2};
    AxisGroup along_row(all, row, 1);
    AxisGroup along_column(all, column, 2);
    expect_exchanges(along_row, row, rank);
    expect_exchanges(along_column, column, rank);
    std::vector<int> each(4);
    std::iota(each.begin(), each.end(), 0);
    AxisGroup of_all(all, each, 3);
    expect_exchanges(of_all, each, rank);
    all->gather_texts("end", "");
  });
}

/// Parts go to all while a sum is made, and several such exchanges may be under way.
TEST(AxisGroup, PartsThatAreGatheredAreThereWhenTheyAreWaitedFor) {
  harness::in_processes(4, [](const std::shared_ptr<harness::SocketGroup>& all) {
    const int rank = all->rank();
    const std::vector<int> ranks{rank % 2, rank % 2 + 2};
    AxisGroup group(all, ranks, 1);
    constexpr int64_t kCount = 300;
    const auto expect_gathered = [&](const Doubles& values) {
      for (int member = 0; member < 2; ++member) {
        const op::PartRange part = op::part_of_piece(kCount, member, 2);
        const Doubles there = values_of(ranks[static_cast<size_t>(member)], kCount);
        for (auto i = static_cast<size_t>(part.begin); i < static_cast<size_t>(part.end); ++i) {
          EXPECT_EQ(values[i], there[i]) << i;
        }
      }
    };
    std::vector<Doubles> values(3, values_of(rank, kCount));
    std::vector<op::Group::Ticket> tickets;
    const auto start = [&](size_t i) {
      const op::Piece piece = piece_of(values[i]);
      tickets.push_back(group.start(
          {.kind = op::ExchangeKind::gather_parts, .pieces = {&piece, 1}, .name = "parts"}));
    };
    start(0);
    start(1);
    Doubles sum = values_of(rank, kCount);
    const op::Piece piece = piece_of(sum);
    group.run({.pieces = {&piece, 1}, .name = "sum"});
    EXPECT_EQ(sum, sum_of(ranks, kCount));
    start(2);
    for (size_t i : {size_t{1}, size_t{0}, size_t{2}}) {
      group.wait(tickets[i]);
      expect_gathered(values[i]);
    }
    all->gather_texts("end", "");
  });
}

}  // namespace
}  // namespace tandem::collective

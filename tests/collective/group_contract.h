/// What every Group of processes must do, whatever carries its messages: one suite for values, one
/// for faults. A kind of group is a function that makes `size` connected groups; here each is used
/// by a thread of its own.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "collective/tree.h"
#include "harness/soak.h"
#include "op/group.h"
#include "tandem/error.h"

namespace tandem::contract {

using Groups = std::vector<std::shared_ptr<op::Group>>;

struct GroupKind {
  std::string name;
  /// Groups whose exchanges may make no progress for `patience`.
  std::function<Groups(int size, std::chrono::milliseconds patience)> make;
};

inline void PrintTo(const GroupKind& kind, std::ostream* out) { *out << kind.name; }

class GroupContract : public testing::TestWithParam<std::tuple<GroupKind, int>> {
 protected:
  int size() const { return std::get<1>(GetParam()); }
  Groups make(std::chrono::milliseconds patience = std::chrono::seconds(60)) const {
    return std::get<0>(GetParam()).make(size(), patience);
  }
};

/// Calls body(group) for each, each on a thread. Errors are failures of the test.
inline void on_all(const Groups& groups, const std::function<void(op::Group&)>& body) {
  std::vector<std::thread> threads;
  for (const auto& group : groups) {
    threads.emplace_back([&body, group] {
      try {
        body(*group);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << group->rank() << ": " << error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

/// What rank r has at place i.
inline float value_at(int rank, int64_t i) {
  return std::sin(static_cast<float>(i % 1000 + 1) * static_cast<float>(rank + 1)) * 100.0f;
}

inline float tree_sum_at(int size, int64_t i) {
  return collective::tree_sum(
      0, size, [&](int r, int) { return value_at(r, i); },
      [](float a, float b, int) { return a + b; });
}

inline std::vector<float> values_of(int rank, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = value_at(rank, i);
  return values;
}

template <class T>
op::Piece piece_of(std::vector<T>& values) {
  return {values.data(), static_cast<int64_t>(values.size()), dtype_of<T>};
}

inline const std::vector<int64_t>& contract_counts() {
  static const std::vector<int64_t> counts = {0,    1,    63,     64,      65,       1000,
                                              2561, 5000, 70'001, 400'000, 1'500'001};
  return counts;
}

TEST_P(GroupContract, SumsInTheOrderOfTheTreeBitByBit) {
  const Groups groups = make();
  on_all(groups, [&](op::Group& group) {
    for (const int64_t count : contract_counts()) {
      std::vector<float> values = values_of(group.rank(), count);
      const std::vector<op::Piece> pieces = {piece_of(values)};
      group.run({.kind = op::ExchangeKind::sum, .pieces = pieces, .name = "x"});
      int64_t wrong = 0;
      for (int64_t i = 0; i < count; ++i) {
        const float expected = tree_sum_at(group.size(), i);
        wrong += std::memcmp(&values[static_cast<size_t>(i)], &expected, sizeof expected) != 0;
      }
      EXPECT_EQ(wrong, 0) << count << " elements on rank " << group.rank();
    }
  });
}

TEST_P(GroupContract, SumsPiecesOfManyTypesAndSizes) {
  const Groups groups = make();
  on_all(groups, [&](op::Group& group) {
    const int r = group.rank();
    const int n = group.size();
    for (const size_t scale : {size_t{1}, size_t{1000}}) {
      std::vector<uint8_t> bytes(3 * scale, static_cast<uint8_t>(r + 1));
      std::vector<double> doubles(5 * scale, r + 0.5);
      std::vector<int32_t> ints(7, r - 1);
      std::vector<float> floats(200 * scale, static_cast<float>(r));
      std::vector<int64_t> longs(1, int64_t{1} << (40 + r));
      std::vector<float> none;
      const std::vector<op::Piece> pieces = {piece_of(bytes), piece_of(doubles), piece_of(none),
                                             piece_of(ints),  piece_of(floats),  piece_of(longs)};
      group.run({.kind = op::ExchangeKind::sum, .pieces = pieces, .name = "mixed"});
      EXPECT_EQ(bytes, std::vector<uint8_t>(3 * scale, static_cast<uint8_t>(n * (n + 1) / 2)));
      EXPECT_EQ(doubles, std::vector<double>(5 * scale, n * (n - 1) / 2 + 0.5 * n));
      EXPECT_EQ(ints, std::vector<int32_t>(7, n * (n - 1) / 2 - n));
      EXPECT_EQ(floats, std::vector<float>(200 * scale, static_cast<float>(n * (n - 1) / 2)));
      EXPECT_EQ(longs[0], ((int64_t{1} << n) - 1) << 40);
    }
  });
}

TEST_P(GroupContract, PartsOfSumsGatheredAreTheSum) {
  const Groups groups = make();
  on_all(groups, [&](op::Group& group) {
    for (const int64_t count : contract_counts()) {
      std::vector<float> values = values_of(group.rank(), count);
      std::vector<float> small = values_of(group.rank(), 100);
      const std::vector<op::Piece> pieces = {piece_of(values), piece_of(small)};
      group.run({.kind = op::ExchangeKind::sum_parts, .pieces = pieces, .name = "x"});
      const auto [begin, end] = op::part_of_piece(count, group.rank(), group.size());
      for (int64_t i = begin; i < end; ++i) {
        ASSERT_EQ(values[static_cast<size_t>(i)], tree_sum_at(group.size(), i));
      }
      for (int64_t i = 0; i < count; ++i) {
        if (i < begin || i >= end) values[static_cast<size_t>(i)] = -1;
      }
      group.run({.kind = op::ExchangeKind::gather_parts, .pieces = pieces, .name = "x"});
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(values[static_cast<size_t>(i)], tree_sum_at(group.size(), i))
            << i << " of " << count;
      }
      for (int64_t i = 0; i < 100; ++i) {
        ASSERT_EQ(small[static_cast<size_t>(i)], tree_sum_at(group.size(), i));
      }
    }
  });
}

TEST_P(GroupContract, BroadcastsFromAnyRank) {
  const Groups groups = make();
  on_all(groups, [&](op::Group& group) {
    for (int root = 0; root < group.size(); ++root) {
      for (const int64_t count : contract_counts()) {
        std::vector<float> values = values_of(group.rank(), count);
        std::vector<double> more(17, group.rank());
        const std::vector<op::Piece> pieces = {piece_of(values), piece_of(more)};
        group.run(
            {.kind = op::ExchangeKind::broadcast, .pieces = pieces, .root = root, .name = "x"});
        EXPECT_EQ(values, values_of(root, count));
        EXPECT_EQ(more, std::vector<double>(17, root));
      }
    }
  });
}

TEST_P(GroupContract, ExchangesUnderWayAtOnceDoNotMix) {
  const Groups groups = make();
  on_all(groups, [&](op::Group& group) {
    std::mt19937 random(5);
    for (int round = 0; round < 3; ++round) {
      std::vector<std::vector<float>> all;
      std::vector<std::vector<op::Piece>> pieces(10);
      for (size_t k = 0; k < pieces.size(); ++k) {
        const auto count =
            static_cast<int64_t>(random() % 3 == 0 ? random() % 100 : random() % 600'000);
        all.push_back(values_of(group.rank(), count));
      }
      std::vector<op::Group::Ticket> tickets;
      for (size_t k = 0; k < pieces.size(); ++k) {
        pieces[k] = {piece_of(all[k])};
        tickets.push_back(
            group.start({.kind = op::ExchangeKind::sum, .pieces = pieces[k], .name = "bucket"}));
        // Ranks compute for different times.
        std::this_thread::sleep_for(
            std::chrono::microseconds((group.rank() * 7 + static_cast<int>(k) * 3) % 5 * 300));
      }
      for (size_t k = 0; k < pieces.size(); ++k) {
        group.wait(tickets[k]);
        for (size_t i = 0; i < all[k].size(); i += 97) {
          ASSERT_EQ(all[k][i], tree_sum_at(group.size(), static_cast<int64_t>(i)));
        }
      }
    }
  });
}

TEST_P(GroupContract, MessagesBetweenTwoRanksAreFoundByTheirKeys) {
  const Groups groups = make();
  on_all(groups, [&](op::Group& group) {
    const std::vector<int64_t> counts = {0, 1, 5000, 400'000};
    const auto own = [&](int from, int to, size_t k) {
      return values_of(from * 8 + to, counts[k]);
    };
    for (int round = 0; round < 2; ++round) {
      for (int peer = 0; peer < group.size(); ++peer) {
        if (peer == group.rank()) continue;
        for (size_t k = 0; k < counts.size(); ++k) {
          std::vector<float> values = own(group.rank(), peer, k);
          std::vector<double> more(3, group.rank() + round);
          const std::vector<op::Piece> pieces = {piece_of(values), piece_of(more)};
          group.send({peer, static_cast<uint32_t>(k), pieces, "x"});
          std::ranges::fill(values, 0.0f);  // It was copied.
        }
      }
      std::vector<float> sum(100, 1.0f);
      const std::vector<op::Piece> summed = {piece_of(sum)};
      const auto ticket = group.start({.pieces = summed, .name = "beside"});
      for (int peer = 0; peer < group.size(); ++peer) {
        if (peer == group.rank()) continue;
        for (size_t k = counts.size(); k-- > 0;) {
          std::vector<float> values(static_cast<size_t>(counts[k]));
          std::vector<double> more(3);
          const std::vector<op::Piece> pieces = {piece_of(values), piece_of(more)};
          group.receive({peer, static_cast<uint32_t>(k), pieces, "x"});
          EXPECT_EQ(values, own(peer, group.rank(), k));
          EXPECT_EQ(more, std::vector<double>(3, peer + round));
        }
      }
      group.wait(ticket);
      EXPECT_EQ(sum[99], static_cast<float>(group.size()));
    }
  });
}

TEST_P(GroupContract, ManyExchangesTakeNoMoreMemory) {
  const Groups groups = make();
  const auto resident = [] {
    long pages = 0;
    long all = 0;
    std::FILE* file = std::fopen("/proc/self/statm", "r");
    if (file == nullptr || std::fscanf(file, "%ld %ld", &all, &pages) != 2) pages = 0;
    if (file != nullptr) std::fclose(file);
    return pages * 4096;
  };
  const auto run = [&](int times) {
    on_all(groups, [&](op::Group& group) {
      std::vector<float> values(500, 1.0f);
      const std::vector<op::Piece> pieces = {piece_of(values)};
      for (int i = 0; i < times; ++i) {
        std::ranges::fill(values, 1.0f);
        group.run({.kind = op::ExchangeKind::sum, .pieces = pieces, .name = "x"});
        ASSERT_EQ(values[499], static_cast<float>(group.size()));
      }
    });
  };
  run(300);
  const long before = resident();
  run(static_cast<int>(size() < 3 ? harness::rounds(3000, 100'000) : 300));
  EXPECT_LT(resident() - before, 8 << 20);
}

TEST_P(GroupContract, TextsComeTogetherByRank) {
  const Groups groups = make();
  on_all(groups, [&](op::Group& group) {
    const auto texts =
        group.gather_texts("names", std::string(static_cast<size_t>(group.rank()), 'x'));
    ASSERT_EQ(static_cast<int>(texts.size()), group.size());
    for (int r = 0; r < group.size(); ++r)
      EXPECT_EQ(texts[static_cast<size_t>(r)], std::string(static_cast<size_t>(r), 'x'));
  });
}

/// Whoever waits for somebody that does not come.
class GroupFaults : public GroupContract {
 protected:
  /// Runs a sum of `count` elements on all ranks but the last. Each must throw; the messages.
  std::vector<std::string> sums_without_last(const Groups& groups, size_t count,
                                             const std::function<void(op::Group&)>& last) {
    std::vector<std::string> messages(groups.size() - 1);
    on_all(groups, [&](op::Group& group) {
      if (group.rank() == group.size() - 1) return last(group);
      std::vector<float> values(count, 1.0f);
      const std::vector<op::Piece> pieces = {piece_of(values)};
      std::string& message = messages[static_cast<size_t>(group.rank())];
      try {
        group.run({.kind = op::ExchangeKind::sum, .pieces = pieces, .name = "dense/kernel"});
        message = "no error";
      } catch (const Error& error) {
        message = std::string(error.kind()) + ": " + error.what();
      }
      try {
        group.run({.kind = op::ExchangeKind::sum, .pieces = pieces, .name = "again"});
        ADD_FAILURE() << "goes on after an error";
      } catch (const Error& error) {
        EXPECT_EQ(message, std::string(error.kind()) + ": " + error.what());
      }
    });
    return messages;
  }
};

TEST_P(GroupFaults, ARankThatDoesNotComeIsNamedWhenTheTimeIsUp) {
  for (const size_t count : {size_t{100}, size_t{1'000'000}}) {
    const Groups groups = make(std::chrono::milliseconds(300));
    const auto messages = sums_without_last(groups, count, [](op::Group&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    });
    for (const std::string& message : messages) {
      EXPECT_TRUE(message.starts_with("DeadlineExceeded: ")) << message;
      EXPECT_NE(message.find("'dense/kernel'"), std::string::npos) << message;
      EXPECT_NE(message.find(std::to_string(size() - 1)), std::string::npos) << message;
    }
  }
}

TEST_P(GroupFaults, AMessageThatDoesNotComeIsNamedAndAnAbortWakesItsReceiver) {
  for (const bool aborts : {false, true}) {
    const Groups groups = make(std::chrono::milliseconds(aborts ? 60'000 : 300));
    on_all(groups, [&](op::Group& group) {
      if (group.rank() == group.size() - 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(aborts ? 100 : 600));
        if (aborts) group.abort("the disk is full");
        return;
      }
      std::vector<float> values(100);
      const std::vector<op::Piece> pieces = {piece_of(values)};
      std::string message = "no error";
      try {
        group.receive({group.size() - 1, 1, pieces, "activations"});
      } catch (const Error& error) {
        message = std::string(error.kind()) + ": " + error.what();
      }
      EXPECT_TRUE(message.starts_with(aborts ? "Aborted: " : "DeadlineExceeded: ")) << message;
      EXPECT_NE(message.find(aborts ? "the disk is full" : "'activations'"), std::string::npos)
          << message;
    });
  }
}

TEST_P(GroupFaults, AbortFromAnotherThreadWakesAllWhoWait) {
  for (const size_t count : {size_t{100}, size_t{1'000'000}}) {
    const Groups groups = make();
    std::thread aborter([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      for (const auto& group : groups) {
        if (group->rank() == 0) group->abort("the disk is full");
      }
    });
    const auto start = std::chrono::steady_clock::now();
    const auto messages = sums_without_last(groups, count, [&](op::Group& group) {
      aborter.join();
      try {
        for (int i = 0; i < 200; ++i) {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          std::vector<float> values(count);
          const std::vector<op::Piece> pieces = {piece_of(values)};
          group.run({.kind = op::ExchangeKind::sum, .pieces = pieces, .name = "late"});
        }
        ADD_FAILURE() << "the last rank heard nothing";
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("the disk is full"), std::string::npos)
            << error.what();
      }
    });
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    for (const std::string& message : messages) {
      EXPECT_TRUE(message.starts_with("Aborted: ")) << message;
      EXPECT_NE(message.find("the disk is full"), std::string::npos) << message;
    }
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GroupContract);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GroupFaults);

}  // namespace tandem::contract

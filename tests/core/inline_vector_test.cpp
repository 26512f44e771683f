#include "core/inline_vector.h"

#include <gtest/gtest.h>

#include <numeric>
#include <span>

namespace tandem::core {
namespace {

using Ints = InlineVector<int, 4>;

Ints counted(int count) {
  Ints list;
  for (int i = 0; i < count; ++i) list.push_back(i);
  return list;
}

TEST(InlineVector, KeepsItsValuesInOrderAlsoWhereTheyNeedTheHeap) {
  for (int count : {0, 1, 4, 5, 9}) {
    const Ints list = counted(count);
    const std::span<const int> values = list;
    std::vector<int> expected(static_cast<size_t>(count));
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(std::vector<int>(values.begin(), values.end()), expected);
    EXPECT_EQ(list.empty(), count == 0);
  }
}

TEST(InlineVector, ACopyHasValuesOfItsOwn) {
  for (int count : {2, 6}) {
    Ints list = counted(count);
    const Ints copy = list;
    list.push_back(7);
    EXPECT_EQ(copy.size(), static_cast<size_t>(count));
    EXPECT_EQ(copy[1], 1);
    EXPECT_NE(copy.data(), list.data());
  }
}

}  // namespace
}  // namespace tandem::core

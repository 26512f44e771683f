#include "tandem/foreign_exception.h"

#include <gtest/gtest.h>

#include "tandem/tandem.h"

namespace tandem::data {
namespace {

struct Foreign : ForeignException {
  explicit Foreign(int number) : number(number) {}
  int number;
};

Tensor refuse_three(const Tensor& x) {
  if (x.item<int64_t>() == 3) throw Foreign(42);
  return x;
}

/// The number of the exception that comes out of the data set, and how many elements came before.
std::pair<int, int> passed_through(const Dataset& dataset) {
  Iterator iterator = dataset.iterator();
  int elements = 0;
  try {
    while (iterator.next()) ++elements;
  } catch (const Foreign& error) {
    return {error.number, elements};
  }
  return {0, elements};
}

TEST(ForeignExceptionTest, PassesThroughAMapUnchanged) {
  EXPECT_EQ(passed_through(Dataset::range(5).map(refuse_three)), std::pair(42, 3));
}

TEST(ForeignExceptionTest, PassesFromThreadsThatWorkAhead) {
  const Dataset dataset = Dataset::range(5).map(refuse_three, {.parallel = 2}).prefetch(2);
  EXPECT_EQ(passed_through(dataset), std::pair(42, 3));
}

TEST(ForeignExceptionTest, PassesThroughFiltersAndGenerators) {
  const auto test = [](const Tensor& x) { return refuse_three(x).defined(); };
  EXPECT_EQ(passed_through(Dataset::range(5).filter(test)), std::pair(42, 3));
  const auto generator =
      Dataset::from_generator([] { return []() -> std::optional<Tensor> { throw Foreign(7); }; });
  EXPECT_EQ(passed_through(generator), std::pair(7, 0));
}

TEST(ForeignExceptionTest, TheDataSetCanBeReadAgain) {
  int refused = 0;
  const Dataset dataset = Dataset::range(5).map([&refused](const Tensor& x) {
    if (x.item<int64_t>() == 3 && refused++ == 0) throw Foreign(1);
    return x;
  });
  EXPECT_EQ(passed_through(dataset), std::pair(1, 3));
  EXPECT_EQ(passed_through(dataset), std::pair(0, 5));
}

}  // namespace
}  // namespace tandem::data

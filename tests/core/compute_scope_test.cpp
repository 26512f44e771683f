#include "core/compute_scope.h"

#include <gtest/gtest.h>

#include <limits>

namespace tandem::core {
namespace {

/// A product that the compiler cannot compute beforehand.
template <class T>
T times_one(T x) {
  volatile T read = x;
  volatile T one = 1;
  return read * one;
}

template <class T>
void expect_flushing() {
  const T tiny = std::numeric_limits<T>::denorm_min();
  volatile T smallest = std::numeric_limits<T>::min();
  {
    const ComputeScope scope;
    EXPECT_EQ(times_one(tiny), 0);
    EXPECT_EQ(smallest / 2, 0);
    EXPECT_EQ(times_one(smallest), smallest);
  }
  EXPECT_EQ(times_one(tiny), tiny);
  EXPECT_GT(smallest / 2, 0);
}

TEST(ComputeScope, SubnormalNumbersCountAsZeroWhileItLives) {
  expect_flushing<float>();
  expect_flushing<double>();
}

}  // namespace
}  // namespace tandem::core

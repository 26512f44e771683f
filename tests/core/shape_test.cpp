#include "tandem/shape.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "harness/throws.h"
#include "tandem/error.h"

namespace tandem {
namespace {

using harness::throws;

TEST(Shape, AScalarHasNoAxesAndOneElement) {
  const Shape scalar;
  EXPECT_EQ(scalar.rank(), 0);
  EXPECT_EQ(scalar.count(), 1);
  EXPECT_EQ(scalar.rows(), 1);
  EXPECT_EQ(scalar.str(), "[]");
  EXPECT_FALSE(scalar.is_symbolic());
}

TEST(Shape, SizesAreGivenOutermostFirst) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape[2], 5);
  EXPECT_EQ(shape.rows(), 2);
  EXPECT_EQ(shape.count(), 30);
  EXPECT_EQ(shape.str(), "[2,3,5]");
  EXPECT_EQ(std::vector<int64_t>(shape.sizes().begin(), shape.sizes().end()),
            (std::vector<int64_t>{2, 3, 5}));
}

TEST(Shape, AListOfSizesMakesTheSameShape) {
  const std::vector<int64_t> sizes{4, 7};
  EXPECT_EQ(Shape(sizes), (Shape{4, 7}));
}

TEST(Shape, AnAxisOfSizeZeroLeavesNoElements) { EXPECT_EQ((Shape{3, 0, 2}.count()), 0); }

TEST(Shape, ANegativeExtentIsAMultipleOfTheRows) {
  const Shape batch{-1, 784};
  EXPECT_TRUE(batch.is_symbolic());
  EXPECT_EQ(batch.total_extent(), -784);
  EXPECT_EQ(batch.leading_extent(), -1);
  EXPECT_EQ(batch.str(), "[None,784]");
  EXPECT_EQ((Shape{3, -2}.str()), "[3,None]");
  EXPECT_EQ((Shape{3, -2}.total_extent()), -6);
}

TEST(Shape, ASizeThatDependsOnTheRowsIsNoNumberWithoutABatch) {
  const Shape batch{-1, 784};
  EXPECT_EQ(batch[1], 784);
  EXPECT_TRUE(throws<FailedPrecondition>([&] { return int64_t{batch[0]}; },
                                         {"depends on the rows", "shape(x)"}));
  EXPECT_TRUE(throws<FailedPrecondition>([&] { return int64_t{batch.count()}; }, {"no batch"}));
  EXPECT_TRUE(throws<FailedPrecondition>([&] { return batch[0] == 3; }, {"no batch"}));
}

TEST(Shape, ShapesMadeOfItDependOnTheRowsToo) {
  const Shape batch{-1, 784};
  EXPECT_EQ((Shape{batch[0], 28, 28}), (Shape{-1, 28, 28}));
  EXPECT_EQ((Shape{batch[0] * 2, 392}), (Shape{-2, 392}));
  EXPECT_EQ((Shape{28 * batch[0], 28}), (Shape{-28, 28}));
  EXPECT_EQ((Shape{batch.count()}), (Shape{-784}));
  EXPECT_TRUE(batch[0] == batch[0]);
  EXPECT_EQ(batch[0].str(), "None");
}

TEST(Shape, ProductsOfSizesAreChecked) {
  const Size large = int64_t{1} << 40;
  EXPECT_TRUE(throws<InvalidArgument>([&] { return Shape{large * large}; }, {"too large"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { return Size(-1) * Size(-1); }, {"two sizes"}));
}

TEST(Shape, ResolvingReplacesTheMultipleOfTheRows) {
  EXPECT_EQ((Shape{-1, 784}.resolved(128)), (Shape{128, 784}));
  EXPECT_EQ((Shape{3, -2}.resolved(5)), (Shape{3, 10}));
  EXPECT_EQ((Shape{-4}.resolved(0)), (Shape{0}));
  EXPECT_FALSE((Shape{-4}.resolved(0).is_symbolic()));
}

TEST(Shape, ResolvingChangesNothingElse) {
  EXPECT_EQ((Shape{3, 2}.resolved(128)), (Shape{3, 2}));
  EXPECT_EQ(Shape().resolved(128), Shape());
}

TEST(Shape, TheElementsOfTwoSymbolicAxesCannotBeCounted) {
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        return Shape{-1, 3, -2}.total_extent();
      },
      {"[None,3,None]", "more than one axis"}));
}

TEST(Shape, EightAxesAreTheMost) {
  const Shape most{1, 2, 1, 2, 1, 2, 1, 2};
  EXPECT_EQ(most.rank(), Shape::kMaxRank);
  EXPECT_EQ(most.count(), 16);
  EXPECT_TRUE(
      throws<InvalidArgument>([] { Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}; }, {"9 axes", "at most 8"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { most.inserted(8, 3); }, {"9 axes", "at most 8"}));
}

TEST(Shape, ElementsAreNeverMoreThanBytesCanBeCounted) {
  constexpr int64_t kMost = Shape::kMaxCount;
  constexpr int64_t kRoot = int64_t{1} << 32;
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  EXPECT_EQ((Shape{kMost}.count()), kMost);
  EXPECT_EQ((Shape{2, kMost / 4, 2}.count()), kMost);
  for (const std::vector<int64_t>& sizes : std::vector<std::vector<int64_t>>{{kMost + 1},
                                                                             {kMost, 2},
                                                                             {kRoot, kRoot},
                                                                             {kRoot, kRoot, 0},
                                                                             {0, kLargest},
                                                                             {kLargest, kLargest},
                                                                             {kLeast},
                                                                             {-1, kMost + 1},
                                                                             {-2, kMost}}) {
    EXPECT_TRUE(throws<InvalidArgument>([&] { Shape shape(sizes); }, {"too large", "2^58"}));
  }
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        Shape({3, 2}).with(0, kLargest);
      },
      {"[9223372036854775807,2]"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { Shape({kMost}).inserted(0, 2); }, {"too large"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { Shape({-kRoot}).resolved(kRoot); }, {"too large"}));
  EXPECT_EQ((Shape{-kRoot, 2}.resolved(0)), (Shape{0, 2}));
}

TEST(Shape, OneSizeCanBeChanged) {
  EXPECT_EQ((Shape{2, 3}.with(0, 7)), (Shape{7, 3}));
  EXPECT_EQ((Shape{2, 3}.with(0, -1)), (Shape{-1, 3}));
}

TEST(Shape, AnAxisCanBeRemoved) {
  EXPECT_EQ((Shape{2, 3, 4}.without(0)), (Shape{3, 4}));
  EXPECT_EQ((Shape{2, 3, 4}.without(1)), (Shape{2, 4}));
  EXPECT_EQ((Shape{2, 3, 4}.without(2)), (Shape{2, 3}));
  EXPECT_EQ((Shape{2}.without(0)), Shape());
}

TEST(Shape, AnAxisCanBeAdded) {
  EXPECT_EQ((Shape{2, 3}.inserted(0, 1)), (Shape{1, 2, 3}));
  EXPECT_EQ((Shape{2, 3}.inserted(1, 9)), (Shape{2, 9, 3}));
  EXPECT_EQ((Shape{2, 3}.inserted(2, 1)), (Shape{2, 3, 1}));
  EXPECT_EQ(Shape().inserted(0, 5), (Shape{5}));
}

TEST(Shape, ShapesDifferInRankOrInASize) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{3}), (Shape{3, 1}));
  EXPECT_NE(Shape(), (Shape{1}));
  EXPECT_NE(Shape(), (Shape{0}));
}

}  // namespace
}  // namespace tandem

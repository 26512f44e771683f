#include "tandem/keras/utils.h"

#include <cmath>

#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem::keras::utils {
namespace {

using harness::throws;
using Floats = std::vector<float>;

class ToCategorical : public harness::FreshDevices {};

TEST_F(ToCategorical, OneRowPerLabel) {
  const Tensor labels = Tensor::of({2, 0, 1});
  const Floats expected{0, 0, 1, 1, 0, 0, 0, 1, 0};
  EXPECT_EQ(to_categorical(labels).to_vector<float>(), expected);
  EXPECT_EQ(to_categorical(labels).shape(), (Shape{3, 3}));
  EXPECT_EQ(to_categorical(labels, 5).shape(), (Shape{3, 5}));
  for (const DType dtype : {DType::uint8, DType::int64, DType::float32, DType::float64}) {
    EXPECT_EQ(to_categorical(cast(labels, dtype)).to_vector<float>(), expected) << name_of(dtype);
  }
}

TEST_F(ToCategorical, AnAxisOfOneElementGoesAsInKeras) {
  EXPECT_EQ(to_categorical(Tensor::of({{1}, {0}})).shape(), (Shape{2, 2}));
  EXPECT_EQ(to_categorical(Tensor::of({{1, 0, 3}, {0, 1, 2}})).shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(to_categorical(Tensor(1)).to_vector<float>(), (Floats{0, 1}));
}

TEST_F(ToCategorical, NoLabels) {
  EXPECT_EQ(to_categorical(zeros({0}, DType::int32), 4).shape(), (Shape{0, 4}));
}

TEST_F(ToCategorical, WhatIsNoClassIsNamed) {
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        to_categorical(Tensor::of({1, 2, 7}), 5);
      },
      {"to_categorical: label 2 is 7, but there are 5 classes"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        to_categorical(Tensor::of({1, -1}));
      },
      {"label 1 is -1; classes are whole numbers"}));
  EXPECT_TRUE(
      throws<InvalidArgument>([] { to_categorical(Tensor::of({0.5})); }, {"label 0 is 0.5"}));
  EXPECT_TRUE(
      throws<InvalidArgument>([] { to_categorical(Tensor::of({NAN})); }, {"label 0 is nan"}));
}

}  // namespace
}  // namespace tandem::keras::utils

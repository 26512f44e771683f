#include "tandem/keras/applications.h"

#include <gtest/gtest.h>

#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem::keras::applications {
namespace {

using harness::throws;

int64_t count_of(const Variables& weights) {
  int64_t count = 0;
  for (const Variable& weight : weights) count += weight.shape().count();
  return count;
}

class InceptionV3Test : public harness::FreshDevices {};

/// The numbers are those that Keras prints.
TEST_F(InceptionV3Test, HasKerasParameters) {
  const Model model = InceptionV3();
  EXPECT_EQ(model.count_params(), 23'851'784);
  EXPECT_EQ(count_of(model.trainable_weights()), 23'817'352);
  EXPECT_EQ(count_of(model.non_trainable_weights()), 34'432);
  EXPECT_EQ(model.layers().size(), 313u);
  EXPECT_EQ(model.get_layer("mixed10").body()->outputs()[0].shape, (Shape{-1, 8, 8, 2048}));
  EXPECT_EQ(model.get_layer("mixed7").body()->outputs()[0].shape, (Shape{-1, 17, 17, 768}));
  EXPECT_EQ(model.get_layer(40).name(), "mixed0");
  EXPECT_EQ(model.get_layer(312).name(), "predictions");
  EXPECT_EQ(model.get_layer(311).name(), "avg_pool");
}

TEST_F(InceptionV3Test, SmallImagesGoThrough) {
  const Model model = InceptionV3({.input_shape = {75, 75, 3}, .classes = 5});
  const Tensor y = model(random_uniform({2, 75, 75, 3}, -1, 1, {.seed = 1}));
  EXPECT_EQ(y.shape(), (Shape{2, 5}));
  for (float sum : reduce_sum(y, {.axes = {{1}}}).to_vector<float>()) EXPECT_NEAR(sum, 1, 1e-5);
}

TEST_F(InceptionV3Test, WithoutATopItGivesFeatures) {
  const Model model =
      InceptionV3({.include_top = false, .input_shape = {75, 80, 3}, .pooling = "max"});
  EXPECT_EQ(model.count_params(), 21'802'784);
  EXPECT_EQ(model.layers().back().body()->outputs()[0].shape, (Shape{-1, 2048}));
}

TEST_F(InceptionV3Test, MistakesAreNamed) {
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        InceptionV3({.input_shape = {74, 75, 3}});
      },
      {"input_shape is [74,75,3]", "75 x 75"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { InceptionV3({.weights = "imagenet"}); },
                                      {"'imagenet'", "checkpoint"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { InceptionV3({.classes = 0}); }, {"classes is 0"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { InceptionV3({.pooling = "avg"}); }, {"without a top"}));
}

}  // namespace
}  // namespace tandem::keras::applications

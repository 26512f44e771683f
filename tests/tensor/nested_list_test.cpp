#include <gtest/gtest.h>

#include "device/test/test_device.h"
#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem {
namespace {

using harness::throws;

class NestedList : public harness::FreshDevices {};

TEST_F(NestedList, ListsOfNumbersAreTensors) {
  const Tensor vector = Tensor::of({1.0, 2.0, 3.0});
  EXPECT_EQ(vector.dtype(), DType::float64);
  EXPECT_EQ(vector.shape(), (Shape{3}));

  const Tensor matrix = Tensor::of({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(matrix.dtype(), DType::int32);
  EXPECT_EQ(matrix.shape(), (Shape{2, 3}));
  EXPECT_EQ(matrix.to_vector<int32_t>(), (std::vector<int32_t>{1, 2, 3, 4, 5, 6}));

  const Tensor cube = Tensor::of({{{1.F}, {2.F}}, {{3.F}, {4.F}}, {{5.F}, {6.F}}});
  EXPECT_EQ(cube.shape(), (Shape{3, 2, 1}));
  EXPECT_EQ(cube.to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));

  EXPECT_EQ(Tensor::of({{{{true, false}}}, {{{false, true}}}}).shape(), (Shape{2, 1, 1, 2}));
}

TEST_F(NestedList, VectorsOfVectorsAreTensors) {
  const std::vector<std::vector<double>> rows = {{1, 2}, {3, 4}, {5, 6}};
  EXPECT_EQ(Tensor::of(rows).shape(), (Shape{3, 2}));
  EXPECT_EQ(Tensor::of(rows).to_vector<double>(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Tensor::of(std::vector<std::vector<float>>{}).shape(), (Shape{0, 0}));
  EXPECT_EQ(Tensor::of(std::vector<std::vector<float>>(2)).shape(), (Shape{2, 0}));
}

TEST_F(NestedList, BoolsOfAVectorAreElements) {
  const std::vector<bool> bits = {true, false, true};
  EXPECT_EQ(Tensor::of(bits).to_vector<bool>(), bits);
  EXPECT_EQ(Tensor::from(bits, {3, 1}).to_vector<bool>(), bits);
  EXPECT_THROW(Tensor::from(bits, {2}), InvalidArgument);
}

TEST_F(NestedList, SpansOfConstantAndOtherElementsAreCopied) {
  std::vector<float> values = {1, 2};
  const Tensor x = Tensor::from(std::span(values), {2});
  const Tensor y = Tensor::from(std::span<const float, 2>(values), {2});
  values[0] = 9;
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 2}));
}

TEST_F(NestedList, RaggedListsAreRefusedWithThePlace) {
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        Tensor::of({{1, 2}, {3, 4}, {5}});
      },
      {"the list at [2] has 1 elements, those before it have 2"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        Tensor::of({{{1}, {2}}, {{3}, {4, 5}}});
      },
      {"the list at [1,1] has 2 elements"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        Tensor::of({{{1}, {2}}, {{3}}});
      },
      {"the list at [1] has 1 elements"}));
  const std::vector<std::vector<int64_t>> rows = {{1}, {}};
  EXPECT_TRUE(throws<InvalidArgument>([&] { Tensor::of(rows); }, {"at [1] has 0 elements"}));
}

TEST_F(NestedList, OneElementIsReadByItsIndex) {
  const Tensor x = Tensor::of({{1.F, 2.F, 3.F}, {4.F, 5.F, 6.F}});
  EXPECT_EQ(x.at<float>({0, 0}), 1);
  EXPECT_EQ(x.at<float>({1, 2}), 6);
  EXPECT_EQ(x.rows(1, 2).at<float>({0, 1}), 5);
  EXPECT_EQ(Tensor(int64_t{3}).at<int64_t>({}), 3);
  EXPECT_EQ(Tensor::of({true, false}).at<bool>({1}), false);
}

TEST_F(NestedList, IndicesOutOfRangeAreNamed) {
  const Tensor x = Tensor::of({{1.F, 2.F, 3.F}, {4.F, 5.F, 6.F}});
  for (const auto& index :
       {std::initializer_list<int64_t>{2, 0}, {0, 3}, {-1, 0}, {0}, {0, 0, 0}}) {
    EXPECT_TRUE(throws<InvalidArgument>([&] { x.at<float>(index); }, {"is not within [2,3]"}));
  }
  EXPECT_TRUE(throws<InvalidArgument>([&] { x.at<float>({2, 0}); }, {"index [2,0]"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { x.at<double>({0, 0}); }, {"read as float64", "cast"}));
  EXPECT_TRUE(throws<FailedPrecondition>(
      [] {
        function([](const Tensor& t) {
          t.at<float>({0});
          return t;
        })(Tensor::of({1.F}));
      },
      {"traced"}));
}

TEST_F(NestedList, OneElementIsReadFromAnotherDevice) {
  devices::test::add_test_gpu();
  const auto scope = device("GPU:0");
  EXPECT_EQ((fill({2, 2}, 1) + Tensor::of({1.F, 2.F})).at<float>({1, 1}), 3);
}

TEST_F(NestedList, HalvesAreReadAfterACast) {
  const Tensor x = cast(Tensor::of({1.5F}), DType::float16);
  EXPECT_TRUE(throws<InvalidArgument>([&] { x.to_vector<float>(); },
                                      {"read as float32, but it is float16; use cast"}));
  EXPECT_EQ(cast(x, DType::float32).item<float>(), 1.5F);
}

}  // namespace
}  // namespace tandem

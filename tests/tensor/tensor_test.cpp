#include "tandem/tensor.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "device/test/test_device.h"
#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/error.h"
#include "tandem/ops.h"
#include "tensor/body.h"

namespace tandem {
namespace {

using harness::throws;
using Floats = std::vector<float>;

using TensorTest = harness::FreshDevices;

template <class T>
void expect_round_trip(const std::vector<T>& values, DType dtype) {
  const Tensor tensor = Tensor::from(values, {2, 2});
  EXPECT_EQ(tensor.dtype(), dtype);
  EXPECT_EQ(tensor.shape(), (Shape{2, 2}));
  EXPECT_EQ(tensor.rank(), 2);
  EXPECT_EQ(tensor.to_vector<T>(), values) << name_of(dtype);
}

TEST_F(TensorTest, ValuesOfEachTypeComeBackAsTheyWere) {
  expect_round_trip<float>({1.5f, -0.0f, 1e-40f, 3e38f}, DType::float32);
  expect_round_trip<double>({1.5, -2, 1e-310, 1e308}, DType::float64);
  expect_round_trip<uint8_t>({0, 1, 128, 255}, DType::uint8);
  expect_round_trip<int32_t>({0, -1, std::numeric_limits<int32_t>::min(), 7}, DType::int32);
  expect_round_trip<int64_t>({0, -1, std::numeric_limits<int64_t>::max(), 7}, DType::int64);
}

TEST_F(TensorTest, TruthValuesComeBackAsTheyWere) {
  const Tensor tensor = Tensor::from<bool>({true, false, true}, {3});
  EXPECT_EQ(tensor.dtype(), DType::boolean);
  EXPECT_EQ(tensor.to_vector<bool>(), (std::vector<bool>{true, false, true}));
}

TEST_F(TensorTest, HalfPrecisionValuesAreKeptAsBytes) {
  const std::array<uint16_t, 3> bits{0x3c00, 0xc000, 0x7bff};
  for (DType dtype : {DType::float16, DType::bfloat16}) {
    const Tensor tensor = Tensor::copy_of(bits.data(), dtype, {3});
    std::array<uint16_t, 3> copied{};
    tensor.copy_to_host(copied.data());
    EXPECT_EQ(copied, bits);
    EXPECT_EQ(tensor.dtype(), dtype);
  }
}

TEST_F(TensorTest, NumbersAreScalarsOfTheirType) {
  EXPECT_EQ(Tensor(1.5f).dtype(), DType::float32);
  EXPECT_EQ(Tensor(1.5).dtype(), DType::float64);
  EXPECT_EQ(Tensor(7).dtype(), DType::int32);
  EXPECT_EQ(Tensor(int64_t{7}).dtype(), DType::int64);
  EXPECT_EQ(Tensor(true).dtype(), DType::boolean);
  EXPECT_EQ(Tensor(1.5).rank(), 0);
  EXPECT_EQ(Tensor(1.5).item<double>(), 1.5);
  EXPECT_EQ(Tensor(7).item<int32_t>(), 7);
  EXPECT_TRUE(Tensor(true).item<bool>());
}

TEST_F(TensorTest, LaterChangesOfTheSourceDoNotReachACopy) {
  Floats source{1, 2};
  const Tensor tensor = Tensor::from(source, {2});
  source[0] = 9;
  EXPECT_EQ(tensor.to_vector<float>(), (Floats{1, 2}));
}

TEST_F(TensorTest, CopiesOfAHandleShareTheValue) {
  const Tensor tensor(1.0f);
  const Tensor copy = tensor;  // NOLINT(performance-unnecessary-copy-initialization)
  EXPECT_EQ(copy.body(), tensor.body());
}

TEST_F(TensorTest, ValuesThatDoNotFillTheShapeAreRefused) {
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        Tensor::from<float>({1, 2, 3}, {2, 2});
      },
      {"3 values", "[2,2]"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { Tensor::from<float>({}, {1}); }, {"0 values", "[1]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        Tensor::from<float>({1, 2}, {-1});
      },
      {"2 values", "[None]"}));
}

TEST_F(TensorTest, ReadingAsAnotherTypeIsRefusedAndBothAreNamed) {
  const Tensor tensor = Tensor::from<float>({1, 2}, {2});
  EXPECT_TRUE(throws<InvalidArgument>([&] { tensor.to_vector<double>(); },
                                      {"read as float64", "it is float32", "cast"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { Tensor(1.0f).item<int32_t>(); },
                                      {"read as int32", "it is float32"}));
}

TEST_F(TensorTest, TheOnlyElementIsReadFromAnyRank) {
  EXPECT_EQ(Tensor::from<float>({4}, {1, 1, 1}).item<float>(), 4.0f);
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        Tensor::from<float>({1, 2}, {2}).item<float>();
      },
      {"item: a tensor of shape [2] has 2 elements", "to_vector()"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { Tensor::from<float>({}, {0}).item<float>(); },
                                      {"shape [0] has 0 elements"}));
}

TEST_F(TensorTest, AnEmptyHandleIsUndefinedAndNothingElse) {
  const Tensor empty;
  EXPECT_FALSE(empty.defined());
  EXPECT_TRUE(Tensor(1.0f).defined());
  EXPECT_EQ(empty.str(), "Tensor()");
  const auto refused = [](const auto& call) {
    return throws<FailedPrecondition>(call, {"this Tensor is empty"});
  };
  EXPECT_TRUE(refused([&] { empty.dtype(); }));
  EXPECT_TRUE(refused([&] { empty.shape(); }));
  EXPECT_TRUE(refused([&] { empty.rank(); }));
  EXPECT_TRUE(refused([&] { empty.device(); }));
  EXPECT_TRUE(refused([&] { empty.is_symbolic(); }));
  EXPECT_TRUE(refused([&] { empty.rows(0, 1); }));
  EXPECT_TRUE(refused([&] { empty.to_vector<float>(); }));
  EXPECT_TRUE(refused([&] { empty.item<float>(); }));
  EXPECT_TRUE(refused([&] { relu(empty); }));
}

TEST_F(TensorTest, ATensorWithoutElementsIsATensor) {
  const Tensor none = Tensor::from<float>({}, {0, 3});
  EXPECT_TRUE(none.defined());
  EXPECT_EQ(none.shape(), (Shape{0, 3}));
  EXPECT_TRUE(none.to_vector<float>().empty());
  EXPECT_EQ(relu(none).shape(), (Shape{0, 3}));
  EXPECT_EQ(reduce_sum(none).item<float>(), 0.0f);
  EXPECT_EQ(none.rows(0, 0).shape(), (Shape{0, 3}));
}

TEST_F(TensorTest, RowsAreAViewOfTheSameMemory) {
  const Tensor tensor = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {3, 2});
  const Tensor part = tensor.rows(1, 3);
  EXPECT_EQ(part.shape(), (Shape{2, 2}));
  EXPECT_EQ(part.to_vector<float>(), (Floats{3, 4, 5, 6}));
  EXPECT_EQ(static_cast<float*>(part.body()->data()),
            static_cast<float*>(tensor.body()->data()) + 2);
  EXPECT_EQ(part.rows(1, 2).to_vector<float>(), (Floats{5, 6}));
  EXPECT_EQ(tensor.rows(0, 3).to_vector<float>(), tensor.to_vector<float>());
  EXPECT_EQ(tensor.rows(3, 3).shape(), (Shape{0, 2}));
}

TEST_F(TensorTest, AViewOutlivesTheTensorItIsOf) {
  Tensor tensor = Tensor::from<float>({1, 2, 3, 4}, {2, 2});
  const Tensor part = tensor.rows(1, 2);
  tensor = Tensor();
  const Tensor other = Tensor::from<float>({9, 9, 9, 9}, {2, 2});
  EXPECT_EQ(part.to_vector<float>(), (Floats{3, 4}));
}

TEST_F(TensorTest, ViewsAreOperandsLikeAnyTensor) {
  const Tensor tensor = Tensor::from<float>({1, 2, 3, 4}, {4});
  EXPECT_EQ((tensor.rows(0, 2) + tensor.rows(2, 4)).to_vector<float>(), (Floats{4, 6}));
}

TEST_F(TensorTest, RowsBeyondTheLeadingAxisAreRefused) {
  const Tensor tensor = Tensor::from<float>({1, 2, 3, 4}, {2, 2});
  EXPECT_TRUE(throws<InvalidArgument>([&] { tensor.rows(1, 3); }, {"[1, 3)", "[2,2]"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { tensor.rows(-1, 1); }, {"[-1, 1)", "[2,2]"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { tensor.rows(2, 1); }, {"[2, 1)", "[2,2]"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { Tensor(1.0f).rows(0, 1); }, {"[0, 1)", "[]"}));
}

TEST_F(TensorTest, WrappedMemoryIsNotCopied) {
  const auto owner = std::make_shared<Floats>(Floats{1, 2, 3});
  const Tensor tensor = Tensor::wrap(owner->data(), DType::float32, {3}, owner);
  EXPECT_EQ(tensor.body()->data(), owner->data());
  EXPECT_EQ(tensor.to_vector<float>(), (Floats{1, 2, 3}));
  EXPECT_EQ(relu(tensor).to_vector<float>(), (Floats{1, 2, 3}));
}

TEST_F(TensorTest, TheOwnerOfWrappedMemoryIsHeldUntilTheLastTensorIsGone) {
  auto owner = std::make_shared<Floats>(Floats{1, 2, 3});
  const std::weak_ptr<Floats> watch = owner;
  Tensor tensor = Tensor::wrap(owner->data(), DType::float32, {3}, owner);
  owner.reset();
  Tensor part = tensor.rows(1, 2);
  tensor = Tensor();
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(part.item<float>(), 2.0f);
  part = Tensor();
  EXPECT_TRUE(watch.expired());
}

TEST_F(TensorTest, AQueueThatStillReadsWrappedMemoryHoldsItsOwner) {
  devices::test::add_test_gpu({.delay = std::chrono::milliseconds(2)});
  auto owner = std::make_shared<Floats>(Floats{1, 2, 3});
  const std::weak_ptr<Floats> watch = owner;
  Tensor x = Tensor::wrap(owner->data(), DType::float32, {3}, owner);
  const auto scope = device("/gpu:0");
  const Tensor sum = reduce_sum(x);
  owner.reset();
  x = Tensor();
  EXPECT_EQ(sum.item<float>(), 6.0f);
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace tandem

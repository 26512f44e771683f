// The table of functions over runs, as another kernel uses it.
#include "kernels/cpu/elementwise/pointwise.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <vector>

namespace tandem::kernels::cpu {
namespace {

constexpr int64_t kCount = 37;

template <class T>
class PointwiseOf : public testing::Test {
 protected:
  ~PointwiseOf() override { hwy::SetSupportedTargetsForTest(0); }

  static std::vector<T> numbers(T from) {
    std::vector<T> values(kCount);
    for (T& value : values) value = from++;
    return values;
  }
};
using Types = testing::Types<float, double, int32_t, int64_t, uint8_t>;
TYPED_TEST_SUITE(PointwiseOf, Types);

TYPED_TEST(PointwiseOf, InputsGoOnOrStay) {
  using T = TypeParam;
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    const Pointwise<T>* sub = find_pointwise<T>("sub");
    ASSERT_NE(sub, nullptr);
    EXPECT_EQ(sub->inputs, 2);
    const std::vector<T> a = this->numbers(100);
    const std::vector<T> b = this->numbers(3);
    const T* const inputs[] = {a.data(), b.data()};
    for (size_t going_on = 0; going_on < 4; ++going_on) {
      std::vector<T> out(kCount);
      sub->runs[going_on](inputs, out.data(), kCount, nullptr);
      for (size_t i = 0; i < out.size(); ++i) {
        const T left = a[going_on & 1 ? i : 0];
        const T right = b[going_on & 2 ? i : 0];
        ASSERT_EQ(out[i], static_cast<T>(left - right)) << hwy::TargetName(target);
      }
    }
  }
}

TYPED_TEST(PointwiseOf, TheResultMayLieWhereAnInputLay) {
  using T = TypeParam;
  const Pointwise<T>* sub = find_pointwise<T>("sub");
  const std::vector<T> a = this->numbers(100);
  const std::vector<T> b = this->numbers(3);
  for (size_t going_on : {1, 2, 3}) {
    for (size_t place : {0, 1}) {
      std::vector<T> copies[] = {a, b};
      const T* const inputs[] = {copies[0].data(), copies[1].data()};
      sub->runs[going_on](inputs, copies[place].data(), kCount, nullptr);
      for (size_t i = 0; i < a.size(); ++i) {
        const T left = a[going_on & 1 ? i : 0];
        const T right = b[going_on & 2 ? i : 0];
        ASSERT_EQ(copies[place][i], static_cast<T>(left - right));
      }
    }
  }
}

TYPED_TEST(PointwiseOf, NothingIsFoundForOtherOps) {
  EXPECT_EQ(find_pointwise<TypeParam>("matmul"), nullptr);
  EXPECT_EQ(find_pointwise<TypeParam>("where"), nullptr);
  EXPECT_EQ(find_pointwise<TypeParam>(""), nullptr);
}

TEST(Pointwise, LongFunctionsAreSafeInPlaceAndTouchNothingBeyond) {
  const Pointwise<float>* power = find_pointwise<float>("pow");
  for (int64_t count : {0, 1, 7, 8, 9, 31}) {
    for (size_t going_on : {1, 2, 3}) {
      std::vector<float> values(40, 3.f);
      const std::vector<float> twos(40, 2.5f);
      const float* const inputs[] = {values.data(), twos.data()};
      power->runs[going_on](inputs, values.data(), count, nullptr);
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(values[i], i < static_cast<size_t>(count) ? std::pow(3.f, 2.5f) : 3.f);
      }
    }
  }
}

TEST(Pointwise, AttributesBecomeParameters) {
  const Pointwise<double>* clip = find_pointwise<double>("clip");
  ASSERT_NE(clip, nullptr);
  const Parameters parameters = clip->parameters({{"high", 2.0}, {"low", -1.0}});
  EXPECT_EQ(parameters, (Parameters{-1, 2}));
  const std::vector<double> x = {-3, 0, 3};
  std::vector<double> out(3);
  const double* const input = x.data();
  clip->runs[1](&input, out.data(), 3, parameters.data());
  EXPECT_EQ(out, (std::vector<double>{-1, 0, 2}));
}

}  // namespace
}  // namespace tandem::kernels::cpu

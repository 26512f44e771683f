#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "core/compute_scope.h"
#include "harness/classifier.h"
#include "kernels/cpu/convolution/convolution_providers.h"

namespace tandem::kernels::cpu {
namespace {

using Numbers = std::vector<float>;

Numbers numbers(uint64_t seed, int64_t count) {
  Numbers values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(2 * harness::uniform(seed, i) - 1);
  }
  return values;
}

ops::WindowAxis axis(int64_t image, int64_t window, int64_t stride, int64_t dilation,
                     int64_t padding) {
  const int64_t reach = (window - 1) * dilation + 1;
  return {image,
          window,
          stride,
          dilation,
          padding,
          padding,
          (image + 2 * padding - reach) / stride + 1};
}

const std::vector<ConvolutionShape>& shapes() {
  static const std::vector<ConvolutionShape> all = {
      {DType::float32, 3, {axis(13, 3, 1, 1, 0), axis(13, 3, 1, 1, 0)}, 32, 64, 1},
      {DType::float32, 2, {axis(28, 3, 1, 1, 1), axis(28, 3, 1, 1, 1)}, 1, 32, 1},
      {DType::float32, 2, {axis(9, 5, 2, 1, 2), axis(11, 3, 3, 1, 1)}, 16, 24, 1},
      {DType::float32, 1, {axis(9, 3, 1, 2, 2), axis(9, 3, 1, 2, 2)}, 8, 8, 1},
      {DType::float32, 2, {axis(8, 3, 1, 1, 1), axis(8, 3, 1, 1, 1)}, 16, 32, 2},
      {DType::float32, 2, {axis(8, 3, 1, 1, 1), axis(8, 3, 1, 1, 1)}, 24, 24, 24},
      {DType::float32, 2, {axis(9, 3, 2, 1, 1), axis(9, 3, 2, 1, 1)}, 17, 17, 17},
      {DType::float32, 2, {axis(5, 1, 2, 1, 0), axis(5, 1, 2, 1, 0)}, 7, 5, 1},
      // Patches of these are multiplied in blocks that end within an image.
      {DType::float32, 5, {axis(20, 3, 1, 1, 1), axis(20, 3, 1, 1, 1)}, 32, 96, 1},
      {DType::float32, 5, {axis(20, 3, 1, 1, 1), axis(20, 3, 1, 1, 1)}, 16, 32, 2},
      {DType::float32, 6, {axis(17, 1, 1, 1, 0), axis(17, 7, 1, 1, 3)}, 32, 40, 1},
      {DType::float32, 3, {axis(35, 3, 2, 1, 0), axis(35, 3, 2, 1, 0)}, 48, 64, 1},
  };
  return all;
}

Numbers run(const Convolution& convolution, const Numbers& first, const Numbers& second,
            int64_t count) {
  const core::ComputeScope computing;
  const size_t bytes = (convolution.workspace_bytes() + 64) / 64 * 64;
  const std::unique_ptr<void, decltype(&std::free)> workspace(std::aligned_alloc(64, bytes),
                                                              std::free);
  Numbers out(static_cast<size_t>(count), 1e30F);
  convolution.run(first.data(), second.data(), out.data(), workspace.get());
  return out;
}

/// Every provider computes the same.
TEST(Convolution, ProvidersAgree) {
  const core::ComputeScope preparing;  // oneDNN decides on its threads now.
  using enum ConvolutionPass;
  int compared = 0;
  for (const ConvolutionShape& s : shapes()) {
    const Numbers image = numbers(1, s.images * s.image_elements());
    const Numbers filter = numbers(2, s.filter_elements());
    // Half of it is zero, as relu's gradient leaves it.
    Numbers result = numbers(3, s.images * s.result_elements());
    for (float& value : result) value = std::max(value, 0.0F);
    for (const ConvolutionPass pass : {forward, backprop_input, backprop_filter}) {
      const Numbers& first = pass == backprop_input ? filter : image;
      const Numbers& second = pass == forward ? filter : result;
      const auto count = static_cast<int64_t>((pass == forward          ? result
                                               : pass == backprop_input ? image
                                                                        : filter)
                                                  .size());
      const auto patches = run(*prepare_patch_convolution(pass, s), first, second, count);
      const auto chosen = prepare_convolution(pass, s);
      const auto other = prepare_onednn_convolution(pass, s);
      const auto sparse = prepare_sparse_convolution(pass, s);
      for (const Convolution* convolution : {chosen.get(), other.get(), sparse.get()}) {
        if (convolution == nullptr) continue;
        ++compared;
        const auto got = run(*convolution, first, second, count);
        float largest = 1;
        for (const float value : patches) largest = std::max(largest, std::abs(value));
        for (size_t i = 0; i < got.size(); ++i) {
          ASSERT_NEAR(got[i], patches[i], 1e-5F * largest)
              << convolution->provider() << ", " << s.in << " to " << s.out << " channels, pass "
              << static_cast<int>(pass) << ", element " << i;
        }
      }
    }
  }
  EXPECT_GT(compared, 32);
}

TEST(Convolution, WhoIsFasterDependsOnPassShapeAndCpu) {
  using enum ConvolutionPass;
  using enum CpuKind;
  ConvolutionShape shape = shapes()[0];
  for (const CpuKind cpu : {avx2, avx512}) {
    EXPECT_FALSE(patches_are_faster(forward, shape, cpu));
    EXPECT_FALSE(patches_are_faster(backprop_input, shape, cpu));
  }
  EXPECT_TRUE(patches_are_faster(backprop_filter, shape, avx2));
  EXPECT_FALSE(patches_are_faster(backprop_filter, shape, avx512));
  shape.window = {axis(8, 3, 1, 1, 1), axis(8, 3, 1, 1, 1)};
  EXPECT_TRUE(patches_are_faster(backprop_filter, shape, avx512));
  shape = shapes()[0];
  shape.out = 192;
  EXPECT_TRUE(patches_are_faster(forward, shape, avx2));
  EXPECT_FALSE(patches_are_faster(forward, shape, avx512));
  shape.in = 80;
  EXPECT_TRUE(patches_are_faster(backprop_input, shape, avx2));
  shape.in = 16;
  for (const ConvolutionPass pass : {forward, backprop_input, backprop_filter}) {
    EXPECT_FALSE(patches_are_faster(pass, shape, avx2));
  }
}

TEST(Convolution, OneDnnComputesWhatItIsFasterAt) {
  using enum ConvolutionPass;
  if (this_cpu() == CpuKind::other) GTEST_SKIP() << "oneDNN may have no fast kernel here";
  for (const ConvolutionPass pass : {forward, backprop_input}) {
    EXPECT_STREQ(prepare_convolution(pass, shapes()[0])->provider(), "onednn");
  }
}

TEST(Convolution, GradientsThatAreMostlyZeroAreListed) {
  using enum ConvolutionPass;
  ConvolutionShape shape = shapes()[0];
  shape.density = 0.25;
  EXPECT_STRNE(prepare_convolution(forward, shape)->provider(), "sparse");
  EXPECT_STREQ(prepare_convolution(backprop_input, shape)->provider(), "sparse");
  EXPECT_STREQ(prepare_convolution(backprop_filter, shape)->provider(), "sparse");
  // A filter of three elements across is met too quickly.
  shape = shapes()[1];
  shape.density = 0.25;
  EXPECT_STRNE(prepare_convolution(backprop_filter, shape)->provider(), "sparse");
}

}  // namespace
}  // namespace tandem::kernels::cpu

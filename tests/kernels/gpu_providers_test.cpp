// CLBlast as a provider of products: the same numbers as our own kernels', chosen by what was
// measured. Skipped where it is not installed.
#include <gtest/gtest.h>

#include <cmath>

#include "device/logical_device.h"
#include "harness/fresh_devices.h"
#include "harness/opencl.h"
#include "harness/temp_folder.h"
#include "kernels/gpu/gemm/product_choice.h"
#include "kernels/gpu/gemm/products.h"
#include "tandem/providers.h"
#include "tandem/tandem.h"

namespace tandem::kernels::gpu {
namespace {

class GpuProviders : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    harness::use_opencl();
    gpu = devices::find_device(DeviceSpec::parse("/GPU:0"));
    if (!clblast_products(*gpu, DType::float32)) GTEST_SKIP() << "libclblast1 is not installed";
    former = chosen_products(description());
  }
  void TearDown() override {
    if (!former.empty()) choose_products(description(), former);
    gpu.reset();
    FreshDevices::TearDown();
  }
  const devices::gpu::Description& description() const {
    return queue_of(*gpu).compiler().description();
  }

  devices::DevicePtr gpu;
  std::string former;
};

Tensors some_products() {
  const auto scope = device("/GPU:0");
  const auto matrix = [](const Shape& shape, double start) {
    std::vector<float> numbers(static_cast<size_t>(shape.count()));
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<float>(std::sin(start + static_cast<double>(i)));
    }
    return Tensor::from(numbers, shape);
  };
  const Tensor a = matrix({37, 21}, 1), b = matrix({21, 18}, 2), c = matrix({5, 37, 21}, 3);
  return {matmul(a, b), matmul(b, a, {.transpose_a = true, .transpose_b = true}),
          matmul(c, matrix({5, 21, 18}, 4))};
}

/// One dtype: CLBlast compiles for long.
TEST_F(GpuProviders, WhatClblastMultipliesIsWhatOurOwnKernelsDo) {
  choose_products(description(), "own");
  std::vector<std::vector<float>> own;
  for (const Tensor& product : some_products()) own.push_back(product.to_vector<float>());
  const devices::gpu::Description described = description();
  gpu.reset();
  restart();
  harness::use_opencl();
  gpu = devices::find_device(DeviceSpec::parse("/GPU:0"));
  choose_products(described, "clblast");
  const Tensors others = some_products();
  for (size_t i = 0; i < own.size(); ++i) {
    const auto other = others[i].to_vector<float>();
    ASSERT_EQ(other.size(), own[i].size());
    for (size_t k = 0; k < other.size(); ++k) ASSERT_NEAR(other[k], own[i][k], 1e-4) << i;
  }
  const auto scope = device("/GPU:0");
  const auto f = function([](const Tensor& x) { return matmul(x, x); });
  f(fill({8, 8}, 1.0));
  EXPECT_NE(f.explain().find("CLBlast"), std::string::npos) << f.explain();
}

TEST_F(GpuProviders, TheFasterOneIsChosen) {
  const auto results = providers::tune_gpus({.size = 64, .seconds = 0, .keeps = false});
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].device, "/device:GPU:0");
  EXPECT_GT(results[0].ratio, 0);
  EXPECT_EQ(results[0].provider, results[0].ratio < 0.9 ? "clblast" : "own");
  EXPECT_EQ(chosen_products(description()), results[1].provider);  // Both are of one kind.
}

TEST_F(GpuProviders, AChoiceIsKeptForLaterProcesses) {
  const harness::TempFolder folder;
  devices::gpu::KernelCache cache(folder / "kernels");
  EXPECT_FALSE(kept_products(description(), cache));
  keep_products(description(), "clblast", cache);
  EXPECT_EQ(kept_products(description(), devices::gpu::KernelCache(folder / "kernels")), "clblast");
}

}  // namespace
}  // namespace tandem::kernels::gpu

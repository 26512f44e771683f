// Measures who multiplies fastest on each GPU. A few products, of the kinds that training has, by
// each provider in turn; the one that is faster over all of them, by a tenth at least, is kept.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "device/logical_device.h"
#include "kernels/gpu/gemm/product_choice.h"
#include "kernels/gpu/gemm/products.h"
#include "tandem/config.h"
#include "tandem/providers.h"
#include "tensor/body.h"

namespace tandem::kernels::gpu {
namespace {

using Clock = std::chrono::steady_clock;

/// The best of some times. The first is not measured: kernels are compiled then.
double seconds_for(const Products& products, const devices::DevicePtr& device,
                   const ProductShape& shape, double least) {
  const auto matrix = [&](int64_t count) {
    return Buffer(device, static_cast<size_t>(count) * sizeof(float), DType::float32, {count});
  };
  const Buffer a = matrix(shape.m * shape.k), b = matrix(shape.k * shape.n);
  const Buffer c = matrix(shape.m * shape.n);
  const Buffer workspace(device, std::max<size_t>(1, products.workspace_bytes(shape)), DType::uint8,
                         {1});
  devices::Queue& queue = device->queue();
  for (const Buffer* each : {&a, &b}) {
    queue.fill(each->data(), 0, each->bytes());
  }
  Launch launch;
  launch.queue = &queue;
  launch.workspaces = workspace.data();
  const auto multiply = [&] {
    const auto begin = Clock::now();
    queue.submit([&] { products.multiply(launch, shape, a.data(), b.data(), c.data(), 0); })
        .wait(config::wait_deadline());
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  multiply();
  double best = std::numeric_limits<double>::infinity();
  double all = 0;
  for (int i = 0; i < 3 || all < least; ++i) {
    const double own = multiply();
    all += own;
    best = std::min(best, own);
  }
  return best;
}

ProductShape product_of(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b) {
  return {.m = m,
          .n = n,
          .k = k,
          .transpose_a = transpose_a,
          .transpose_b = transpose_b,
          .lda = transpose_a ? m : k,
          .ldb = transpose_b ? k : n,
          .ldc = n};
}

}  // namespace
}  // namespace tandem::kernels::gpu

namespace tandem::providers {

std::vector<GpuTuneResult> tune_gpus(const GpuTuneOptions& options) {
  using namespace kernels::gpu;
  constexpr double kClearly = 0.9;
  std::vector<GpuTuneResult> results;
  for (const devices::DevicePtr& device : devices::all_devices()) {
    if (device->kernels() != "gpu") continue;
    const auto other = clblast_products(*device, DType::float32);
    if (!other) continue;
    const auto own = own_products(*device, DType::float32);
    const int64_t n = options.size;
    const ProductShape shapes[] = {product_of(n, n, n, false, false),
                                   product_of(n / 4, n, n, false, true),
                                   product_of(n, n, n / 4, true, false)};
    double logarithms = 0;
    for (const ProductShape& shape : shapes) {
      logarithms += std::log(seconds_for(*other, device, shape, options.seconds) /
                             seconds_for(*own, device, shape, options.seconds));
    }
    const double ratio = std::exp(logarithms / static_cast<double>(std::size(shapes)));
    const std::string chosen = ratio < kClearly ? "clblast" : "own";
    const auto& description = queue_of(*device).compiler().description();
    choose_products(description, chosen);
    if (options.keeps) keep_products(description, chosen, devices::gpu::KernelCache::instance());
    results.push_back({device->name(), chosen, ratio});
  }
  return results;
}

}  // namespace tandem::providers

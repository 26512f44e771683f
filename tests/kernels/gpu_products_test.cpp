// Products, convolutions, pooling and attention on OpenCL, compared with the CPU's: sizes around
// those of tiles and blocks, both dtypes, both forms, and so much that it is done in several parts.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/gpu_check.h"
#include "harness/op_check.h"

namespace tandem {
namespace {

using harness::check_on_gpu;
using harness::GpuCase;
using harness::within;
using Cases = std::vector<GpuCase>;

Tensor values(DType dtype, const Shape& shape, uint64_t seed) {
  return cast(harness::spread(shape, seed) * 0.5, dtype);
}

/// Sums of some hundred products of numbers of this size.
const harness::CompareBytes kClose = within(1e-4, 1e-11);

GpuCase product(DType dtype, int64_t m, int64_t n, int64_t k, MatmulOptions options = {}) {
  const Shape a = options.transpose_a ? Shape{k, m} : Shape{m, k};
  const Shape b = options.transpose_b ? Shape{n, k} : Shape{k, n};
  return {"matmul " + a.str() + b.str(),
          {values(dtype, a, 1), values(dtype, b, 2)},
          [=](const Tensors& t) { return Tensors{matmul(t[0], t[1], options)}; }};
}

/// The result and the gradients of all inputs, which `g` weighs.
GpuCase with_gradients(const std::string& name, Tensors inputs, const Shape& result,
                       const std::function<Tensor(const Tensors&)>& f) {
  const size_t count = inputs.size();
  inputs.push_back(values(inputs[0].dtype(), result, 9));
  return {name, inputs, [=](const Tensors& t) {
            const Tensors watched(t.begin(), t.begin() + static_cast<std::ptrdiff_t>(count));
            GradientTape tape;
            for (const Tensor& input : watched) tape.watch(input);
            const Tensor y = f(watched);
            Tensors all = tape.gradient(reduce_sum(y * t[count]), watched);
            all.push_back(y);
            return all;
          }};
}

TEST(GpuProducts, EverySize) {
  Cases cases;
  for (const int64_t size : {0, 1, 3, 255, 256, 257, 1000}) {
    cases.push_back(product(DType::float32, size, 17, 13));
    cases.push_back(product(DType::float32, 13, size, 17));
    cases.push_back(product(DType::float32, 13, 17, size));
    cases.push_back(product(DType::float64, size, 9, 33, {.transpose_a = true}));
    cases.push_back(product(DType::float64, 7, size, 33, {.transpose_b = true}));
    cases.push_back(product(DType::float64, 7, 9, size));
  }
  check_on_gpu(cases, kClose);
}

TEST(GpuProducts, EveryTransposition) {
  Cases cases;
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (int transposed = 0; transposed < 4; ++transposed) {
      const MatmulOptions options{(transposed & 1) != 0, (transposed & 2) != 0};
      cases.push_back(product(dtype, 100, 67, 300, options));
      cases.push_back(product(dtype, 5, 6, 7, options));
      cases.push_back(product(dtype, 96, 128, 64, options));
    }
  }
  check_on_gpu(cases, kClose);
}

TEST(GpuProducts, LongSumsAreCut) {
  Cases cases;
  for (const DType dtype : {DType::float32, DType::float64}) {
    cases.push_back(product(dtype, 9, 8, 20000));
    cases.push_back(product(dtype, 9, 8, 5001, {.transpose_a = true}));
    cases.push_back(product(dtype, 1, 1, 4097, {.transpose_b = true}));
  }
  check_on_gpu(cases, within(1e-3, 1e-10));
}

TEST(GpuProducts, BatchesOfManyAxes) {
  const auto batch = [](const Shape& a, const Shape& b) {
    return GpuCase{"matmul " + a.str() + b.str(),
                   {values(DType::float32, a, 1), values(DType::float32, b, 2)},
                   [](const Tensors& t) { return Tensors{matmul(t[0], t[1])}; }};
  };
  check_on_gpu(
      {batch({2, 3, 4, 5, 6, 7}, {2, 1, 4, 1, 7, 3}), batch({1, 3, 1, 2, 2}, {4, 1, 5, 2, 2}),
       batch({6, 70, 33}, {6, 33, 65}), batch({6, 70, 33}, {33, 65}), batch({70, 33}, {6, 33, 65}),
       batch({0, 70, 33}, {0, 33, 65})},
      kClose);
}

TEST(GpuProducts, WhatFollowsAProduct) {
  Cases cases;
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const int64_t k : {0, 3, 50}) {
      cases.push_back({"dense",
                       {values(dtype, {33, k}, 1), values(dtype, {k, 17}, 2),
                        values(dtype, {17}, 3), values(dtype, {33, 17}, 4)},
                       [](const Tensors& t) {
                         return Tensors{relu(matmul(t[0], t[1]) + t[2]) + t[3],
                                        tanh(matmul(t[0], t[1]) + t[2])};
                       }});
    }
    cases.push_back(
        {"convolution",
         {values(dtype, {3, 9, 8, 4}, 1), values(dtype, {3, 3, 4, 17}, 2), values(dtype, {17}, 3)},
         [](const Tensors& t) { return Tensors{relu(conv2d(t[0], t[1]) + t[2])}; }});
  }
  check_on_gpu(cases, kClose);
}

GpuCase convolution(DType dtype, const Shape& image, const Shape& filter,
                    const Conv2dOptions& options = {}) {
  const Tensor x = values(dtype, image, 1);
  const Tensor w = values(dtype, filter, 2);
  return with_gradients("conv2d " + image.str() + filter.str(), {x, w},
                        conv2d(x, w, options).shape(),
                        [=](const Tensors& t) { return conv2d(t[0], t[1], options); });
}

TEST(GpuConvolutions, EveryGeometry) {
  Cases cases;
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const int64_t channels : {1, 3, 20}) {
      cases.push_back(convolution(dtype, {2, 9, 11, channels}, {3, 2, channels, 5}));
      cases.push_back(convolution(dtype, {2, 9, 11, channels}, {3, 3, channels, 5},
                                  {.strides = {2, 3}, .padding = Padding::same}));
      cases.push_back(convolution(dtype, {2, 9, 11, channels}, {2, 3, channels, 5},
                                  {.padding = {{1, 4}, {3, 0}}, .dilations = {3, 2}}));
      // The filter's outer columns see nothing but padding.
      cases.push_back(convolution(dtype, {1, 2, 1, channels}, {1, 5, channels, 2},
                                  {.strides = {1, 2}, .padding = {{0, 0}, {6, 6}}}));
    }
    cases.push_back(convolution(dtype, {2, 7, 6, 12}, {3, 3, 4, 9},
                                {.strides = {2, 1}, .padding = Padding::same, .groups = 3}));
    cases.push_back(convolution(dtype, {2, 7, 6, 24}, {2, 2, 12, 4}, {.groups = 2}));
    cases.push_back(convolution(dtype, {0, 7, 6, 2}, {2, 2, 2, 4}));
  }
  check_on_gpu(cases, kClose);
}

TEST(GpuConvolutions, OneFilterPerChannelAndSeveral) {
  Cases cases;
  for (const DType dtype : {DType::float32, DType::float64}) {
    cases.push_back(convolution(dtype, {3, 9, 8, 70}, {3, 3, 1, 70},
                                {.strides = {2, 1}, .padding = Padding::same, .groups = 70}));
    cases.push_back(convolution(dtype, {3, 9, 8, 5}, {3, 2, 1, 15},
                                {.padding = {{1, 2}, {0, 1}}, .dilations = {2, 1}, .groups = 5}));
    cases.push_back(convolution(dtype, {3, 9, 8, 64}, {2, 2, 1, 128}, {.groups = 64}));
  }
  check_on_gpu(cases, kClose);
}

TEST(GpuConvolutions, ManyPatchesAreMadeInParts) {
  check_on_gpu({convolution(DType::float32, {9, 40, 41, 16}, {3, 3, 16, 8}),
                convolution(DType::float32, {2, 70, 300, 3}, {5, 5, 3, 4}, {.strides = {1, 2}})},
               within(1e-3, 1e-11));
}

GpuCase pooling(DType dtype, const Shape& image, const Pool2dOptions& options) {
  // Few different values, so that some are equal.
  const Tensor x = floor(values(dtype, image, 1) * 8.0);
  return with_gradients("pooling " + image.str(), {x}, max_pool2d(x, options).shape(),
                        [=](const Tensors& t) {
                          return max_pool2d(t[0], options) + avg_pool2d(t[0], options) * 0.5;
                        });
}

TEST(GpuPooling, EveryGeometry) {
  Cases cases;
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const int64_t channels : {1, 3, 70, 257}) {
      cases.push_back(pooling(dtype, {2, 7, 9, channels}, {.window = {2, 2}}));
      cases.push_back(pooling(dtype, {2, 7, 9, channels},
                              {.window = {3, 3}, .strides = {1, 2}, .padding = Padding::same}));
      cases.push_back(pooling(dtype, {1, 7, 9, channels},
                              {.window = {2, 4}, .strides = {3, 5}, .padding = {{1, 0}, {3, 2}}}));
    }
    cases.push_back(pooling(dtype, {0, 7, 9, 2}, {.window = {2, 2}}));
  }
  check_on_gpu(cases, within(1e-6, 1e-14));
}

GpuCase heads(DType dtype, const Shape& query, int64_t keys, int64_t width,
              const AttentionOptions& options) {
  const Shape key{query[0], keys, query[2], query[3]};
  Tensors inputs{values(dtype, query, 1), values(dtype, key, 2),
                 values(dtype, key.with(3, width), 3)};
  const bool masked = options.mask.defined();
  if (masked) inputs.push_back(options.mask);
  return with_gradients("attention " + query.str() + " of " + std::to_string(keys), inputs,
                        query.with(3, width), [=](const Tensors& t) {
                          AttentionOptions own = options;
                          if (masked) own.mask = t[3];
                          return attention(t[0], t[1], t[2], own);
                        });
}

TEST(GpuAttention, EverySize) {
  Cases cases;
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const bool causal : {false, true}) {
      for (const int64_t tokens : {0, 1, 3, 70, 257}) {
        cases.push_back(heads(dtype, {2, tokens, 2, 8}, 33, 5, {.causal = causal}));
        cases.push_back(heads(dtype, {2, 33, 2, 8}, tokens, 5, {.causal = causal}));
      }
    }
    cases.push_back(heads(dtype, {2, 9, 3, 4}, 7, 0, {}));
    cases.push_back(heads(dtype, {2, 9, 3, 4}, 7, 4, {.mask = values(dtype, {3, 1, 7}, 4)}));
    cases.push_back(
        heads(dtype, {2, 9, 3, 4}, 7, 4, {.causal = true, .mask = values(dtype, {2, 1, 9, 1}, 4)}));
  }
  check_on_gpu(cases, kClose);
}

TEST(GpuAttention, ManyScoresAreMadeInParts) {
  // Some batch entries at a time, some heads, and some queries.
  check_on_gpu({heads(DType::float32, {5, 300, 3, 4}, 280, 6, {.causal = true}),
                heads(DType::float32, {1, 500, 6, 4}, 520, 6, {}),
                heads(DType::float32, {1, 1100, 2, 3}, 1200, 5, {.causal = true}),
                heads(DType::float32, {1, 1100, 1, 3}, 1000, 5,
                      {.mask = values(DType::float32, {1100, 1000}, 4)})},
               within(1e-3, 1e-11));
}

/// The result for the first half of the queries, and the gradient of its squares.
Tensors first_half(const Tensor& query, const Tensor& key, const Tensor& value) {
  GradientTape tape;
  tape.watch(query);
  const Tensor all = attention(query, key, value, {.causal = true});
  const Tensor first = all.shape()[1] == 4 ? all : split(all, 2, 1)[0];
  const Tensor gradient = tape.gradient(reduce_sum(square(first)), query);
  return {first, gradient.shape()[1] == 4 ? gradient : split(gradient, 2, 1)[0]};
}

/// Whatever lies there: zero times what is no number is not zero.
TEST(GpuAttention, WhatAQueryDoesNotSeeIsNoPartOfIt) {
  for (const auto form : {harness::KernelForm::serial, harness::KernelForm::parallel}) {
    devices::reset_devices();
    harness::use_opencl(form);
    const auto scope = device("/GPU:0");
    const Tensor query = values(DType::float64, {2, 8, 3, 4}, 1);
    const Tensor seen = values(DType::float64, {2, 4, 3, 4}, 2);
    const Tensors wanted = first_half(split(query, 2, 1)[0], seen, seen);
    const Tensor both = concat({seen, seen}, 1);
    for (const double none : {std::numeric_limits<double>::infinity(), std::nan("")}) {
      const Tensor bad = concat({seen, fill({2, 4, 3, 4}, none, DType::float64)}, 1);
      for (const Tensors& got : {first_half(query, both, bad), first_half(query, bad, both)}) {
        for (size_t i = 0; i < wanted.size(); ++i) {
          const auto expected = wanted[i].to_vector<double>();
          const auto found = got[i].to_vector<double>();
          for (size_t k = 0; k < found.size(); ++k) ASSERT_NEAR(found[k], expected[k], 1e-12);
        }
      }
    }
  }
  devices::reset_devices();
}

TEST(GpuAttention, MasksOfTruthValues) {
  const Tensor mask = values(DType::float64, {2, 3, 9, 7}, 5) > 0.3;
  const Tensor query = values(DType::float32, {2, 9, 3, 4}, 1);
  const Tensor key = values(DType::float32, {2, 7, 3, 4}, 2);
  check_on_gpu({{"bool mask",
                 {query, key, key, mask},
                 [](const Tensors& t) {
                   return Tensors{attention(t[0], t[1], t[2], {.causal = true, .mask = t[3]})};
                 }}},
               kClose);
}

}  // namespace
}  // namespace tandem

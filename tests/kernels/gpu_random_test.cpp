// Random numbers on a GPU are the CPU's: words bit for bit, normal numbers but for rounding.
#include <gtest/gtest.h>

#include "device/logical_device.h"
#include "harness/gpu_check.h"
#include "harness/op_check.h"
#include "harness/opencl.h"
#include "runtime/random_calls.h"
#include "tandem/tandem.h"

namespace tandem {
namespace {

using harness::check_on_gpu;
using harness::GpuCase;
using Cases = std::vector<GpuCase>;

GpuCase drawn(const std::string& name, std::function<Tensors()> f) {
  // An argument makes the function one that is traced.
  return {name, {harness::spread({1})}, [f = std::move(f)](const Tensors&) { return f(); }};
}

class GpuRandom : public testing::Test {
 protected:
  void TearDown() override {
    devices::reset_devices();
    runtime::reset_random_calls();
    runtime::forget_global_seed();
  }
};

TEST_F(GpuRandom, DrawsTheNumbersOfTheCpu) {
  Cases cases;
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{3}, Shape{255}, Shape{256},
                             Shape{257}, Shape{1000, 7}, Shape{3, 5, 11}}) {
    cases.push_back(drawn("uniform " + shape.str(), [=] {
      return Tensors{random_uniform(shape, -1.5, 3), random_uniform(shape, 0, 1, {.seed = 5}),
                     random_uniform(shape, 1, 2, {.dtype = DType::float64})};
    }));
    cases.push_back(drawn("integers " + shape.str(), [=] {
      return Tensors{random_integers(shape, -5, 1000, {.dtype = DType::int32}),
                     random_integers(shape, INT64_MIN, INT64_MAX, {.dtype = DType::int64}),
                     random_integers(shape, 3, 4, {.dtype = DType::int64, .seed = 1})};
    }));
    cases.push_back(drawn("bernoulli " + shape.str(), [=] {
      Tensors all;
      for (const double p : {0.0, 0.3, 1.0}) {
        all.push_back(random_bernoulli(shape, p, {.dtype = DType::boolean}));
      }
      return all;
    }));
    cases.push_back({"dropout " + shape.str(),
                     {harness::spread(shape), cast(harness::spread(shape), DType::float32)},
                     [](const Tensors& t) {
                       const Tensor pair = Tensor::from<int64_t>({5, 1}, {2});
                       return Tensors{dropout(t[0], 0.4), dropout(t[1], 0.1, {.seed = 3}),
                                      dropout(t[1], 0.0),
                                      dropout(t[0], 0.4, {.stateless_seed = pair}),
                                      dropout(t[1], 0.1, {.stateless_seed = pair})};
                     }});
  }
  // The gradient keeps what was kept.
  cases.push_back({"gradient",
                   {harness::spread({33, 9}), cast(harness::spread({33, 9}), DType::float32)},
                   [](const Tensors& t) {
                     GradientTape tape({.persistent = true});
                     for (const Tensor& x : t) tape.watch(x);
                     const Tensor a = dropout(t[0], 0.5);
                     const Tensor b = dropout(t[1], 0.25);
                     return Tensors{tape.gradient(a, t[0], {.output_gradients = {t[0]}}),
                                    tape.gradient(b, t[1], {.output_gradients = {t[1]}})};
                   }});
  check_on_gpu(cases);
}

TEST_F(GpuRandom, NormalNumbersDifferByRounding) {
  Cases cases;
  for (const Shape& shape : {Shape{1}, Shape{257}, Shape{1000, 7}}) {
    cases.push_back(drawn("normal " + shape.str(), [=] {
      return Tensors{random_normal(shape), random_normal(shape, 2, 3, {.dtype = DType::float64}),
                     random_truncated_normal(shape, -1, 0.5),
                     random_truncated_normal(shape, 0, 1, {.dtype = DType::float64})};
    }));
  }
  check_on_gpu(cases, harness::within(1e-6, 4e-15));
}

/// Eager calls, and steps of a program: each draws others.
TEST_F(GpuRandom, CallsAreCountedAsOnTheCpu) {
  const auto draw = [] {
    random::set_seed(3);
    const auto f = function([](const Tensor& x) {
      return Tensors{dropout(x, 0.5), random_uniform({4})};
    });
    std::vector<std::vector<float>> all;
    for (int i = 0; i < 3; ++i) {
      all.push_back(random_uniform({5}).to_vector<float>());
      for (const Tensor& drawn : f(fill({4}, 1))) all.push_back(drawn.to_vector<float>());
      all.push_back(random_uniform({2}, 0, 1, {.seed = 4}).to_vector<float>());
    }
    return all;
  };
  devices::reset_devices();
  const auto wanted = draw();
  devices::reset_devices();
  harness::use_opencl();
  EXPECT_EQ(draw(), wanted);
}

/// A replica draws for its rows of the batch, also where the batch is not the leading axis.
TEST_F(GpuRandom, NumbersDependOnTheGlobalRowAlone) {
  const auto draw = [] {
    random::set_seed(3);
    const distribute::MirroredStrategy strategy;
    const auto f = function([](const Tensor& x) {
      return Tensors{dropout(x, 0.5), dropout(transpose(x), 0.3),
                     random_uniform({3, x.shape()[0], 2}, 0, 1, {.dtype = DType::float64})};
    });
    std::vector<std::vector<double>> all;
    for (const auto& result : strategy.run(f, strategy.split(harness::spread({7, 2})))) {
      for (const Tensor& own : strategy.local_results(result)) {
        all.push_back(own.to_vector<double>());
      }
    }
    return all;
  };
  devices::reset_devices();
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  const auto wanted = draw();
  for (const auto form : {harness::KernelForm::serial, harness::KernelForm::parallel}) {
    devices::reset_devices();
    harness::use_opencl(form);
    EXPECT_EQ(draw(), wanted);
  }
}

TEST_F(GpuRandom, RowsArePutIntoAnOrder) {
  // The order is drawn on the CPU.
  const auto shuffled = [] {
    random::set_seed(3);
    const Tensor x = harness::spread({257, 5});
    GradientTape tape;
    tape.watch(x);
    const Tensor y = random_shuffle(x);
    const Tensor gradient = tape.gradient(y, x, {.output_gradients = {x}});
    return std::pair(y.to_vector<double>(), gradient.to_vector<double>());
  };
  devices::reset_devices();
  const auto wanted = shuffled();
  for (const auto form : {harness::KernelForm::serial, harness::KernelForm::parallel}) {
    devices::reset_devices();
    harness::use_opencl(form);
    EXPECT_EQ(shuffled(), wanted);
  }
}

}  // namespace
}  // namespace tandem

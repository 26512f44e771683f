#include "harness/op_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>

#include "device/logical_device.h"
#include "device/test/test_device.h"
#include "harness/classifier.h"
#include "harness/cuda.h"
#include "harness/opencl.h"
#include "harness/without.h"

namespace tandem::harness {
namespace {

/// The difference between ways of calling; rounding differs where sums are cut differently.
constexpr double kGradientTolerance = 1e-9;

std::vector<double> numbers(const Tensor& tensor) {
  return (tensor.dtype() == DType::float64 ? tensor : cast(tensor, DType::float64))
      .to_vector<double>();
}

void expect_near(const std::vector<double>& got, const std::vector<double>& wanted,
                 double tolerance, const std::string& way) {
  ASSERT_EQ(got.size(), wanted.size()) << way;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(wanted[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << way << ", element " << i << " is " << got[i];
    } else if (got[i] != wanted[i]) {
      EXPECT_NEAR(got[i], wanted[i], tolerance * std::max(1.0, std::abs(wanted[i])))
          << way << ", element " << i;
    }
  }
}

/// Runs `body` with fresh devices, and leaves fresh ones behind. Inputs are copies: those of other
/// devices do not mix.
void with_devices(const std::function<void()>& configure, const std::function<void()>& body) {
  devices::reset_devices();
  configure();
  body();
  devices::reset_devices();
}

struct Plain {
  DType dtype;
  Shape shape;
  std::vector<char> bytes;
};

std::vector<Plain> plain_copies(const Tensors& tensors) {
  std::vector<Plain> copies;
  for (const Tensor& tensor : tensors) {
    Plain copy{tensor.dtype(), tensor.shape(), {}};
    copy.bytes.resize(static_cast<size_t>(tensor.shape().count()) * size_of(tensor.dtype()));
    if (!copy.bytes.empty()) tensor.copy_to_host(copy.bytes.data());
    copies.push_back(std::move(copy));
  }
  return copies;
}

Tensors tensors_of(const std::vector<Plain>& copies) {
  Tensors tensors;
  for (const Plain& copy : copies)
    tensors.push_back(Tensor::copy_of(copy.bytes.data(), copy.dtype, copy.shape));
  return tensors;
}

/// What weighs each element of a row's result differently, so that its gradients tell them apart.
Tensor weights_of(const OpRow& row) { return spread(row.shape, 99); }

bool is_watched(const Tensor& input) { return input.dtype() == DType::float64; }

/// The result and, where the row has gradients, those of each float64 input.
Tensors outcome(const OpRow& row, const Tensors& inputs, const Tensor& weights) {
  if (!row.differentiable) return {row.f(inputs)};
  GradientTape tape;
  Tensors watched;
  std::ranges::copy_if(inputs, std::back_inserter(watched), is_watched);
  for (const Tensor& input : watched) tape.watch(input);
  Tensors all = {row.f(inputs)};
  if (watched.empty()) return all;
  Tensors gradients = tape.gradient(reduce_sum(all[0] * weights), watched);
  for (size_t i = 0; i < watched.size(); ++i) {
    all.push_back(gradients[i].defined() ? gradients[i] : watched[i] * 0.0);
  }
  return all;
}

Tensors call_traced(const OpRow& row, const Tensors& inputs) {
  Tensors all = inputs;
  all.push_back(weights_of(row));
  return FlatFunction([&](const Tensors& arguments) {
    return outcome(row, {arguments.begin(), arguments.end() - 1}, arguments.back());
  })(all);
}

Tensors call_unfused(const OpRow& row, const Tensors& inputs) {
  const Without fusion = without_fusion();
  return call_traced(row, inputs);
}

Tensors call_unplanned(const OpRow& row, const Tensors& inputs) {
  const Without planning = without_memory_planning();
  return call_traced(row, inputs);
}

/// What every way of calling must give: the row's result, and the gradients that check_gradients
/// has compared with differences.
using Outcome = std::vector<std::vector<double>>;

void expect_outcome(const OpRow& row, const Tensors& got, const Outcome& wanted,
                    const std::string& way) {
  ASSERT_EQ(got.size(), wanted.size()) << row.name << way;
  for (size_t i = 0; i < got.size(); ++i) {
    const std::string what = i == 0 ? "" : ": gradient " + std::to_string(i - 1);
    expect_near(numbers(got[i]), wanted[i], i == 0 ? row.tolerance : kGradientTolerance,
                row.name + way + what);
  }
}

/// Compared with differences of the result.
Outcome checked_gradients(const OpRow& row, const std::vector<Plain>& plain) {
  constexpr double kStep = 1e-6;
  const Tensor weights = weights_of(row);
  const Tensors all = outcome(row, tensors_of(plain), weights);
  Outcome gradients;
  for (size_t i = 0; i < plain.size(); ++i) {
    if (plain[i].dtype != DType::float64) continue;
    const size_t count = plain[i].bytes.size() / sizeof(double);
    std::vector<double> wanted(count);
    for (size_t k = 0; k < count; ++k) {
      const auto moved = [&](double by) {
        auto copies = plain;
        reinterpret_cast<double*>(copies[i].bytes.data())[k] += by;
        return reduce_sum(row.f(tensors_of(copies)) * weights).item<double>();
      };
      wanted[k] = (moved(kStep) - moved(-kStep)) / (2 * kStep);
    }
    gradients.push_back(numbers(all[gradients.size() + 1]));
    expect_near(gradients.back(), wanted, 1e-6,
                row.name + ": gradient of input " + std::to_string(i));
  }
  return gradients;
}

/// The same values, with float32 in place of float64.
void check_float32(const OpRow& row, Tensors inputs) {
  bool changed = false;
  for (Tensor& input : inputs) {
    if (input.dtype() != DType::float64) continue;
    input = cast(input, DType::float32);
    changed = true;
  }
  if (!changed) return;
  expect_near(numbers(row.f(inputs)), row.expected, row.float32_tolerance,
              row.name + " in float32");
  expect_near(numbers(call_traced(row, inputs)[0]), row.expected, row.float32_tolerance,
              row.name + " traced in float32");
}

void check_replicas(const OpRow& row, const Tensors& inputs) {
  const distribute::MirroredStrategy strategy;
  const int64_t rows = inputs[0].shape()[0];
  const auto apply = function([&](const Tensor& a, const Tensor& b) {
    return row.f(inputs.size() == 1 ? Tensors{a} : Tensors{a, b});
  });
  const auto part = [&](const Tensor& t) {
    return t.rank() > 0 && t.shape()[0] == rows ? strategy.split(t) : distribute::PerReplica(t);
  };
  const auto result = strategy.run(apply, part(inputs[0]), part(inputs.back()));
  std::vector<double> joined;
  for (const Tensor& own : strategy.local_results(result)) {
    const auto values = numbers(own);
    joined.insert(joined.end(), values.begin(), values.end());
  }
  expect_near(joined, row.expected, row.tolerance, row.name + " on two replicas");
}

/// On OpenCL devices, with kernels in the form that they take and in the form of real GPUs; or,
/// where TANDEM_TEST_ROWS is "cuda", on doubles of CUDA devices, whose threads run from the first
/// to the last and the other way round. Each in processes of their own: one that fails
/// says at once on which.
void check_on_gpu(const OpRow& row, const std::vector<Plain>& plain, const Outcome& wanted) {
  const auto check = [&](const std::function<void()>& use, const std::string& on) {
    with_devices(use, [&] {
      const Tensors inputs = tensors_of(plain);
      expect_outcome(row, outcome(row, inputs, weights_of(row)), wanted, on);
      const CudaDoubleSetting reverse("reverse", 1, 0);
      expect_outcome(row, call_traced(row, inputs), wanted, " traced" + on);
      if (row.float32_tolerance > 0) check_float32(row, inputs);
    });
  };
  const char* const rows = std::getenv("TANDEM_TEST_ROWS");
  if (rows == nullptr || std::string_view(rows) != "cuda") {
    check([] { use_opencl(KernelForm::serial); }, " on OpenCL");
    check([] { use_opencl(KernelForm::parallel); }, " on OpenCL, parallel form");
    return;
  }
  constexpr int64_t kSmall = 1024;  // A double runs each instruction of each thread.
  int64_t elements = 0;
  for (const Tensor& input : row.inputs) elements += input.shape().count();
  if (has_nvrtc() && elements <= kSmall) check([] { use_cuda(); }, " on CUDA");
}

}  // namespace

Tensor doubles(const std::vector<double>& values, const Shape& shape) {
  return Tensor::from(values, shape);
}

Tensor spread(const Shape& shape, uint64_t seed) {
  std::vector<double> values(static_cast<size_t>(shape.count()));
  for (size_t i = 0; i < values.size(); ++i) {
    const double u = uniform(seed, i) * 2 - 1;
    values[i] = u * 1.95 + (u < 0 ? -0.05 : 0.05);
  }
  return Tensor::from(values, shape);
}

void check_op(const OpRow& row) {
  const std::vector<Plain> plain = plain_copies(row.inputs);
  Outcome wanted = {row.expected};
  const auto cpus = [](std::vector<config::LogicalCpu> split) {
    return [split] { config::set_logical_cpus(split); };
  };
  for (int threads : {1, 3}) {
    with_devices(cpus({{.threads = threads}}), [&] {
      const std::string on = " on " + std::to_string(threads) + " threads";
      const Tensors inputs = tensors_of(plain);
      const Tensor eager = row.f(inputs);
      EXPECT_EQ(eager.shape(), row.shape) << row.name << ": " << eager.shape().str();
      expect_near(numbers(eager), row.expected, row.tolerance, row.name + on);
      if (row.differentiable && threads == 1)
        std::ranges::move(checked_gradients(row, plain), std::back_inserter(wanted));
      expect_outcome(row, call_unfused(row, inputs), wanted, " unfused" + on);
      expect_outcome(row, call_unplanned(row, inputs), wanted, " unplanned memory" + on);
      expect_outcome(row, call_traced(row, inputs), wanted, " traced" + on);
      if (row.float32_tolerance > 0 && threads == 1) check_float32(row, inputs);
    });
  }
  with_devices([] { devices::test::add_test_gpu(); },
               [&] {
                 const Tensors inputs = tensors_of(plain);
                 expect_near(numbers(row.f(inputs)), row.expected, row.tolerance,
                             row.name + " on the test device");
                 expect_outcome(row, call_traced(row, inputs), wanted,
                                " traced on the test device");
               });
  check_on_gpu(row, plain, wanted);
  if (row.follows_rows) {
    with_devices(cpus({{.threads = 1}, {.threads = 1}}),
                 [&] { check_replicas(row, tensors_of(plain)); });
  }
}

}  // namespace tandem::harness

#include "harness/gpu_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "device/logical_device.h"
#include "runtime/random_calls.h"

namespace tandem::harness {
namespace {

std::vector<RawBytes> all_bytes(const Tensors& tensors) {
  std::vector<RawBytes> all;
  for (const Tensor& tensor : tensors) all.push_back(bytes_of(tensor));
  return all;
}

/// The results of all cases, of a device that the caller has chosen.
std::vector<std::vector<RawBytes>> results(const std::vector<GpuCase>& cases,
                                           const std::vector<std::vector<RawBytes>>& inputs) {
  std::vector<size_t> outputs;
  Tensors arguments;
  for (const auto& own : inputs) {
    for (const RawBytes& input : own) {
      arguments.push_back(Tensor::copy_of(input.data.data(), input.dtype, input.shape));
    }
  }
  const Tensors together = FlatFunction([&](const Tensors& given) {
    Tensors all;
    outputs.clear();
    auto next = given.begin();
    for (const GpuCase& one : cases) {
      const auto count = static_cast<std::ptrdiff_t>(one.inputs.size());
      const Tensors own = one.f({next, next + count});
      next += count;
      outputs.push_back(own.size());
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  })(arguments);
  std::vector<std::vector<RawBytes>> by_case;
  auto next = together.begin();
  for (const size_t count : outputs) {
    const auto end = next + static_cast<std::ptrdiff_t>(count);
    by_case.push_back(all_bytes({next, end}));
    next = end;
  }
  return by_case;
}

double number(const RawBytes& bytes, size_t i) {
  if (bytes.dtype == DType::float64) {
    double value;
    std::memcpy(&value, bytes.data.data() + i * sizeof value, sizeof value);
    return value;
  }
  float value;
  std::memcpy(&value, bytes.data.data() + i * sizeof value, sizeof value);
  return value;
}

}  // namespace

RawBytes bytes_of(const Tensor& tensor) {
  RawBytes bytes{tensor.dtype(), tensor.shape(), {}};
  bytes.data.resize(static_cast<size_t>(tensor.shape().count()) * size_of(tensor.dtype()));
  if (!bytes.data.empty()) tensor.copy_to_host(bytes.data.data());
  return bytes;
}

void expect_same_bytes(const RawBytes& got, const RawBytes& wanted, const std::string& what) {
  ASSERT_EQ(got.data.size(), wanted.data.size()) << what;
  const size_t size = size_of(got.dtype);
  for (size_t i = 0; i < got.data.size(); i += size) {
    if (std::memcmp(got.data.data() + i, wanted.data.data() + i, size) == 0) continue;
    FAIL() << what << ": element " << i / size << " of " << got.shape.str() << " differs";
  }
}

CompareBytes within(double float32_tolerance, double float64_tolerance) {
  return [=](const RawBytes& got, const RawBytes& wanted, const std::string& what) {
    ASSERT_EQ(got.data.size(), wanted.data.size()) << what;
    if (got.dtype != DType::float32 && got.dtype != DType::float64) {
      return expect_same_bytes(got, wanted, what);
    }
    const double tolerance = got.dtype == DType::float32 ? float32_tolerance : float64_tolerance;
    for (size_t i = 0; i < got.data.size() / size_of(got.dtype); ++i) {
      const double a = number(got, i);
      const double b = number(wanted, i);
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      ASSERT_NEAR(a, b, tolerance * std::max(1.0, std::abs(b))) << what << ", element " << i;
    }
  };
}

void check_on_gpu(const std::vector<GpuCase>& cases, const CompareBytes& compare,
                  const std::vector<KernelForm>& forms) {
  std::vector<std::vector<RawBytes>> inputs;
  for (const GpuCase& one : cases) inputs.push_back(all_bytes(one.inputs));
  const auto run = [&] {
    random::set_seed(7);
    return results(cases, inputs);
  };
  devices::reset_devices();
  const auto wanted = run();
  for (const KernelForm form : forms) {
    devices::reset_devices();
    use_opencl(form);
    const DeviceScope scope = device("/device:GPU:0");
    const auto first = run();
    const auto second = run();
    const std::string in = form == KernelForm::serial ? "" : " in parallel";
    for (size_t i = 0; i < cases.size(); ++i) {
      for (size_t k = 0; k < wanted[i].size(); ++k) {
        const std::string what = cases[i].name + in + ", result " + std::to_string(k);
        compare(first[i][k], wanted[i][k], what);
        expect_same_bytes(second[i][k], first[i][k], what + " again");
      }
    }
  }
  devices::reset_devices();
  runtime::reset_random_calls();
  runtime::forget_global_seed();
}

Tensor scattered(DType dtype, const Shape& shape, uint64_t seed) {
  const auto count = static_cast<size_t>(shape.count());
  std::vector<char> data(std::max<size_t>(count * size_of(dtype), 1));
  for (size_t i = 0; i < data.size(); ++i) {
    uint64_t z = (seed << 32) + i * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    data[i] = static_cast<char>(dtype == DType::boolean ? z >> 63 : z >> 56);
  }
  return Tensor::copy_of(data.data(), dtype, shape);
}

}  // namespace tandem::harness

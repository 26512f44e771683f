/// Checks that ops give on an OpenCL device what they give on the CPU. All cases of a test are one
/// function, so that their kernels are compiled together.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/opencl.h"
#include "tandem/tandem.h"

namespace tandem::harness {

struct GpuCase {
  std::string name;
  Tensors inputs;
  std::function<Tensors(const Tensors&)> f;
};

/// The bytes of a tensor.
struct RawBytes {
  DType dtype = DType::float32;
  Shape shape;
  std::vector<char> data;
};
RawBytes bytes_of(const Tensor& tensor);

/// Two tensors of the same type: fails the running gtest where they differ too much.
using CompareBytes =
    std::function<void(const RawBytes& got, const RawBytes& wanted, const std::string& what)>;

/// The same bits.
void expect_same_bytes(const RawBytes& got, const RawBytes& wanted, const std::string& what);

/// Numbers of float32 or float64, at most this far from each other, relative to the larger of 1 and
/// the wanted number.
CompareBytes within(double float32_tolerance, double float64_tolerance);

/// Runs the cases on the CPU, and on OpenCL in these forms of kernels, twice each. The second run
/// must give the bits of the first. Starts and ends with fresh devices.
void check_on_gpu(const std::vector<GpuCase>& cases,
                  const CompareBytes& compare = expect_same_bytes,
                  const std::vector<KernelForm>& forms = {KernelForm::serial,
                                                          KernelForm::parallel});

/// A tensor of any dtype whose elements are all over its range; the same each time.
Tensor scattered(DType dtype, const Shape& shape, uint64_t seed = 1);

}  // namespace tandem::harness

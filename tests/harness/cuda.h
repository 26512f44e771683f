/// CUDA devices for tests: doubles, which run what the real NVRTC compiles (tests/doubles/cuda).
/// Where the environment variable TANDEM_TEST_CUDA is `real`, suites that ask nothing of doubles
/// run on the machine's own devices (`make test-cuda`).
#pragma once

#include <string>
#include <vector>

#include "device/gpu/driver.h"
#include "device/gpu/gpu_device.h"

namespace tandem::harness {

/// Kernels can be compiled for CUDA here. Tests that need it say so where they are skipped.
bool has_nvrtc();
#define TANDEM_SKIP_WITHOUT_NVRTC() \
  if (!harness::has_nvrtc()) GTEST_SKIP() << "NVRTC is not installed: nothing compiles for CUDA"

/// Tests run on real devices: what doubles are told does nothing, and all counts are 0.
bool uses_real_cuda();

/// What the double of libcuda can be told and asked: see tests/doubles/cuda/double_control.h.
namespace cuda_double {

void set(const char* name, long long value);
long long count(const char* name);
/// The n-th call of a function from now on fails.
void fail(const char* function, int n, int error);

}  // namespace cuda_double

/// A setting of the double, as long as the object lives.
class CudaDoubleSetting {
 public:
  CudaDoubleSetting(const char* name, long long value, long long otherwise)
      : name_(name), otherwise_(otherwise) {
    cuda_double::set(name, value);
  }
  ~CudaDoubleSetting() { cuda_double::set(name_, otherwise_); }
  CudaDoubleSetting(const CudaDoubleSetting&) = delete;
  CudaDoubleSetting& operator=(const CudaDoubleSetting&) = delete;

 private:
  const char* const name_;
  const long long otherwise_;
};

/// The drivers of the doubles. Nothing is open yet.
std::vector<devices::gpu::DriverPtr> cuda_drivers();

/// Makes GPU:0 and GPU:1 of doubles. To be called with fresh devices; ends with them.
void use_cuda(devices::gpu::KernelForm form = devices::gpu::KernelForm::parallel);

/// Compiles a program for real devices of a compute capability, 90 for 9.0. Returns what the
/// compiler has to say; nothing where it compiles.
std::string compile_for_cuda(const std::string& program, int capability);

/// Compiles all kernels whose texts tests have left since this program was built, in the form that
/// GPUs run, except those that this compiler has compiled for this capability before: a text has
/// the hash of what it says in its name. Returns what the compiler has to say; nothing where all
/// compile. `count` becomes the number of texts there are.
std::string compile_texts_for_cuda(int capability, size_t& count);

/// The capabilities that every kernel is to be compiled for.
inline constexpr int kCudaCapabilities[] = {75, 80, 90, 100, 120};

}  // namespace tandem::harness

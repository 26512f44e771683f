// Every kernel in CUDA's print, in the form that GPUs run, compiled by the real NVRTC for the
// generations of devices that users have. The texts are those that other tests have left
// (harness/opencl.h), which are all kernels after a run of all tests.
#include <gtest/gtest.h>

#include "harness/cuda.h"

namespace tandem {
namespace {

using devices::gpu::KernelForm;

class CudaTexts : public testing::TestWithParam<int> {};

TEST_P(CudaTexts, CompileForRealDevices) {
  TANDEM_SKIP_WITHOUT_NVRTC();
  const std::string program = harness::cuda_program_of_texts(KernelForm::parallel);
  EXPECT_EQ(harness::compile_for_cuda(program, GetParam()), "");
}

INSTANTIATE_TEST_SUITE_P(Capabilities, CudaTexts, testing::ValuesIn(harness::kCudaCapabilities),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace tandem

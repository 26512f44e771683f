// Every kernel in CUDA's print, in the form that GPUs run, compiled by the real NVRTC for the
// generations of devices that users have. The texts are those that other tests have left
// (harness/opencl.h), which are all kernels after a run of all tests: ctest runs this one behind
// them.
#include <gtest/gtest.h>

#include <cstdio>

#include "harness/cuda.h"

namespace tandem {
namespace {

class CudaTexts : public testing::TestWithParam<int> {};

TEST_P(CudaTexts, CompileForRealDevices) {
  TANDEM_SKIP_WITHOUT_NVRTC();
  size_t texts = 0;
  EXPECT_EQ(harness::compile_texts_for_cuda(GetParam(), texts), "");
  std::printf("%zu texts compile\n", texts);
}

INSTANTIATE_TEST_SUITE_P(Capabilities, CudaTexts, testing::ValuesIn(harness::kCudaCapabilities),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace tandem

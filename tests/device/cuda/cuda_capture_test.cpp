// What may be captured of a stream's commands and what may not, as the double of libcuda holds it,
// and what the driver of this library makes of it.
#include <gtest/gtest.h>

#include <cstring>

#include "device/cuda/cuda_context.h"
#include "device/cuda/cuda_driver.h"
#include "harness/cuda.h"
#include "harness/throws.h"
#include "tandem/error.h"

namespace tandem::devices::cuda {
namespace {

using harness::throws;
namespace cuda_double = harness::cuda_double;

class CudaCaptureTest : public testing::Test {
 protected:
  void SetUp() override {
    if (harness::uses_real_cuda()) GTEST_SKIP() << "the rules of the double are tried";
    driver_ = harness::cuda_drivers()[0];
    context_ = context_of(*driver_);
    stream_ = context_->create_capture_stream();
    other_ = context_->create_capture_stream();
  }
  void TearDown() override {
    if (IsSkipped()) return;
    context_->destroy_stream(stream_);
    context_->destroy_stream(other_);
    EXPECT_EQ(cuda_double::count("graphs"), 0);
  }

  const DriverApi& api() const { return context_->api(); }

  /// What the driver answers to `call` within a capture, and then to the end of the capture.
  template <class Call>
  std::pair<CUresult, CUresult> within_capture(const Call& call) {
    const Current current(*context_);
    EXPECT_EQ(api().cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    const CUresult answer = call();
    CUgraph graph = nullptr;
    const CUresult end = api().cuStreamEndCapture(stream_, &graph);
    if (graph != nullptr) api().cuGraphDestroy(graph);
    return {answer, end};
  }

  gpu::DriverPtr driver_;
  std::shared_ptr<CudaContext> context_;
  CUstream stream_ = nullptr;
  CUstream other_ = nullptr;
};

using Answers = std::pair<CUresult, CUresult>;

TEST_F(CudaCaptureTest, NothingWaitsForWhatIsBeingCaptured) {
  EXPECT_EQ(within_capture([&] { return api().cuStreamSynchronize(stream_); }),
            Answers(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
  CUevent event = nullptr;
  const Current current(*context_);
  ASSERT_EQ(api().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  EXPECT_EQ(within_capture([&] {
              EXPECT_EQ(api().cuEventRecord(event, stream_), CUDA_SUCCESS);
              return api().cuEventQuery(event);
            }),
            Answers(CUDA_ERROR_CAPTURED_EVENT, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
  api().cuEventDestroy_v2(event);
}

TEST_F(CudaCaptureTest, WhatIsCapturedNeitherAllocatesNorWaitsForOthers) {
  CUdeviceptr memory = 0;
  EXPECT_EQ(within_capture([&] { return api().cuMemAllocAsync(&memory, 64, stream_); }).first,
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUevent event = nullptr;
  const Current current(*context_);
  ASSERT_EQ(api().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  ASSERT_EQ(api().cuEventRecord(event, other_), CUDA_SUCCESS);
  EXPECT_EQ(within_capture([&] { return api().cuStreamWaitEvent(stream_, event, 0); }),
            Answers(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
  api().cuEventDestroy_v2(event);
}

TEST_F(CudaCaptureTest, StreamsThatTakePartAreJoined) {
  CUevent fork = nullptr;
  CUevent join = nullptr;
  const Current current(*context_);
  ASSERT_EQ(api().cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  ASSERT_EQ(api().cuEventCreate(&join, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  const auto branch = [&](bool joins) {
    return within_capture([&] {
      EXPECT_EQ(api().cuEventRecord(fork, stream_), CUDA_SUCCESS);
      EXPECT_EQ(api().cuStreamWaitEvent(other_, fork, 0), CUDA_SUCCESS);
      if (!joins) return CUDA_SUCCESS;
      EXPECT_EQ(api().cuEventRecord(join, other_), CUDA_SUCCESS);
      return api().cuStreamWaitEvent(stream_, join, 0);
    });
  };
  EXPECT_EQ(branch(false), Answers(CUDA_SUCCESS, CUDA_ERROR_STREAM_CAPTURE_UNJOINED));
  EXPECT_EQ(branch(true), Answers(CUDA_SUCCESS, CUDA_SUCCESS));
  CUgraph graph = nullptr;
  EXPECT_EQ(api().cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  api().cuEventDestroy_v2(fork);
  api().cuEventDestroy_v2(join);
}

TEST_F(CudaCaptureTest, CommandsRunWhenTheyAreReplayedAndOnlyThen) {
  const auto stream = driver_->create_stream();
  const auto finish = [&] {
    const auto mark = stream->mark(nullptr);
    while (!mark->is_reached()) {
    }
  };
  const gpu::Memory memory = driver_->allocate(16);
  stream->fill({memory, 0}, 1, 16);
  std::shared_ptr<const gpu::CapturedCommands> captured;
  {
    const auto capture = driver_->capture();
    capture->stream().copy({memory, 8}, {memory, 0}, 8);
    capture->stream().fill({memory, 0}, 2, 4);
    // Other threads, and other streams, allocate meanwhile.
    driver_->release(driver_->allocate(64));
    captured = capture->finish();
  }
  const auto bytes = driver_->staging(16);
  const auto read = [&] {
    stream->read(bytes.get(), {memory, 0}, 16);
    finish();
    return std::string(bytes.get(), 16);
  };
  const auto all = [](char a, char b, char c) {
    return std::string(4, a) + std::string(4, b) + std::string(4, c) + std::string(4, b);
  };
  EXPECT_EQ(read(), all(1, 1, 1));
  captured->run(*stream);
  EXPECT_EQ(read(), all(2, 1, 1));
  captured->run(*stream);
  EXPECT_EQ(read(), all(2, 1, 2));
  captured.reset();
  driver_->release(memory);
}

TEST_F(CudaCaptureTest, WhatTheDriverRefusesIsNamed) {
  const auto capture = [&] { driver_->capture()->finish(); };
  cuda_double::fail("cuStreamBeginCapture_v2", 1, CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_TRUE(throws<Unavailable>(capture, {"cuStreamBeginCapture"}));
  cuda_double::fail("cuGraphInstantiateWithFlags", 1, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_TRUE(throws<ResourceExhausted>(capture, {"cuGraphInstantiate", "out of memory"}));
  const auto stream = driver_->create_stream();
  const auto graph = driver_->capture()->finish();
  cuda_double::fail("cuGraphLaunch", 1, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_TRUE(throws<Unavailable>([&] { graph->run(*stream); }, {"cuGraphLaunch"}));
}

}  // namespace
}  // namespace tandem::devices::cuda

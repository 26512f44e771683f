// Streams that are captured, and graphs, with the driver's rules: nobody waits for what is being
// captured, nothing in it waits for what is not, and streams that joined it are waited for before
// it ends.
#include "double_calls.h"

namespace tandem::doubles::cuda {

#define TANDEM_DECLARE(name, ...) TANDEM_EXPORTED CUresult name(__VA_ARGS__);
TANDEM_CUDA_FUNCTIONS(TANDEM_DECLARE)
#undef TANDEM_DECLARE

bool wait_in_capture(const DoubleStreamPtr& stream, const DoubleEvent& event) {
  const auto capture = event.capture.lock();
  if (!stream->capture && !capture) return false;
  if (!capture) {
    stream->capture->invalid = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    throw Complaint(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                    "what is being captured waits for what is not");
  }
  if (stream->capture && stream->capture != capture) {
    throw Complaint(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "a capture waits for another one");
  }
  if (!stream->capture) {
    stream->capture = capture;
    capture->issued[stream.get()] = 0;
    capture->unjoined.insert(stream.get());
  }
  const auto* const recorded_on = static_cast<const DoubleStream*>(event.captured_on);
  if (capture->issued[recorded_on] == event.captured_behind) capture->unjoined.erase(recorded_on);
  return true;
}

bool record_in_capture(const DoubleStream& stream, DoubleEvent& event) {
  event.capture = stream.capture;
  if (!stream.capture) return false;
  event.captured_on = &stream;
  event.captured_behind = stream.capture->issued[&stream];
  return true;
}

void check_not_captured(const DoubleEvent& event) {
  const auto capture = event.capture.lock();
  if (!capture) return;
  capture->invalid = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  throw Complaint(CUDA_ERROR_CAPTURED_EVENT, "the event is part of a capture");
}

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  return driver_call("cuStreamBeginCapture_v2", [&](Lock&) {
    working();
    const DoubleStreamPtr stream = stream_of(handle);
    require(mode == CU_STREAM_CAPTURE_MODE_RELAXED, "other modes are not known here");
    require(!stream->capture, "the stream is being captured already");
    stream->capture = std::make_shared<DoubleCapture>();
    stream->capture->origin = stream;
    stream->capture->issued[stream.get()] = 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  return driver_call("cuStreamEndCapture", [&](Lock&) {
    *graph = nullptr;
    const DoubleStreamPtr stream = stream_of(handle);
    const auto capture = stream->capture;
    if (!capture || capture->origin != stream) {
      throw Complaint(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "no capture began on this stream");
    }
    books().end_capture(*capture);
    if (capture->invalid != CUDA_SUCCESS) return capture->invalid;
    if (!capture->unjoined.empty()) {
      throw Complaint(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                      "nobody waits for a stream that takes part");
    }
    *graph = reinterpret_cast<CUgraph>(books().graphs.add(std::make_shared<DoubleGraph>(
        DoubleGraph{stream->context,
                    std::make_shared<const std::vector<Command>>(std::move(capture->commands))})));
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph handle,
                                     unsigned long long flags) {
  return driver_call("cuGraphInstantiateWithFlags", [&](Lock&) {
    require(flags == 0, "flags are not known here");
    *executable = reinterpret_cast<CUgraphExec>(
        books().executable_graphs.add(std::make_shared<DoubleGraph>(*books().graphs.find(handle))));
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream) {
  return driver_call("cuGraphLaunch", [&](Lock&) {
    const DoubleContextPtr context = working();
    const auto graph = books().executable_graphs.find(handle);
    require(graph->context == context, "the graph is of another context");
    ++books().counts["replays"];
    books().issue(stream_of(stream), {.name = "graph", .run = [commands = graph->commands] {
                                        for (const Command& command : *commands) {
                                          books().check_runs(command.name);
                                          command.run();
                                        }
                                      }});
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
  return driver_call("cuGraphExecDestroy", [&](Lock&) {
    books().executable_graphs.remove(handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphDestroy(CUgraph handle) {
  return driver_call("cuGraphDestroy", [&](Lock&) {
    books().graphs.remove(handle);
    return CUDA_SUCCESS;
  });
}

}  // namespace tandem::doubles::cuda

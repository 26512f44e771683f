/// The training step of a small classifier, written by hand for OpenCL as somebody would who has
/// nothing else to do: one kernel for each product with what follows it, buffers that are allocated
/// once, arguments that are computed once. What a compiled step of the library costs is held
/// against it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace tandem::bench {

class HandwrittenStep {
 public:
  /// As harness::Classifier: sizes of the layers, the same weights and the same batch of 128 rows.
  HandwrittenStep(const std::vector<int64_t>& sizes, double learning_rate);
  ~HandwrittenStep();
  HandwrittenStep(const HandwrittenStep&) = delete;
  HandwrittenStep& operator=(const HandwrittenStep&) = delete;

  /// Issues a step. The host is two steps ahead at most, as the library's.
  void run();

  /// The loss before the last step; waits.
  float loss();

 private:
  class Body;
  std::unique_ptr<Body> body_;
};

}  // namespace tandem::bench

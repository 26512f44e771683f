/// The prepared kernels of eager calls, kept by signature and device.
#pragma once

#include <memory>
#include <shared_mutex>
#include <unordered_map>

#include "op/registry.h"

namespace tandem::runtime {

struct PreparedKernel {
  op::ExecutablePtr executable;
  int parts = 1;  ///< Threads that share a run; 1 where the work is too small to share.
};

class PreparedKernels {
 public:
  static PreparedKernels& instance();

  PreparedKernel get(const op::Signature& signature, devices::Device& device);

 private:
  struct Entry {
    op::Signature signature;
    uint64_t device;
    PreparedKernel prepared;
  };

  // Signatures whose shapes change for ever must not fill the memory.
  static constexpr size_t kMostEntries = 4096;

  std::shared_mutex mutex_;
  std::unordered_multimap<size_t, Entry> entries_;
};

}  // namespace tandem::runtime

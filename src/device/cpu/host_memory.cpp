// The memory space that all CPUs of the process share, and that the host itself computes in. It is
// the system's memory; what is added here is the alignment that kernels count on, and huge pages.
#include <sys/mman.h>

#include <cstdlib>

#include "core/alignment.h"
#include "device/memory_space.h"

namespace tandem::devices {
namespace {

// Large blocks start on a huge page's border and ask for huge pages: a weight matrix then costs a
// handful of translations and page faults instead of thousands.
constexpr size_t kHugePage = size_t{2} << 20;

class HostMemory final : public MemorySpace {
 public:
  const std::string& name() const override {
    static const std::string kName = "host";
    return kName;
  }
  bool host_readable() const override { return true; }

  void* allocate(size_t bytes) override {
    const bool large = bytes >= kHugePage;
    const size_t alignment = large ? kHugePage : core::kAlignment;
    void* data = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (large && data != nullptr) madvise(data, bytes, MADV_HUGEPAGE);
    return data;
  }
  void deallocate(void* data, size_t) noexcept override { std::free(data); }
};

}  // namespace

MemorySpace& host_memory() {
  static HostMemory* memory = new HostMemory;  // Buffers may be freed at any point of the exit.
  return *memory;
}

}  // namespace tandem::devices

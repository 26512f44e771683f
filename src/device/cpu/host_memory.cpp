#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/alignment.h"
#include "device/memory_space.h"
#include "profile/recorder.h"

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

  void copy_from_host(void* to, const void* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void copy_to_host(void* to, const void* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void copy_within(void* to, const void* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
};

}  // namespace

MemorySpace& host_memory() {
  static HostMemory* memory = new HostMemory;  // Buffers may be freed at any point of the exit.
  return *memory;
}

void copy_bytes(MemorySpace& to_space, void* to, MemorySpace& from_space, const void* from,
                size_t bytes) {
  if (bytes == 0) return;
  if (&to_space == &from_space) {
    to_space.copy_within(to, from, bytes);
    return;
  }
  const profile::Span copying("copy", profile::Kind::copy, 0, static_cast<double>(bytes));
  if (from_space.host_readable()) {
    to_space.copy_from_host(to, from, bytes);
  } else if (to_space.host_readable()) {
    from_space.copy_to_host(to, from, bytes);
  } else {
    std::vector<char> staging(bytes);
    from_space.copy_to_host(staging.data(), from, bytes);
    to_space.copy_from_host(to, staging.data(), bytes);
  }
}

}  // namespace tandem::devices

/// The addresses of memory that the host cannot read. Each allocation gets a range of addresses
/// that is reserved and has no memory behind it: the host calculates with them as with any others,
/// and following one is a fault on the spot. What lies there on the device is looked up.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>

namespace tandem::devices {

/// `Buffer` is what the device calls an allocation.
template <class Buffer>
class AddressMap {
 public:
  struct Place {
    Buffer buffer;
    size_t offset;
    size_t size;  ///< The size of the range that the address lies in.
  };

  AddressMap() = default;
  ~AddressMap() {
    for (const auto& [end, range] : ranges_)
      munmap(reinterpret_cast<void*>(range.begin), range.size);
  }
  AddressMap(const AddressMap&) = delete;
  AddressMap& operator=(const AddressMap&) = delete;

  /// Null when there are no more addresses.
  void* add(size_t bytes, Buffer buffer) {
    constexpr size_t kPage = 4096;
    const size_t size = (bytes / kPage + 1) * kPage;  // One past the end is the range's own, too.
    void* const data =
        mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) return nullptr;
    const auto begin = reinterpret_cast<uintptr_t>(data);
    const std::unique_lock lock(mutex_);
    ranges_.emplace(begin + size, Range{begin, size, std::move(buffer)});
    return data;
  }

  /// Where an address lies; nothing for one that is not of this map.
  std::optional<Place> find(const void* address) const {
    const auto at = reinterpret_cast<uintptr_t>(address);
    const std::shared_lock lock(mutex_);
    const auto found = ranges_.upper_bound(at);
    if (found == ranges_.end() || at < found->second.begin) return std::nullopt;
    return Place{found->second.buffer, at - found->second.begin, found->second.size};
  }

  /// `data` came from add().
  Buffer remove(void* data) {
    const std::unique_lock lock(mutex_);
    const auto found = ranges_.upper_bound(reinterpret_cast<uintptr_t>(data));
    Buffer buffer = std::move(found->second.buffer);
    munmap(data, found->second.size);
    ranges_.erase(found);
    return buffer;
  }

 private:
  struct Range {
    uintptr_t begin;
    size_t size;
    Buffer buffer;
  };

  mutable std::shared_mutex mutex_;
  std::map<uintptr_t, Range> ranges_;  // By their ends.
};

}  // namespace tandem::devices

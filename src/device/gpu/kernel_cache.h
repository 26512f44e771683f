/// Compiled kernels on disk, so that only the first start of a program compiles. Files are in
/// $XDG_CACHE_HOME/tandem/kernels, or ~/.cache/tandem/kernels; TANDEM_KERNEL_CACHE names another
/// folder. Any number of processes may use it at once. A folder that cannot be read or written, or
/// a damaged file, makes a start slower and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::devices::gpu {

uint64_t hash_of(std::string_view text);

class KernelCache {
 public:
  /// At most `most_bytes` are kept: what was not used for longest goes first.
  explicit KernelCache(std::string folder, size_t most_bytes = size_t{512} << 20);

  /// The user's cache.
  static KernelCache& instance();

  const std::string& folder() const { return folder_; }

  /// What was added under `key`, if it is still there.
  std::optional<std::string> find(const std::string& key) const;
  void add(const std::string& key, const std::string& binary);

 private:
  std::string path_of(const std::string& key) const;
  void remove_oldest() const;

  const std::string folder_;
  const size_t most_bytes_;
};

}  // namespace tandem::devices::gpu

// A file of the cache:
//
//   magic "tandem kernels 1\n" | hash of all that follows | length of the key | key | binary
//
// The whole key is in the file, so two keys with one hash are told apart.
#include "device/gpu/kernel_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

namespace tandem::devices::gpu {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "tandem kernels 1\n";

std::string default_folder() {
  if (const char* own = std::getenv("TANDEM_KERNEL_CACHE")) return own;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    return std::string(cache) + "/tandem/kernels";
  }
  const char* home = std::getenv("HOME");
  return home == nullptr ? "" : std::string(home) + "/.cache/tandem/kernels";
}

std::string number(uint64_t value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

/// The number at the beginning of `text`, which is taken off.
std::optional<uint64_t> take_number(std::string_view& text) {
  uint64_t value = 0;
  if (text.size() < sizeof value) return std::nullopt;
  std::memcpy(&value, text.data(), sizeof value);
  text.remove_prefix(sizeof value);
  return value;
}

/// The binary in a file's bytes; nothing where they are damaged or of another key.
std::optional<std::string> binary_in(std::string_view bytes, const std::string& key) {
  if (!bytes.starts_with(kMagic)) return std::nullopt;
  bytes.remove_prefix(kMagic.size());
  const auto hash = take_number(bytes);
  if (!hash || *hash != hash_of(bytes)) return std::nullopt;
  const auto length = take_number(bytes);
  if (!length || *length > bytes.size() || bytes.substr(0, *length) != key) return std::nullopt;
  return std::string(bytes.substr(*length));
}

}  // namespace

/// FNV-1a, eight bytes at a time.
uint64_t hash_of(std::string_view text) {
  constexpr uint64_t kPrime = 0x100000001b3;
  uint64_t hash = 0xcbf29ce484222325;
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + i, sizeof word);
    hash = (hash ^ word) * kPrime;
    hash ^= hash >> 29;
  }
  for (; i < text.size(); ++i) hash = (hash ^ static_cast<unsigned char>(text[i])) * kPrime;
  return hash ^ (hash >> 32);
}

KernelCache::KernelCache(std::string folder, size_t most_bytes)
    : folder_(std::move(folder)), most_bytes_(most_bytes) {}

KernelCache& KernelCache::instance() {
  static auto* cache = new KernelCache(default_folder());
  return *cache;
}

std::string KernelCache::path_of(const std::string& key) const {
  return fmt::format("{}/{:016x}", folder_, hash_of(key));
}

std::optional<std::string> KernelCache::find(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const std::string path = path_of(key);
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  auto binary = binary_in(bytes, key);
  std::error_code ignored;
  if (binary) fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);  // It was used.
  return binary;
}

/// The file is written aside and renamed, so nobody ever reads half of one.
void KernelCache::add(const std::string& key, const std::string& binary) {
  if (folder_.empty() || binary.empty()) return;
  static std::atomic<int> counter{0};
  std::error_code failed;
  fs::create_directories(folder_, failed);
  const std::string path = path_of(key);
  const std::string aside = fmt::format("{}.{}.{}", path, getpid(), counter++);
  const std::string content = number(key.size()) + key + binary;
  {
    std::ofstream file(aside, std::ios::binary);
    file << kMagic << number(hash_of(content)) << content;
    file.close();
    if (!file) {
      fs::remove(aside, failed);
      return;
    }
  }
  fs::rename(aside, path, failed);
  if (failed) fs::remove(aside, failed);
  remove_oldest();
}

void KernelCache::remove_oldest() const {
  struct Entry {
    fs::path path;
    fs::file_time_type used;
    size_t bytes;
  };
  std::vector<Entry> entries;
  size_t total = 0;
  std::error_code failed;
  for (auto at = fs::directory_iterator(folder_, failed); !failed && at != fs::directory_iterator();
       at.increment(failed)) {
    std::error_code gone;  // Another process may remove it at any time.
    const size_t bytes = at->file_size(gone);
    const auto used = at->last_write_time(gone);
    if (gone) continue;
    entries.push_back({at->path(), used, bytes});
    total += bytes;
  }
  std::ranges::sort(entries, {}, &Entry::used);
  for (const Entry& entry : entries) {
    if (total <= most_bytes_) return;
    fs::remove(entry.path, failed);
    total -= entry.bytes;
  }
}

}  // namespace tandem::devices::gpu

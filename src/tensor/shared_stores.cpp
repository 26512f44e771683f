#include "tensor/shared_stores.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "device/scope.h"
#include "tandem/error.h"
#include "tensor/late_values.h"
#include "tensor/unmade_values.h"

namespace tandem {
namespace {

std::mutex mutex;

std::vector<std::weak_ptr<Store>>& stores() {
  static auto* stores = new std::vector<std::weak_ptr<Store>>;
  return *stores;
}

/// The stores that are one store's homes on other devices.
struct Homes {
  std::weak_ptr<Store> store;
  std::vector<std::shared_ptr<Store>> others;
  HomeRule rule;
};

std::vector<Homes>& homes() {
  static auto* homes = new std::vector<Homes>;
  return *homes;
}

/// A variable of which this process keeps the elements from `begin` to `end`.
struct KeptPart {
  std::weak_ptr<StoreBlock> block;
  int64_t offset;
  int64_t count;
  int64_t begin;
  int64_t end;
  int keeper = -1;  // Who has all of it, if anybody does.
};

// How many variables were noted to be kept by one process or another; most programs have none.
std::atomic<int> kept{0};
std::atomic<bool> is_gathered_here{false};

std::vector<KeptPart>& parts() {
  static auto* parts = new std::vector<KeptPart>;
  return *parts;
}

/// The whole pages from `begin` to `end`.
std::span<char> pages_in(char* begin, char* end) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = (reinterpret_cast<uintptr_t>(begin) + page - 1) / page * page;
  const uintptr_t last = reinterpret_cast<uintptr_t>(end) / page * page;
  if (first >= last) return {};
  return {reinterpret_cast<char*>(first), last - first};
}

/// Whole pages alone can be given back. They read as zeros afterwards.
void release_pages(char* begin, char* end) {
  const std::span<char> pages = pages_in(begin, end);
  if (!pages.empty()) madvise(pages.data(), pages.size(), MADV_DONTNEED);
}

void release_others(StoreBlock& block, const KeptPart& part) {
  if (!block.components()[0]->device()->works_on_threads()) {
    // A device's memory goes back as a whole, where it was taken for this variable alone.
    if (part.begin < part.end || !is_of_late_values(block)) return;
    drop_late_value(block);
    block.give_memory_back();
    return;
  }
  block.wait_for_devices();
  block.settle_loans();
  const size_t element = size_of(block.dtype());
  for (const std::shared_ptr<Buffer>& component : block.components()) {
    if (!component->device()->works_on_threads()) continue;
    const auto at = [&](int64_t i) {
      return static_cast<char*>(component->data()) + static_cast<size_t>(part.offset + i) * element;
    };
    release_pages(at(0), at(part.begin));
    release_pages(at(part.end), at(part.count));
  }
}

}  // namespace

void note_in_parts(const StoreRange& range, int64_t begin, int64_t end) {
  if (is_in_parts(range)) return;
  const std::lock_guard lock(mutex);
  std::erase_if(parts(), [](const KeptPart& known) { return known.block.expired(); });
  parts().push_back({.block = range.block,
                     .offset = range.offset,
                     .count = range.count,
                     .begin = begin,
                     .end = end});
}

namespace {

/// What is known of a variable, or null. To be called with the mutex held.
KeptPart* find_part(const StoreRange& range) {
  const auto found = std::ranges::find_if(parts(), [&](const KeptPart& known) {
    return known.offset == range.offset && known.block.lock() == range.block;
  });
  return found == parts().end() ? nullptr : &*found;
}

}  // namespace

bool is_in_parts(const StoreRange& range) {
  const std::lock_guard lock(mutex);
  const KeptPart* known = find_part(range);
  return known != nullptr && known->keeper < 0;
}

void note_kept_by(const StoreRange& range, int keeper, bool here) {
  const std::lock_guard lock(mutex);
  std::erase_if(parts(), [](const KeptPart& known) { return known.block.expired(); });
  KeptPart* known = find_part(range);
  if (known == nullptr) {
    parts().push_back(
        {.block = range.block, .offset = range.offset, .count = range.count, .begin = 0, .end = 0});
    known = &parts().back();
  }
  known->begin = 0;
  known->end = here ? range.count : 0;
  known->keeper = keeper;
  ++kept;
}

std::optional<int> keeper_of(const StoreRange& range) {
  if (kept == 0) return std::nullopt;
  const std::lock_guard lock(mutex);
  const KeptPart* known = find_part(range);
  return known == nullptr || known->keeper < 0 ? std::nullopt : std::optional(known->keeper);
}

void set_gathered_here(bool gathered) { is_gathered_here = gathered; }

bool is_kept_elsewhere(const StoreRange& range) {
  return !is_gathered_here && is_kept_by_others(range);
}

bool is_kept_by_others(const StoreRange& range) {
  if (kept == 0) return false;
  const std::lock_guard lock(mutex);
  const KeptPart* known = find_part(range);
  return known != nullptr && known->keeper >= 0 && known->end == 0;
}

void release_parts_of_others(const StoreRange& range) {
  std::optional<KeptPart> part;
  {
    const std::lock_guard lock(mutex);
    if (const KeptPart* known = find_part(range)) part = *known;
  }
  if (part) release_others(*range.block, *part);
}

void release_parts_of_others() {
  std::vector<KeptPart> all;
  {
    const std::lock_guard lock(mutex);
    all = parts();
  }
  for (const KeptPart& part : all) {
    if (const auto block = part.block.lock()) release_others(*block, part);
  }
}

namespace {

thread_local MappedScope::Kind scope_kind = MappedScope::Kind::in_file;
thread_local size_t scope_least = 0;

/// A store and from how many bytes on its variables lie in files.
struct InFiles {
  std::weak_ptr<Store> store;
  size_t least;
};

std::vector<InFiles>& stores_in_files() {
  static auto* stores = new std::vector<InFiles>;
  return *stores;
}

}  // namespace

MappedScope::MappedScope(Kind kind, size_t least)
    : former_kind_(std::exchange(scope_kind, kind)),
      former_least_(std::exchange(scope_least, least)) {}

MappedScope::~MappedScope() {
  scope_kind = former_kind_;
  scope_least = former_least_;
}

std::shared_ptr<devices::MappedMemory> MappedScope::memory_for(const devices::Device& device,
                                                               size_t bytes) {
  if (scope_least == 0 || bytes < scope_least || !device.works_on_threads()) return nullptr;
  return scope_kind == Kind::in_file ? devices::MappedMemory::in_file(bytes)
                                     : devices::MappedMemory::sparse(bytes);
}

bool MappedScope::is_on_demand(const devices::Device& device, size_t bytes) {
  return scope_kind == Kind::sparse && scope_least > 0 && bytes >= scope_least &&
         !device.works_on_threads();
}

void note_in_files(const std::shared_ptr<Store>& store, size_t least) {
  const std::lock_guard lock(mutex);
  std::erase_if(stores_in_files(), [](const InFiles& known) { return known.store.expired(); });
  stores_in_files().push_back({store, least});
}

size_t least_bytes_in_files(const Store& store) {
  const std::lock_guard lock(mutex);
  const auto known = std::ranges::find_if(
      stores_in_files(), [&](const InFiles& each) { return each.store.lock().get() == &store; });
  return known == stores_in_files().end() ? 0 : known->least;
}

void hold_in_memory(const StoreRange& range) {
  range.block->settle_loans();
  const bool has_values = !is_unmade(range);
  const PartsScope parts;
  std::vector<char> values;
  for (const std::shared_ptr<Buffer>& component : range.block->components()) {
    if (component->bytes() != 0) continue;  // A device's own memory.
    char* const begin = static_cast<char*>(range.data(*component->device()));
    const size_t bytes = static_cast<size_t>(range.count) * size_of(range.block->dtype());
    std::span<char> left = pages_in(begin, begin + bytes);
    while (!left.empty()) {
      constexpr size_t kAtOnce = size_t{4} << 20;
      const std::span<char> part = left.first(std::min(kAtOnce, left.size()));
      if (has_values) values.assign(part.begin(), part.end());
      // In the place of the file's, at the same addresses.
      void* const taken = mmap(part.data(), part.size(), PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      if (taken == MAP_FAILED) {
        throw ResourceExhausted(
            fmt::format("no memory for {} bytes of variable {}", bytes, range.name()));
      }
      if (has_values) std::ranges::copy(values, part.begin());
      left = left.subspan(part.size());
    }
  }
}

void release_memory(const StoreRange& range) {
  range.block->settle_loans();
  for (const std::shared_ptr<Buffer>& component : range.block->components()) {
    if (!component->device()->works_on_threads()) continue;
    char* const begin = static_cast<char*>(range.data(*component->device()));
    release_pages(begin, begin + static_cast<size_t>(range.count) * size_of(range.block->dtype()));
  }
}

void note_homes(const std::shared_ptr<Store>& store, std::vector<std::shared_ptr<Store>> others,
                HomeRule rule) {
  const std::lock_guard lock(mutex);
  std::erase_if(homes(), [](const Homes& known) { return known.store.expired(); });
  homes().push_back({store, std::move(others), std::move(rule)});
}

std::shared_ptr<Store> home_of(const std::shared_ptr<Store>& store, const std::string& variable) {
  const std::lock_guard lock(mutex);
  const auto known =
      std::ranges::find_if(homes(), [&](const Homes& each) { return each.store.lock() == store; });
  if (known == homes().end()) return store;
  const devices::DevicePtr* asked = devices::scope_device();
  const auto is_there = [&](const std::shared_ptr<Store>& home) {
    return std::ranges::find(home->devices(), *asked) != home->devices().end();
  };
  if (asked == nullptr) {
    const std::shared_ptr<Store> chosen = known->rule(variable);
    return chosen ? chosen : store;
  }
  if (is_there(store)) return store;
  const auto home = std::ranges::find_if(known->others, is_there);
  if (home != known->others.end()) return *home;
  if (&(*asked)->space() == &store->devices()[0]->space()) return store;
  throw InvalidArgument(
      fmt::format("variable '{}': created under a scope of {}, which is none of the strategy's "
                  "devices",
                  variable, (*asked)->name()));
}

void note_shared(const std::shared_ptr<Store>& store) {
  const std::lock_guard lock(mutex);
  std::erase_if(stores(), [](const auto& known) { return known.expired(); });
  stores().push_back(store);
}

bool is_shared(const std::shared_ptr<Store>& store) {
  const std::lock_guard lock(mutex);
  return std::ranges::any_of(stores(), [&](const auto& known) { return known.lock() == store; });
}

}  // namespace tandem

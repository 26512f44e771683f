#include "tensor/unmade_values.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "device/mapped_memory.h"

namespace tandem {
namespace {

/// What was left unmade last on this thread.
struct UnmadeTensor {
  std::weak_ptr<const TensorBody> body;
  MakeElements make;
};

thread_local size_t scope_least = 0;
thread_local int left_unmade = 0;  // In the scope.
thread_local UnmadeTensor last_unmade;
thread_local bool knows_parts = false;

/// Numbers in runs [begin, end) that do not touch.
class RunSet {
 public:
  void add(int64_t begin, int64_t end) {
    remove(begin, end);
    if (begin < end) runs_[begin] = end;
  }

  void remove(int64_t begin, int64_t end) {
    for (const auto& [first, last] : within(begin, end)) {
      const auto run = std::prev(runs_.upper_bound(first));
      const auto [run_begin, run_end] = *run;
      runs_.erase(run);
      if (run_begin < first) runs_[run_begin] = first;
      if (last < run_end) runs_[last] = run_end;
    }
  }

  /// Those between `begin` and `end`.
  std::vector<std::pair<int64_t, int64_t>> within(int64_t begin, int64_t end) const {
    std::vector<std::pair<int64_t, int64_t>> found;
    for (const auto& [first, last] : runs_) {
      if (first < end && begin < last)
        found.emplace_back(std::max(first, begin), std::min(last, end));
    }
    return found;
  }

 private:
  std::map<int64_t, int64_t> runs_;  // From begin to end.
};

/// The variables of a block that were left unmade.
class UnmadeBlock {
 public:
  explicit UnmadeBlock(const std::shared_ptr<StoreBlock>& block) : block_(block) {}

  bool is_of(const StoreBlock& block) const { return block_.lock().get() == &block; }
  bool is_gone() const { return block_.expired(); }

  void add(int64_t begin, int64_t end, MakeElements make) {
    const std::lock_guard lock(mutex_);
    if (make) makers_[begin] = {end, std::move(make)};
    unmade_.add(begin, end);
  }

  void remove(int64_t begin, int64_t end) {
    const std::lock_guard lock(mutex_);
    unmade_.remove(begin, end);
  }

  bool is_unmade(int64_t begin, int64_t end) {
    const std::lock_guard lock(mutex_);
    const auto runs = unmade_.within(begin, end);
    int64_t count = 0;
    for (const auto& [first, last] : runs) count += last - first;
    return count == end - begin && count > 0;
  }

  void make(const StoreBlock& block, int64_t begin, int64_t end) {
    const std::lock_guard lock(mutex_);
    for (const auto& [first, last] : unmade_.within(begin, end)) {
      make_run(block, first, last);
      unmade_.remove(first, last);
    }
  }

 private:
  struct Maker {
    int64_t end;  // Behind the last element of its variable.
    MakeElements make;
  };

  void make_run(const StoreBlock& block, int64_t begin, int64_t end) const {
    constexpr int64_t kAtOnce = int64_t{1} << 18;
    for (const auto& [start, maker] : makers_) {
      const int64_t last = std::min(end, maker.end);
      for (int64_t i = std::max(begin, start); i < last; i += kAtOnce) {
        for (const auto& component : block.components()) {
          char* const data = static_cast<char*>(component->data());
          maker.make(i - start, std::min(kAtOnce, last - i),
                     data + static_cast<size_t>(i) * size_of(block.dtype()));
        }
      }
    }
  }

  const std::weak_ptr<StoreBlock> block_;
  std::mutex mutex_;
  std::map<int64_t, Maker> makers_;  // By the first element of their variables.
  RunSet unmade_;
};

std::mutex mutex;
std::atomic<bool> has_any{false};  // Most programs have none.

std::map<const StoreBlock*, std::shared_ptr<UnmadeBlock>>& unmade_blocks() {
  static auto* const blocks = new std::map<const StoreBlock*, std::shared_ptr<UnmadeBlock>>;
  return *blocks;
}

/// Null where a block has none.
std::shared_ptr<UnmadeBlock> find_unmade(const StoreBlock& block) {
  if (!has_any.load(std::memory_order_acquire)) return nullptr;
  const std::lock_guard lock(mutex);
  const auto found = unmade_blocks().find(&block);
  const bool is_known = found != unmade_blocks().end() && found->second->is_of(block);
  return is_known ? found->second : nullptr;
}

int64_t end_of(const StoreRange& range) { return range.offset + range.count; }

}  // namespace

UnmadeScope::UnmadeScope(size_t least) : former_least_(std::exchange(scope_least, least)) {
  left_unmade = 0;
}
UnmadeScope::~UnmadeScope() { scope_least = former_least_; }

bool UnmadeScope::is_wanted(DType dtype, const Shape& shape) {
  const size_t bytes = static_cast<size_t>(shape.total_extent()) * size_of(dtype);
  return scope_least > 0 && bytes >= scope_least && !shape.is_symbolic();
}

Tensor UnmadeScope::leave_unmade(DType dtype, const Shape& shape, MakeElements make) {
  const size_t bytes = static_cast<size_t>(shape.count()) * size_of(dtype);
  const auto memory = devices::MappedMemory::sparse(bytes);
  auto body = std::make_shared<TensorBody>();
  body->dtype = dtype;
  body->shape = shape;
  body->buffer = std::make_shared<Buffer>(devices::host_device(), memory->data(), memory);
  ++left_unmade;
  last_unmade = {body, std::move(make)};
  return Tensor(std::move(body));
}

bool UnmadeScope::is_usable(const Tensor& result) {
  return left_unmade == 0 || (left_unmade == 1 && result.body() == last_unmade.body.lock());
}

bool take_unmade(const Tensor& value, const StoreRange& range) {
  const auto unmade = last_unmade.body.lock();
  if (!unmade || value.body() != unmade) return false;
  MakeElements make = std::exchange(last_unmade, {}).make;
  if (note_unmade(range, make)) return true;
  make(0, range.count, unmade->data());
  return false;
}

bool note_unmade(const StoreRange& range, MakeElements make) {
  const auto is_mapped = [](const auto& component) { return component->bytes() == 0; };
  const bool is_one_value = range.stride == 0 && range.block->parts() == 1;
  if (!is_one_value || !std::ranges::all_of(range.block->components(), is_mapped)) return false;
  const std::lock_guard lock(mutex);
  std::erase_if(unmade_blocks(), [](const auto& known) { return known.second->is_gone(); });
  std::shared_ptr<UnmadeBlock>& unmade = unmade_blocks()[range.block.get()];
  if (!unmade) unmade = std::make_shared<UnmadeBlock>(range.block);
  unmade->add(range.offset, end_of(range), std::move(make));
  has_any.store(true, std::memory_order_release);
  return true;
}

void make_values(const StoreRange& range) {
  if (const auto unmade = find_unmade(*range.block)) {
    unmade->make(*range.block, range.offset, end_of(range));
  }
}

void make_values(const StoreBlock& block) {
  if (knows_parts) return;
  if (const auto unmade = find_unmade(block)) unmade->make(block, 0, block.capacity());
}

void forget_unmade(const StoreRange& range) {
  if (const auto unmade = find_unmade(*range.block)) unmade->remove(range.offset, end_of(range));
}

bool is_unmade(const StoreRange& range) {
  const auto unmade = find_unmade(*range.block);
  return unmade && unmade->is_unmade(range.offset, end_of(range));
}

PartsScope::PartsScope() : former_(std::exchange(knows_parts, true)) {}
PartsScope::~PartsScope() { knows_parts = former_; }

}  // namespace tandem

#include "device/allocator.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/tensor_type.h"
#include "tandem/error.h"

namespace tandem::devices {

size_t Allocator::rounded(size_t bytes) {
  constexpr size_t kLeast = 64;
  constexpr size_t kNoMemoryHas = size_t{1} << 62;
  if (bytes <= kLeast) return kLeast;
  if (bytes >= kNoMemoryHas) return kNoMemoryHas;
  size_t step = kLeast;
  while ((bytes - 1) / 16 >= step) step *= 2;
  return (bytes + step - 1) / step * step;
}

Allocator::Allocator(std::string device_name, MemorySpace& space)
    : device_name_(std::move(device_name)), space_(space) {}

Allocator::~Allocator() { release_kept(); }

Allocator::Allocation* Allocator::allocate(size_t bytes, DType dtype, const Shape& shape) {
  const size_t rounded = Allocator::rounded(bytes);
  std::lock_guard lock(mutex_);
  if (info_.limit != 0 && info_.current + rounded > info_.limit)
    throw ResourceExhausted(exhausted(bytes));
  Allocation* block = take_free(rounded);
  if (block == nullptr) block = take_new(rounded);
  if (block == nullptr) {
    release_kept();
    block = take_new(rounded);
  }
  if (block == nullptr) throw ResourceExhausted(exhausted(bytes));

  block->dtype = dtype;
  block->shape = shape;
  block->previous = nullptr;
  block->next = live_;
  if (live_ != nullptr) live_->previous = block;
  live_ = block;
  info_.current += rounded;
  info_.peak = std::max(info_.peak, info_.current);
  return block;
}

void Allocator::free(Allocation* block) noexcept {
  space_.forget(block->data, block->bytes);
  std::lock_guard lock(mutex_);
  (block->previous != nullptr ? block->previous->next : live_) = block->next;
  if (block->next != nullptr) block->next->previous = block->previous;
  info_.current -= block->bytes;
  kept_[block->bytes].push_back(block);
}

Allocator::Allocation* Allocator::take_free(size_t rounded) {
  const auto found = kept_.find(rounded);
  if (found == kept_.end() || found->second.empty()) return nullptr;
  Allocation* block = found->second.back();
  found->second.pop_back();
  return block;
}

Allocator::Allocation* Allocator::take_new(size_t rounded) {
  if (reserve_ && !region_) {
    region_ = MemoryRegion::of(space_, info_.limit);
    if (!region_) return nullptr;
    info_.reserved += info_.limit;
    ++info_.space_allocations;
  }
  void* data = region_ ? region_->take(rounded) : space_.allocate(rounded);
  if (data == nullptr) return nullptr;
  if (!region_) {
    info_.reserved += rounded;
    ++info_.space_allocations;
  }
  auto* block = new Allocation;
  block->data = data;
  block->bytes = rounded;
  return block;
}

void Allocator::release_kept() {
  for (auto& [bytes, blocks] : kept_) {
    for (Allocation* block : blocks) {
      if (region_) {
        region_->give_back(block->data, bytes);
      } else {
        space_.deallocate(block->data, bytes);
        info_.reserved -= bytes;
      }
      delete block;
    }
  }
  kept_.clear();
}

std::string Allocator::exhausted(size_t bytes) const {
  std::vector<const Allocation*> blocks;
  for (const Allocation* block = live_; block != nullptr; block = block->next)
    blocks.push_back(block);
  const size_t shown = std::min<size_t>(5, blocks.size());
  std::partial_sort(blocks.begin(), blocks.begin() + static_cast<ptrdiff_t>(shown), blocks.end(),
                    [](const Allocation* a, const Allocation* b) { return a->bytes > b->bytes; });
  std::string largest;
  for (size_t i = 0; i < shown; ++i) {
    fmt::format_to(std::back_inserter(largest), "{}{} {} bytes", i == 0 ? "" : ", ",
                   TensorType{blocks[i]->dtype, blocks[i]->shape}.str(), blocks[i]->bytes);
  }
  return fmt::format(
      "{}: out of memory: {} bytes requested, {} in use, {} at the peak, limit {}; "
      "largest live tensors: {}",
      device_name_, bytes, info_.current, info_.peak,
      info_.limit == 0 ? "none" : fmt::format("{}", info_.limit),
      largest.empty() ? "none" : largest);
}

void Allocator::set_limit(size_t bytes, bool reserve) {
  std::lock_guard lock(mutex_);
  info_.limit = bytes;
  reserve_ = reserve;
}

AllocatorStatistics Allocator::info() const {
  std::lock_guard lock(mutex_);
  return info_;
}

void Allocator::reset_peak() {
  std::lock_guard lock(mutex_);
  info_.peak = info_.current;
}

}  // namespace tandem::devices

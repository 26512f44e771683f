#include "distribute/range/server_state.h"

#include <algorithm>
#include <cstring>

#include "checkpoint/crc32c.h"
#include "tensor/unmade_values.h"

namespace tandem::distribute {
namespace {

/// The bytes of a range, whether its values are made or not.
char* memory_of(const StoreRange& range) {
  const PartsScope parts;
  return static_cast<char*>(range.data(*range.block->components()[0]->device()));
}

}  // namespace

size_t ServerState::place_of(const StoreRange& range) {
  const auto known = std::ranges::find(ranges_, range);
  const auto place = static_cast<size_t>(known - ranges_.begin());
  if (known == ranges_.end()) ranges_.push_back(range);
  return place;
}

void* ServerState::address_of(const StoreRange& range) {
  make_values(range);
  return memory_of(range);
}

uint64_t ServerState::checksum_of(const StoreRange& range) {
  if (is_unmade(range)) return kFirstValues;
  return checkpoint::crc32c(address_of(range), bytes_of(range));
}

std::vector<uint64_t> ServerState::checksums() const {
  std::vector<uint64_t> sums;
  for (const StoreRange& range : ranges_) sums.push_back(checksum_of(range));
  return sums;
}

void ServerState::make() const {
  for (const StoreRange& range : ranges_) make_values(range);
}

void ServerState::write(size_t place, const void* bytes) {
  const StoreRange& range = ranges_.at(place);
  range.block->settle_loans();
  forget_unmade(range);
  std::memcpy(memory_of(range), bytes, bytes_of(range));
}

uint64_t ServerState::bytes() const {
  uint64_t bytes = 0;
  for (const StoreRange& range : ranges_) bytes += bytes_of(range);
  return bytes;
}

size_t ServerState::bytes_from(uint64_t offset, size_t most) const {
  const uint64_t all = bytes();
  return static_cast<size_t>(std::min<uint64_t>(all - std::min(all, offset), most));
}

/// Calls `take` with the parts of ranges that these bytes of the state are: where they begin in the
/// range, and how many they are.
template <class Take>
void ServerState::for_each_part(uint64_t offset, size_t count, const Take& take) const {
  uint64_t begin = 0;  // Where the range begins.
  for (const StoreRange& range : ranges_) {
    const uint64_t end = begin + bytes_of(range);
    const uint64_t first = std::max(begin, offset);
    const uint64_t last = std::min<uint64_t>(end, offset + count);
    if (first < last) take(range, first - begin, last - first);
    begin = end;
  }
}

void ServerState::copy(uint64_t offset, std::span<char> to) const {
  char* next = to.data();
  for_each_part(offset, to.size(), [&](const StoreRange& range, uint64_t begin, size_t count) {
    std::memcpy(next, static_cast<const char*>(address_of(range)) + begin, count);
    next += count;
  });
}

void ServerState::write_part(uint64_t offset, std::string_view bytes) {
  const char* next = bytes.data();
  for_each_part(offset, bytes.size(), [&](const StoreRange& range, uint64_t begin, size_t count) {
    range.block->settle_loans();
    const size_t size = size_of(range.block->dtype());
    StoreRange written = range;
    written.offset += static_cast<int64_t>(begin / size);
    written.count = static_cast<int64_t>((begin + count + size - 1) / size - begin / size);
    forget_unmade(written);
    std::memcpy(memory_of(range) + begin, next, count);
    next += count;
  });
}

StoreRange ServerState::keep_apart(size_t place) {
  const StoreRange variable = ranges_.at(place);
  const std::vector<devices::DevicePtr> devices = {variable.block->components()[0]->device()};
  const auto block =
      std::make_shared<StoreBlock>(variable.block->dtype(), std::max<int64_t>(variable.count, 1),
                                   devices, variable.block->owner());
  const StoreRange apart{.block = block,
                         .offset = block->take(variable.count, variable.name()),
                         .count = variable.count};
  std::memcpy(address_of(apart), address_of(variable), bytes_of(variable));
  variables_.emplace(block.get(), variable);
  ranges_[place] = apart;
  return apart;
}

void ServerState::write_variables(uint64_t offset, std::string_view bytes) {
  const char* next = bytes.data();
  for_each_part(offset, bytes.size(), [&](const StoreRange& range, uint64_t begin, size_t count) {
    if (const auto found = variables_.find(range.block.get()); found != variables_.end()) {
      found->second.block->settle_loans();
      std::memcpy(static_cast<char*>(address_of(found->second)) + begin, next, count);
    }
    next += count;
  });
}

}  // namespace tandem::distribute

/// The memory that the updates of a parameter server read and write, as a list of ranges that tasks
/// which run the same program have alike, and as the bytes of these one after another. Its holder
/// sees to it that one thread uses it at a time.
///
///   elements of variables and slots, counters, rates | what steps assign
///   range 0   | range 1 | ..                         | range n | ..
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "tensor/store.h"

namespace tandem::distribute {

class ServerState {
 public:
  const std::vector<StoreRange>& ranges() const { return ranges_; }
  /// The range's place in the list, at whose end it is put where it is not in it.
  size_t place_of(const StoreRange& range);

  static size_t bytes_of(const StoreRange& range) {
    return static_cast<size_t>(range.count) * size_of(range.block->dtype());
  }
  /// The bytes of a range, whose first values are made where they are not.
  static void* address_of(const StoreRange& range);

  /// Tells whether two tasks have the same of a range: a checksum, or kFirstValues for one that
  /// still has the values that its initializer makes, which are then not made for it.
  static uint64_t checksum_of(const StoreRange& range);
  static constexpr uint64_t kFirstValues = uint64_t{1} << 32;
  std::vector<uint64_t> checksums() const;

  /// Makes first values that are not made.
  void make() const;
  void write(size_t place, const void* bytes);

  uint64_t bytes() const;
  /// How many bytes there are from `offset` on, `most` at the most.
  size_t bytes_from(uint64_t offset, size_t most) const;
  void copy(uint64_t offset, std::span<char> to) const;
  void write_part(uint64_t offset, std::string_view bytes);

  /// From now on the range at this place lies apart from its variable, with its value.
  StoreRange keep_apart(size_t place);
  /// Variables from which ranges lie apart take their values from these bytes of the state.
  void write_variables(uint64_t offset, std::string_view bytes);

 private:
  template <class Take>
  void for_each_part(uint64_t offset, size_t count, const Take& take) const;

  std::vector<StoreRange> ranges_;
  std::map<const StoreBlock*, StoreRange> variables_;  // By the blocks that lie apart from them.
};

}  // namespace tandem::distribute

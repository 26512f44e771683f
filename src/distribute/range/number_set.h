/// A set of the numbers from 0 on that is filled nearly in order: a mark, below which all are in
/// it, and those above.
#pragma once

#include <cstdint>
#include <set>

namespace tandem::distribute {

class NumberSet {
 public:
  NumberSet() = default;
  NumberSet(int64_t mark, std::set<int64_t> above) : mark_(mark), above_(std::move(above)) {}

  bool contains(int64_t number) const { return number < mark_ || above_.contains(number); }

  /// False where it was there.
  bool insert(int64_t number) {
    if (contains(number)) return false;
    above_.insert(number);
    while (above_.erase(mark_) > 0) ++mark_;
    return true;
  }

  int64_t size() const { return mark_ + static_cast<int64_t>(above_.size()); }
  /// The first number that is not in it.
  int64_t mark() const { return mark_; }
  const std::set<int64_t>& above() const { return above_; }

 private:
  int64_t mark_ = 0;
  std::set<int64_t> above_;
};

}  // namespace tandem::distribute

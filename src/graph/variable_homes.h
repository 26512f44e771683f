/// Where the variables of a pipeline are whose stages are in several processes: each process keeps
/// those that its stages read. What no stage reads, as counters and sums of metrics, all keep.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "tensor/store.h"

namespace tandem::graph {

/// Ranks of processes, in order, each once.
using ProcessList = std::vector<int>;

inline bool includes(const ProcessList& all, const ProcessList& some) {
  return std::ranges::includes(all, some);
}
inline bool includes(const ProcessList& all, int process) {
  return std::ranges::binary_search(all, process);
}
inline ProcessList united(const ProcessList& a, const ProcessList& b) {
  ProcessList both;
  std::ranges::set_union(a, b, std::back_inserter(both));
  return both;
}
inline ProcessList common(const ProcessList& a, const ProcessList& b) {
  ProcessList both;
  std::ranges::set_intersection(a, b, std::back_inserter(both));
  return both;
}

/// A variable, or an optimizer's slot, and the processes that keep it.
struct KeptVariable {
  StoreRange range;
  ProcessList processes;
  /// Those of them that are the same member of their stages as this process is of its own: they
  /// keep the same part of a variable in parts.
  ProcessList alike;
};

/// The functions of a strategy share one: the first that uses a variable decides where it is, and
/// later ones go there. Any thread may use it.
class VariableHomes {
 public:
  /// Nothing where no function has used the variable.
  std::optional<ProcessList> find(const StoreRange& range) const {
    const std::lock_guard lock(mutex_);
    const auto known = homes_.find(key_of(range));
    if (known == homes_.end() || known->second.block.lock() != range.block) return std::nullopt;
    return known->second.processes;
  }

  /// These processes keep the variable, too.
  void add(const StoreRange& range, const ProcessList& processes) {
    const std::lock_guard lock(mutex_);
    Home& home = homes_[key_of(range)];
    if (home.block.lock() != range.block) home = {.block = range.block, .processes = {}};
    home.processes = united(home.processes, processes);
  }

 private:
  using Key = std::pair<const StoreBlock*, int64_t>;
  struct Home {
    std::weak_ptr<StoreBlock> block{};
    ProcessList processes{};
  };
  /// A variable that is seen as a whole and in parts is alone in its block.
  static Key key_of(const StoreRange& range) {
    return {range.block.get(), range.stride > 0 ? 0 : range.offset};
  }

  mutable std::mutex mutex_;
  std::map<Key, Home> homes_;
};

}  // namespace tandem::graph

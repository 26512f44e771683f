/// How stale the updates of each worker were: by how many other updates the variables had changed
/// between the worker's read of them and its own update.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace tandem::distribute {

class StalenessStatistics {
 public:
  void add(int worker, int64_t staleness) { ++counts_[worker][staleness]; }
  void merge(const StalenessStatistics& other);

  /// How many updates there were of each staleness.
  using Histogram = std::map<int64_t, int64_t>;
  const std::map<int, Histogram>& by_worker() const { return counts_; }
  Histogram of_all() const;

  /// How many updates all workers made, and the sum of their staleness.
  struct Totals {
    int64_t updates = 0;
    int64_t staleness = 0;
  };
  Totals totals() const;

  static int64_t updates(const Histogram& histogram);
  static double mean(const Histogram& histogram);
  static int64_t largest(const Histogram& histogram);

  /// "staleness of 120 updates: mean 1.4, at most 5\n  worker 0: 60 updates, mean 1.2, at most 4:
  /// 20 x 0, 25 x 1, ..\n"; empty where there was none.
  std::string str() const;

  /// A text that restore() understands; it throws DataLoss for another.
  std::string save() const;
  static StalenessStatistics restore(const std::string& saved);

 private:
  std::map<int, Histogram> counts_;
};

}  // namespace tandem::distribute

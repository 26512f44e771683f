#include "distribute/range/staleness_statistics.h"

#include <fmt/format.h>

#include <sstream>

#include "tandem/error.h"

namespace tandem::distribute {

void StalenessStatistics::merge(const StalenessStatistics& other) {
  for (const auto& [worker, histogram] : other.counts_) {
    for (const auto& [staleness, count] : histogram) counts_[worker][staleness] += count;
  }
}

StalenessStatistics::Histogram StalenessStatistics::of_all() const {
  Histogram all;
  for (const auto& [worker, histogram] : counts_) {
    for (const auto& [staleness, count] : histogram) all[staleness] += count;
  }
  return all;
}

StalenessStatistics::Totals StalenessStatistics::totals() const {
  Totals totals;
  for (const auto& [staleness, count] : of_all()) {
    totals.updates += count;
    totals.staleness += staleness * count;
  }
  return totals;
}

int64_t StalenessStatistics::updates(const Histogram& histogram) {
  int64_t updates = 0;
  for (const auto& [staleness, count] : histogram) updates += count;
  return updates;
}

double StalenessStatistics::mean(const Histogram& histogram) {
  double sum = 0;
  for (const auto& [staleness, count] : histogram) {
    sum += static_cast<double>(staleness) * static_cast<double>(count);
  }
  return histogram.empty() ? 0 : sum / static_cast<double>(updates(histogram));
}

int64_t StalenessStatistics::largest(const Histogram& histogram) {
  return histogram.empty() ? 0 : histogram.rbegin()->first;
}

std::string StalenessStatistics::str() const {
  if (counts_.empty()) return {};
  const Histogram all = of_all();
  std::string text = fmt::format("staleness of {} updates: mean {:.1f}, at most {}\n", updates(all),
                                 mean(all), largest(all));
  for (const auto& [worker, own] : counts_) {
    text += fmt::format("  worker {}: {} updates, mean {:.1f}, at most {}:", worker, updates(own),
                        mean(own), largest(own));
    const char* before = " ";
    for (const auto& [staleness, count] : own) {
      text += fmt::format("{}{} x {}", before, count, staleness);
      before = ", ";
    }
    text += '\n';
  }
  return text;
}

std::string StalenessStatistics::save() const {
  std::string text;
  for (const auto& [worker, histogram] : counts_) {
    for (const auto& [staleness, count] : histogram) {
      text += fmt::format("{} {} {}\n", worker, staleness, count);
    }
  }
  return text;
}

StalenessStatistics StalenessStatistics::restore(const std::string& saved) {
  StalenessStatistics statistics;
  std::istringstream in(saved);
  int worker = 0;
  int64_t staleness = 0;
  int64_t count = 0;
  while (in >> worker >> staleness >> count) statistics.counts_[worker][staleness] = count;
  if (!in.eof()) throw DataLoss(fmt::format("'{}' are no counts of staleness", saved));
  return statistics;
}

}  // namespace tandem::distribute

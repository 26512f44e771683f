/// Where the time of training steps goes, and which replica the others wait for.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tandem/distribute/strategy.h"

namespace tandem::keras {

class StepSummary {
 public:
  explicit StepSummary(const distribute::Strategy& strategy) : strategy_(strategy) {}

  /// The time that the next batch took to come.
  void add_input(double seconds) { input_ += seconds; }

  /// Runs a step on a batch of so many rows. One in a hundred is looked into, to tell where the
  /// time of all goes.
  void run(int64_t rows, const std::function<void()>& step);

  /// "samples seen: 120000\ntime per step: input 3 %, compute 90 %, reduce 5 %, wait 2 %\n",
  /// then a line for each replica, the slowest and why, and one for each device that tells its own
  /// times: how long it was idle and what it waited for. Empty before the first step.
  std::string str() const;

  int64_t samples() const { return samples_; }
  int64_t steps() const { return count_; }

 private:
  struct Replica {
    // Seconds of the steps looked into, over its threads.
    double compute = 0, reduce = 0, wait = 0;
    int64_t rows = 0;
    double total() const { return compute + reduce + wait; }
  };
  void look(int64_t rows, const std::function<void()>& step);
  std::string slowest() const;
  std::string idle_devices() const;

  const distribute::Strategy strategy_;
  std::vector<Replica> replicas_;
  std::map<std::string, std::map<std::string, double>> idle_;  // Seconds by device and reason,
  double looked_into_ = 0;                                     // of so many.
  double input_ = 0;
  double steps_ = 0;
  int64_t count_ = 0;
  int64_t looked_ = 0;
  int64_t samples_ = 0;
};

}  // namespace tandem::keras

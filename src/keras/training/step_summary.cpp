#include "keras/training/step_summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "distribute/strategy_body.h"
#include "execution/run_arguments.h"
#include "profile/session.h"
#include "tandem/error.h"

namespace tandem::keras {
namespace {

using Clock = std::chrono::steady_clock;

/// False while somebody else takes a profile.
bool begin_profile() {
  try {
    profile::start();
  } catch (const FailedPrecondition&) {
    return false;
  }
  return true;
}

}  // namespace

void StepSummary::run(int64_t rows, const std::function<void()>& step) {
  constexpr int64_t kEvery = 100;
  const auto start = Clock::now();
  const bool is_here = strategy_.body().servers() == nullptr;
  if (is_here && count_ % kEvery == kEvery / 2 && begin_profile()) {
    look(rows, step);
  } else {
    step();
  }
  steps_ += std::chrono::duration<double>(Clock::now() - start).count();
  ++count_;
  samples_ += rows;
}

void StepSummary::look(int64_t rows, const std::function<void()>& step) {
  try {
    step();
  } catch (...) {
    profile::stop();
    throw;
  }
  const profile::Recorded recorded = profile::finish();
  profile::Summary summary = recorded.summary;
  for (const profile::IdleTime& time : recorded.idle) idle_[time.row][time.why] += time.seconds;
  looked_into_ += summary.wall;
  ++looked_;
  const distribute::ReplicaSpan span = strategy_.body().span();
  replicas_.resize(static_cast<size_t>(span.count));
  summary.replicas.resize(replicas_.size());
  for (size_t r = 0; r < replicas_.size(); ++r) {
    replicas_[r].compute += summary.replicas[r].compute;
    replicas_[r].reduce += summary.replicas[r].reduce;
    replicas_[r].wait += summary.replicas[r].wait;
    replicas_[r].rows +=
        graph::shard_of(rows, span.shard_of(static_cast<int>(r)), span.shards()).rows;
  }
}

std::string StepSummary::str() const {
  if (count_ == 0) return {};
  std::string text = fmt::format("samples seen: {}\n", samples_);
  // Workers do their steps in the background.
  if (strategy_.body().servers() != nullptr) return text;
  Replica all;
  for (const Replica& replica : replicas_) {
    all.compute += replica.compute;
    all.reduce += replica.reduce;
    all.wait += replica.wait;
  }
  const double computing = steps_ / (input_ + steps_) * 100;
  const auto percent = [&](double part) {
    return all.total() > 0 ? computing * part / all.total() : 0;
  };
  text += fmt::format(
      "time per step: input {:.0f} %, compute {:.0f} %, reduce {:.0f} %, wait {:.0f} %\n",
      100 - computing, all.total() > 0 ? percent(all.compute) : computing, percent(all.reduce),
      percent(all.wait));
  // Micro-batches take turns on the same threads: none is slower than another.
  const bool are_apart =
      !strategy_.body().is_default() && strategy_.body().targets().pipeline == nullptr;
  return text + (replicas_.size() > 1 && are_apart ? slowest() : "") + idle_devices();
}

/// Queues for input and exchanges are beside the one that computes, and idle most of the time.
std::string StepSummary::idle_devices() const {
  std::string text;
  for (const auto& device : strategy_.body().devices()) {
    const auto found = idle_.find(device->name());
    if (found == idle_.end() || text.find(device->name() + " was") != std::string::npos) continue;
    double all = 0;
    for (const auto& [why, seconds] : found->second) all += seconds;
    const auto most = std::ranges::max_element(found->second, {},
                                               [](const auto& reason) { return reason.second; });
    text += fmt::format("  {} was idle {:.0f} % of a step, {:.0f} % of that {}\n", device->name(),
                        100 * all / looked_into_, 100 * most->second / all, most->first);
  }
  return text;
}

std::string StepSummary::slowest() const {
  const auto& devices = strategy_.body().devices();
  const auto each = [&](double seconds) { return seconds / static_cast<double>(looked_) * 1e6; };
  std::string text;
  for (size_t r = 0; r < replicas_.size(); ++r) {
    const Replica& replica = replicas_[r];
    text += fmt::format("  replica {} on {}: compute {:.0f} us, reduce {:.0f} us, wait {:.0f} us\n",
                        r, devices[r]->name(), each(replica.compute), each(replica.reduce),
                        each(replica.wait));
  }
  const auto [least, most] = std::ranges::minmax_element(replicas_, {}, &Replica::compute);
  const auto slow = static_cast<size_t>(most - replicas_.begin());
  const auto fast = static_cast<size_t>(least - replicas_.begin());
  const double more = least->compute > 0 ? 100 * (most->compute / least->compute - 1) : 0;
  std::string why = "with the same rows and threads: its core is slower or shared with others";
  if (most->rows > least->rows) {
    why = fmt::format("since it has {} rows for {}", most->rows / looked_, least->rows / looked_);
  } else if (devices[slow]->spec().type != devices[fast]->spec().type) {
    why = "since the devices are of other kinds";
  } else if (devices[slow]->threads() != devices[fast]->threads()) {
    why = fmt::format("since its device has {} threads for {}", devices[slow]->threads(),
                      devices[fast]->threads());
  }
  return text + fmt::format("  slowest: replica {}, {:.0f} % more compute than replica {}, {}\n",
                            slow, more, fast, why);
}

}  // namespace tandem::keras

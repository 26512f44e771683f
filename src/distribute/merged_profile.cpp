// One trace of all processes: each writes its rows by the chief's clock, and the chief joins them.
#include "distribute/merged_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

#include "distribute/strategy_body.h"
#include "profile/session.h"
#include "tandem/distribute/distributed_profile.h"
#include "tandem/error.h"

namespace tandem::distribute {
namespace {

constexpr int kRounds = 20;  // Clocks are compared by so many exchanges.

std::vector<ExchangeTimes> own_times(const WorkerGroup& workers) {
  std::vector<ExchangeTimes> times;
  for (int i = 0; i < kRounds; ++i) {
    const int64_t begin = profile::now_ns();
    workers.all_of(0, "clocks");
    times.push_back({begin, profile::now_ns()});
  }
  return times;
}

/// "<when the profile began> <begin> <end> <begin> <end> .."
std::string text_of(int64_t profile_begin, const std::vector<ExchangeTimes>& times) {
  std::string text = std::to_string(profile_begin);
  for (const ExchangeTimes& time : times) text += fmt::format(" {} {}", time.begin, time.end);
  return text;
}

struct ProcessClock {
  int64_t profile_begin = 0;
  std::vector<ExchangeTimes> times;
};

ProcessClock parse_clock(const std::string& text, const std::string& who) {
  ProcessClock clock;
  std::istringstream in(text);
  in >> clock.profile_begin;
  for (ExchangeTimes time; in >> time.begin >> time.end;) clock.times.push_back(time);
  if (clock.times.size() == kRounds) return clock;
  throw DataLoss(fmt::format("profile: {} says '{}' of its clock", who, text));
}

/// When the chief's profile began, by this process's clock.
int64_t begin_of_chief(const WorkerGroup& workers, int64_t own_begin) {
  const std::vector<ExchangeTimes> own = own_times(workers);
  const std::vector<std::string> all =
      workers.group().gather_texts("clocks", text_of(own_begin, own));
  const ProcessClock chief = parse_clock(all[0], workers.group().describe(0));
  return chief.profile_begin + clock_offset(chief.times, own);
}

Tensor bytes_of(const std::string& text) {
  return Tensor::copy_of(text.data(), DType::uint8, {static_cast<int64_t>(text.size())});
}

}  // namespace

int64_t clock_offset(const std::vector<ExchangeTimes>& first,
                     const std::vector<ExchangeTimes>& other) {
  int64_t least = std::numeric_limits<int64_t>::min();
  int64_t most = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < std::min(first.size(), other.size()); ++i) {
    least = std::max(least, other[i].begin - first[i].end);
    most = std::min(most, other[i].end - first[i].begin);
  }
  return least + (most - least) / 2;
}

profile::Summary stop_profile(const Strategy& strategy, const std::string& path) {
  const WorkerGroup* workers = strategy.body().workers();
  if (workers == nullptr) return profile::stop(path);
  const profile::Recorded recorded = profile::finish();
  const std::string own =
      profile::trace_events(recorded.rows, begin_of_chief(*workers, recorded.begin_ns),
                            workers->rank() + 1, workers->group().describe(workers->rank()));
  const Tensors all = workers->gather(bytes_of(own), 0, "profiles");
  if (!strategy.is_chief() || path.empty()) return recorded.summary;
  std::vector<std::string> events;
  for (const Tensor& text : all) {
    const auto bytes = text.to_vector<uint8_t>();
    events.emplace_back(bytes.begin(), bytes.end());
  }
  profile::write_trace(path, events);
  return recorded.summary;
}

}  // namespace tandem::distribute

// TrainState: a checkpoint of what the caller names and, beside it, of all that decides how
// training goes on: step, epoch, random numbers, the table of providers.
#include "tandem/checkpoint/train_state.h"

#include <fmt/format.h>

#include <sstream>

#include "runtime/random_calls.h"
#include "tandem/error.h"
#include "tandem/log.h"
#include "tandem/providers.h"

namespace tandem::train {
namespace {

std::string describe(const runtime::RandomState& state) {
  return fmt::format("calls {} seed {} process_seed {} initial_calls {}", state.calls,
                     state.seed ? std::to_string(*state.seed) : "none", state.process_seed,
                     state.initial_calls);
}

runtime::RandomState parse(const std::string& written) {
  // Initial values had no sequence of their own in the first files.
  const bool is_first_form = written.find("initial_calls") == std::string::npos;
  const std::string text = is_first_form ? written + " initial_calls 0" : written;
  runtime::RandomState state;
  std::string calls_word;
  std::string seed_word;
  std::string process_word;
  std::string initial_word;
  std::string seed;
  std::istringstream in(text);
  in >> calls_word >> state.calls >> seed_word >> seed >> process_word >> state.process_seed >>
      initial_word >> state.initial_calls;
  if (seed != "none") {
    uint64_t number = 0;
    std::istringstream(seed) >> number;
    state.seed = number;
  }
  if (!in || describe(state) != text) {
    throw DataLoss(fmt::format(
        "random state: '{}' is not 'calls N seed N process_seed N initial_calls N'", written));
  }
  return state;
}

Trackable number(const std::shared_ptr<void>& owner, int64_t& value) {
  return HostState<int64_t>{.save = [owner, &value] { return value; },
                            .restore = [owner, &value](int64_t saved) { value = saved; }};
}

Trackable provider_table() {
  return HostState<int64_t>{
      .save = [] { return static_cast<int64_t>(providers::table_hash()); },
      .restore =
          [](int64_t saved) {
            const auto now = static_cast<int64_t>(providers::table_hash());
            if (saved == now) return;
            const auto name = [](int64_t hash) {
              return hash == 0 ? std::string("the static provider table")
                               : fmt::format("provider table {:016x}", hash);
            };
            logging::write(logging::Level::warning,
                           fmt::format("train state: it was saved under {}, this process uses {}; "
                                       "results will differ in their last bits",
                                       name(saved), name(now)));
          }};
}

}  // namespace

Trackable random_state() {
  return HostState<std::string>{
      .save = [] { return describe(runtime::random_state()); },
      .restore = [](const std::string& text) { runtime::set_random_state(parse(text)); }};
}

TrainState::TrainState(const NamedTrackables& parts) {
  for (const auto& [name, part] : parts) track(name, part);
  track("step", number(counters_, counters_->step));
  track("epoch", number(counters_, counters_->epoch));
  track("random", random_state());
  track("providers", provider_table(), {.optional = true});
}

}  // namespace tandem::train

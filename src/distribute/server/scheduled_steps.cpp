#include "distribute/server/scheduled_steps.h"

#include <fmt/format.h>

#include <algorithm>

#include "distribute/server/result_message.h"
#include "distribute/server/server_cluster.h"

namespace tandem::distribute {
namespace {

/// The results of so many steps are remembered for those who want them, whoever else does.
constexpr int64_t kRememberedSteps = 4096;

}  // namespace

std::shared_ptr<StepOutcome> ScheduledSteps::add(const op::RandomRun& random, int64_t kept) {
  auto outcome = std::make_shared<StepOutcome>();
  outcome->results.resize(static_cast<size_t>(shares_));
  steps_[added_++] = {random, outcome, outcome, {}};
  const int64_t oldest = added_ - kRememberedSteps;
  const auto old = steps_.find(oldest - 1);
  if (old != steps_.end() && old->second.recent && old->second.recent->is_done) {
    old->second.recent.reset();
  }
  while (!steps_.empty() && steps_.begin()->first < std::min(oldest, kept) &&
         steps_.begin()->second.outcome.expired()) {
    steps_.erase(steps_.begin());
  }
  return outcome;
}

void ScheduledSteps::finish(const WorkTicket& ticket, Tensors results) {
  const auto step = steps_.find(ticket.step());
  if (step == steps_.end()) return;
  Step& known = step->second;
  if (!known.done.insert(ticket.share).second) return;
  const auto outcome = known.outcome.lock();
  if (!outcome) return;
  outcome->results[static_cast<size_t>(ticket.share)] = std::move(results);
  outcome->is_done = static_cast<int>(known.done.size()) == shares_;
}

std::string ScheduledSteps::answer_of(int64_t step) const {
  if (step >= added_) return plain_answer(ServerAnswer::ask_again);
  const auto known = steps_.find(step);
  const auto outcome = known == steps_.end() ? nullptr : known->second.outcome.lock();
  if (!outcome) {
    return plain_answer(ServerAnswer::refused,
                        fmt::format("the results of step {} are forgotten: the chief holds them no "
                                    "longer, and has scheduled more than {} steps since",
                                    step, kRememberedSteps));
  }
  if (!outcome->is_done) return plain_answer(ServerAnswer::ask_again);
  MessageWriter answer;
  answer.add(ServerAnswer::accepted);
  for (const Tensors& share : outcome->results) append_tensors(answer, share);
  return answer.take();
}

}  // namespace tandem::distribute

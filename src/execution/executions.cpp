#include "execution/executions.h"

#include "core/fork.h"
#include "tandem/error.h"

namespace tandem::graph {
namespace {

/// Each has an arena of its own. More threads than cores gain nothing by it, but those that wait
/// for their turn on a core should not hold up others.
size_t most_executions() { return 2 * static_cast<size_t>(core::available_cores()); }

}  // namespace

Executions::Executions(std::shared_ptr<const Program> program, ReplicasPtr replicas, Calls calls)
    : program_(std::move(program)),
      replicas_(std::move(replicas)),
      plans_(std::make_shared<Plans>()),
      all_{create()},
      most_(calls == Calls::side_by_side && all_[0]->runs_beside_others() ? most_executions() : 1) {
}

std::shared_ptr<Execution> Executions::create() const {
  return std::make_shared<Execution>(program_, replicas_, plans_);
}

std::shared_ptr<Execution> Executions::first() const {
  const std::lock_guard lock(mutex_);
  return all_[0];
}

Results Executions::run(const std::string& function, const RunArguments& arguments) {
  Results results = take(function);
  try {
    results.execution().run(arguments);
  } catch (const DeadlineExceeded&) {
    give_up(results.execution());
    throw;
  }
  return results;
}

std::string Executions::explain(const std::string& function) {
  const Results last = take_first(function);
  return last.execution().explain();
}

/// An execution that no other thread uses, a new one if there may be more.
Results Executions::take(const std::string& function) {
  core::check_not_forked();
  Results free = take_free();
  return free.is_empty() ? take_first(function) : std::move(free);
}

Results Executions::take_free() {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < most_; ++i) {
    if (i == all_.size()) all_.push_back(create());
    std::unique_lock held = all_[i]->try_lock();
    if (held) return {all_[i], std::move(held)};
  }
  return {};
}

Results Executions::take_first(const std::string& function) {
  for (;;) {
    std::shared_ptr<Execution> execution = first();
    std::unique_lock held = execution->lock(function);
    if (!execution->is_given_up()) return {std::move(execution), std::move(held)};
  }
}

/// A thread may be stuck in `execution`: another one takes its place.
void Executions::give_up(const Execution& execution) {
  const std::lock_guard lock(mutex_);
  for (auto& own : all_) {
    if (own.get() != &execution) continue;
    own->give_up();
    own = create();
    own->repair_first();
  }
}

}  // namespace tandem::graph

#include "execution/executions.h"

#include "core/fork.h"

namespace tandem::graph {
namespace {

/// Each has an arena of its own. More threads than cores gain nothing by it, but those that wait
/// for their turn on a core should not hold up others.
size_t most_executions() { return 2 * static_cast<size_t>(core::available_cores()); }

}  // namespace

Executions::Executions(std::shared_ptr<const Program> program, ReplicasPtr replicas)
    : program_(std::move(program)),
      replicas_(std::move(replicas)),
      plans_(std::make_shared<Plans>()),
      all_{create()} {}

std::shared_ptr<Execution> Executions::create() const {
  return std::make_shared<Execution>(program_, replicas_, plans_);
}

std::shared_ptr<Execution> Executions::first() const {
  const std::lock_guard lock(mutex_);
  return all_[0];
}

Executions::Held Executions::take_free() {
  const std::lock_guard lock(mutex_);
  const size_t most = all_[0]->runs_beside_others() ? most_executions() : 1;
  for (size_t i = 0; i < most; ++i) {
    if (i == all_.size()) all_.push_back(create());
    std::unique_lock held = all_[i]->try_lock();
    if (held) return {all_[i], std::move(held)};
  }
  return {};
}

Executions::Held Executions::take(const std::string& function) {
  core::check_not_forked();
  Held free = take_free();
  return free.execution ? std::move(free) : take_first(function);
}

Executions::Held Executions::take_first(const std::string& function) {
  for (;;) {
    std::shared_ptr<Execution> execution = first();
    std::unique_lock held = execution->lock(function);
    if (!execution->is_given_up()) return {std::move(execution), std::move(held)};
  }
}

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

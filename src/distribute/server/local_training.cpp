#include "distribute/server/local_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/interruptible.h"
#include "core/named_error.h"
#include "distribute/server/server_cluster.h"
#include "distribute/strategy_devices.h"
#include "runtime/random_calls.h"
#include "tandem/cluster.h"
#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::distribute {
namespace {

using Clock = std::chrono::steady_clock;

/// Tickets that wait for a worker, for each worker: more would only hold batches in memory.
constexpr int64_t kWaiting = 2;

TicketTable::Time now() { return Clock::now().time_since_epoch(); }

}  // namespace

LocalTraining::LocalTraining(const Strategy::Body& body, const ParameterServerOptions& options)
    : TracedTraining(
          body, options,
          dealt(devices_for("ParameterServerStrategy", options.devices), options.workers)) {
  for (int w = 0; w < options.workers; ++w) {
    workers_.push_back(std::make_unique<ServerWorker>(strategy_, worker_options(w)));
  }
}

LocalTraining::~LocalTraining() { LocalTraining::close(); }

void LocalTraining::close() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

ServerWorker& LocalTraining::tracer() {
  join();  // The first worker must not be at work.
  return *workers_[0];
}

StepOutcomePtr LocalTraining::schedule(const FlatFunction& f, PerReplicas arguments,
                                       const BatchNumber&) {
  check_open(ends_);
  ServerStep& step = traced_step(f, arguments);
  step.check_trains();
  if (current_ != &step) enter(step);
  std::unique_lock lock(mutex_);
  const auto waiting = [&] { return static_cast<int64_t>(tasks_.size()) - at_work_ / shares_; };
  wait_until(lock, [&] { return error_ || waiting() < kWaiting * options_.workers; });
  if (error_) throw_error(lock);
  auto outcome = std::make_shared<StepOutcome>();
  outcome->results.resize(static_cast<size_t>(shares_));
  tasks_.emplace(scheduled_, Task{&step, std::move(arguments),
                                  runtime::next_random_run(step.random_calls()), outcome, shares_});
  tickets_->add(0, scheduled_++);
  is_open_ = true;
  changed_.notify_all();
  return outcome;
}

/// Servers for the variables that `step` changes take the place of those that are there.
void LocalTraining::enter(ServerStep& step) {
  join();
  for (const auto& server : servers_) former_.merge(server->statistics());
  serve(step);
  const std::lock_guard lock(mutex_);
  tickets_ = std::make_unique<TicketTable>(options_.staleness, shares_);
  scheduled_ = 0;
  for (int w = 0; w < options_.workers; ++w) tickets_->join(w, 1, now());
  current_ = &step;
  start_threads();
}

void LocalTraining::serve(ServerStep& step) {
  links_.clear();
  servers_ = servers_for(step);
  for (int w = 0; w < options_.workers; ++w) {
    ServerLinks& links = links_.emplace_back();
    for (const auto& server : servers_) links.push_back(std::make_unique<DirectLink>(*server));
  }
}

void LocalTraining::start_threads() {
  if (!threads_.empty()) return;
  for (int w = 0; w < options_.workers; ++w) threads_.emplace_back([this, w] { work(w); });
}

void LocalTraining::work(int worker) {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    const std::optional<WorkTicket> ticket = error_ ? std::nullopt : tickets_->take(worker);
    if (!ticket) {
      changed_.wait(lock);
      continue;
    }
    Task& task = tasks_.at(ticket->batch);
    ++at_work_;
    lock.unlock();
    do_ticket(worker, *ticket, task);
    lock.lock();
    --at_work_;
    tickets_->heard_of(worker, now());
    if (!error_) {
      tickets_->finish(worker, *ticket);
      if (--task.open_shares == 0) {
        task.outcome->is_done = true;
        tasks_.erase(ticket->batch);
      }
    }
    changed_.notify_all();
  }
}

void LocalTraining::do_ticket(int worker, const WorkTicket& ticket, Task& task) {
  try {
    const auto w = static_cast<size_t>(worker);
    std::optional<Tensors> results = workers_[w]->run(*task.step, links_[w], task.arguments, ticket,
                                                      task.random, options_.before_step);
    // Nothing where another worker has failed.
    if (results) task.outcome->results[static_cast<size_t>(ticket.share)] = std::move(*results);
  } catch (...) {
    const std::exception_ptr named = core::named_error(fmt::format("worker {}", worker));
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = named;
    // Nobody waits for it in the middle of a step.
    servers_[0]->meeting().clear(std::numeric_limits<int64_t>::max());
  }
}

/// Waits as long as something moves: steps end, or `ready` holds.
void LocalTraining::wait_until(std::unique_lock<std::mutex>& lock,
                               const std::function<bool()>& ready) {
  const auto deadline = config::wait_deadline();
  while (!ready()) {
    const auto moves = [&](core::Clock::time_point until) {
      return changed_.wait_until(lock, until) == std::cv_status::no_timeout || ready();
    };
    if (core::wait_interruptibly(core::Clock::now() + deadline, moves)) continue;
    throw DeadlineExceeded(
        fmt::format("ParameterServerStrategy: no step has ended for {} s; under way:\n{}",
                    std::chrono::duration<double>(deadline).count(), tickets_->held(now())));
  }
}

/// Forgets what was not done, and throws what a worker threw.
void LocalTraining::throw_error(std::unique_lock<std::mutex>& lock) {
  wait_until(lock, [this] { return is_idle(); });
  for (auto& [batch, task] : tasks_) task.outcome->is_lost = true;
  tasks_.clear();
  current_ = nullptr;
  std::rethrow_exception(std::exchange(error_, nullptr));
}

bool LocalTraining::is_done() const {
  const std::lock_guard lock(mutex_);
  return tasks_.empty();
}

/// Servers change the variables of this process; what reads them waits until they do not.
void LocalTraining::bring_variables() {
  if (is_open_) join();
}

void LocalTraining::join() {
  is_open_ = false;
  std::unique_lock lock(mutex_);
  wait_until(lock, [this] { return error_ || (tasks_.empty() && is_idle()); });
  if (error_) throw_error(lock);
  std::vector<RangeServer::NormPart> parts;
  std::vector<const std::vector<RangePiece>*> pieces;
  for (const auto& server : servers_) {
    if (!server->clips()) continue;
    parts.push_back(server->norm_part(scheduled_));
    pieces.push_back(&server->pieces());
  }
  const RangeServer::Squares squares =
      parts.empty() ? RangeServer::Squares() : servers_[0]->joined(parts, pieces);
  for (const auto& server : servers_) server->commit(scheduled_, squares);
}

const std::vector<Tensors>& LocalTraining::results_of(const StepOutcome& outcome) {
  std::unique_lock lock(mutex_);
  wait_until(lock, [&] { return error_ || outcome.is_done || outcome.is_lost; });
  if (outcome.is_done) return outcome.results;
  if (error_) throw_error(lock);
  throw Aborted("fetch: the step was not done, since another one failed before it");
}

void LocalTraining::read_quietly(const std::function<void()>& read) {
  std::vector<std::unique_lock<std::mutex>> locks;
  for (const auto& server : servers_) locks.push_back(server->lock());
  read();
}

StalenessStatistics LocalTraining::statistics() const {
  StalenessStatistics all = former_;
  // Servers make the same updates; the first one's are counted.
  if (!servers_.empty()) all.merge(servers_[0]->statistics());
  return all;
}

std::string LocalTraining::explain() const {
  std::string text = explained(options_, "on threads of this process");
  for (size_t s = 0; s < servers_.size(); ++s) {
    text += explained(fmt::format("server {}", s), *servers_[s]);
  }
  return text;
}

}  // namespace tandem::distribute

#include "core/team.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>

#include "core/compute_scope.h"
#include "tandem/error.h"

namespace tandem::core {
namespace {

thread_local bool playing = false;

/// Thrown out of a barrier when another thread has failed; never leaves the team.
struct Cancelled {};

struct Barrier {
  int participants = 0;
  alignas(64) std::atomic<int> arrived{0};
  Signal opened;
};

/// Which members each host plays: dealt in turn, so that those of one squad are on different hosts.
std::vector<std::vector<Member>> deal_members(const std::vector<Squad>& squads) {
  int members = 0;
  int largest = 1;
  for (const Squad& squad : squads) {
    members += squad.threads;
    largest = std::max(largest, squad.threads);
  }
  const int hosts = std::max(largest, std::min(members, available_cores()));
  std::vector<std::vector<Member>> dealt(static_cast<size_t>(hosts));
  int global = 0;
  for (size_t s = 0; s < squads.size(); ++s) {
    for (int rank = 0; rank < squads[s].threads; ++rank, ++global) {
      dealt[static_cast<size_t>(global % hosts)].push_back(
          {static_cast<int>(s), rank, squads[s].threads, global});
    }
  }
  return dealt;
}

}  // namespace

/// Shared by the team and its threads: a stuck thread may outlive the team.
class TeamState {
 public:
  explicit TeamState(std::vector<Squad> squads_in) : squads(std::move(squads_in)) {
    int index = 0;
    for (auto& members : deal_members(squads)) {
      hosts.emplace_back(*this, index++, std::move(members));
    }
    team_barrier.participants = static_cast<int>(hosts.size());
    for (const Squad& squad : squads) squad_barriers.emplace_back().participants = squad.threads;
  }

  void run_on(Host& host, Job& job) {
    playing = true;
    try {
      job.play(host);
    } catch (const Cancelled&) {
    } catch (const Error& reason) {
      fail(squads.size() == 1 ? std::current_exception() : named(host, reason));
    } catch (const std::exception& reason) {
      fail(squads.size() == 1 ? std::current_exception() : named(host, Unavailable(reason.what())));
    } catch (...) {
      fail(std::current_exception());
    }
    playing = false;
    host.finished_.store(true, std::memory_order_release);
  }

  void begin(const std::shared_ptr<Job>& new_job, std::chrono::nanoseconds new_deadline) {
    job = new_job;
    deadline = new_deadline;
    for (Host& host : hosts) {
      host.finished_.store(false, std::memory_order_relaxed);
      host.activity_.store(nullptr, std::memory_order_relaxed);
    }
  }

  void arrive(Host& host, Barrier& barrier) {
    if (barrier.participants == 1) return;
    const uint32_t generation = barrier.opened.value();
    if (failed.load(std::memory_order_acquire)) throw Cancelled{};
    if (barrier.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == barrier.participants) {
      barrier.arrived.store(0, std::memory_order_relaxed);
      barrier.opened.advance();
      return;
    }
    host.waiting_.store(true, std::memory_order_relaxed);
    if (!barrier.opened.wait_past(generation, deadline)) expire();
    host.waiting_.store(false, std::memory_order_relaxed);
    if (failed.load(std::memory_order_acquire)) throw Cancelled{};
  }

  /// Keeps the first error and lets everybody out of the barriers.
  void fail(std::exception_ptr reason) {
    {
      std::lock_guard lock(error_mutex);
      if (!error) error = std::move(reason);
    }
    failed.store(true, std::memory_order_release);
    team_barrier.opened.advance();
    for (Barrier& barrier : squad_barriers) barrier.opened.advance();
  }

  /// Somebody may still be at work: whatever went wrong before, that is what the caller must know.
  void expire() {
    expired = true;
    {
      std::lock_guard lock(error_mutex);
      error = expiry_after(error);
    }
    fail(nullptr);
  }

  std::exception_ptr expiry_after(const std::exception_ptr& first) const {
    std::string reason;
    try {
      if (first) std::rethrow_exception(first);
    } catch (const DeadlineExceeded&) {
      return first;
    } catch (const std::exception& error) {
      reason = fmt::format("{}; then ", error.what());
    }
    return std::make_exception_ptr(DeadlineExceeded(reason.append(absentees())));
  }

  /// "replica 1 on /device:CPU:1 (last seen in matmul) did not arrive within 0.5 s"
  std::string absentees() const {
    std::string who;
    for (const Host& host : hosts) {
      if (host.waiting_.load() || host.finished_.load()) continue;
      const char* activity = host.activity_.load();
      fmt::format_to(std::back_inserter(who), "{}{} (last seen in {})", who.empty() ? "" : " and ",
                     squads[static_cast<size_t>(host.squad_.load())].name,
                     activity ? activity : "nothing yet");
    }
    const double seconds = std::chrono::duration<double>(deadline).count();
    return fmt::format("{} did not arrive within {:.3g} s", who.empty() ? "a thread" : who,
                       seconds);
  }

  void reset_after_failure() {
    failed = false;
    expired = false;
    error = nullptr;
    job.reset();
    team_barrier.arrived = 0;
    for (Barrier& barrier : squad_barriers) barrier.arrived = 0;
  }

  const std::vector<Squad> squads;
  std::deque<Host> hosts;

  std::shared_ptr<Job> job;
  std::chrono::nanoseconds deadline{0};
  Signal started;
  std::atomic<int> unfinished{0};
  Signal finished;
  std::atomic<bool> leaving{false};
  std::atomic<bool> broken{false};

  Barrier team_barrier;
  std::deque<Barrier> squad_barriers;

  std::atomic<bool> failed{false};
  std::atomic<bool> expired{false};
  std::mutex error_mutex;
  std::exception_ptr error;

 private:
  std::exception_ptr named(const Host& host, const Error& reason) const {
    std::exception_ptr result;
    try {
      reason.rethrow_within(squads[static_cast<size_t>(host.squad_.load())].name);
    } catch (...) {
      result = std::current_exception();
    }
    return result;
  }
};

Host::Host(TeamState& state, int index, std::vector<Member> members)
    : state_(state), index_(index), members_(std::move(members)), squad_(members_[0].squad) {}

int Host::hosts() const { return static_cast<int>(state_.hosts.size()); }

void Host::squad_barrier(const Member& member) {
  state_.arrive(*this, state_.squad_barriers[static_cast<size_t>(member.squad)]);
}

void Host::leave_if_failed() const {
  if (state_.failed.load(std::memory_order_acquire)) throw Cancelled{};
}

void Host::team_barrier() { state_.arrive(*this, state_.team_barrier); }

namespace {

/// The life of a worker thread. A parked worker waits for ever: nobody needs it until started
/// advances.
void serve(const std::shared_ptr<TeamState>& state, Host& host) {
  ComputeScope computing;
  for (uint32_t seen = 0;; ++seen) {
    while (!state->started.wait_past(seen, std::chrono::hours(1))) {
    }
    if (state->leaving) return;
    state->run_on(host, *state->job);  // Kept by the state, for good if this thread is stuck in it.
    if (state->broken) return;
    if (state->unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1) state->finished.advance();
  }
}

}  // namespace

Team::Team(std::vector<Squad> squads) : state_(std::make_shared<TeamState>(std::move(squads))) {
  try {
    for (size_t i = 1; i < state_->hosts.size(); ++i) {
      threads_.emplace_back([state = state_, i] { serve(state, state->hosts[i]); });
    }
  } catch (const std::system_error& error) {
    const size_t made = threads_.size();
    dismiss();
    throw ResourceExhausted(
        fmt::format("a team of {} threads: the system gave {} and refused the next, {}; use fewer "
                    "threads, or raise the limit",
                    state_->hosts.size(), made + 1, error.what()));
  }
}

Team::~Team() { dismiss(); }

void Team::dismiss() {
  state_->leaving = true;
  state_->started.advance();
  for (std::thread& thread : threads_) broken() ? thread.detach() : thread.join();
}

void Team::run(const std::shared_ptr<Job>& job, std::chrono::nanoseconds deadline) {
  TeamState& state = *state_;
  const int workers = static_cast<int>(state.hosts.size()) - 1;
  const AtWork at_work(workers + 1);
  const ComputeScope computing;

  state.begin(job, deadline);
  const uint32_t finished = state.finished.value();
  if (workers > 0) {
    state.unfinished.store(workers, std::memory_order_relaxed);
    state.started.advance();
  }
  state.run_on(state.hosts[0], *job);
  // Once a deadline has passed within the job, those still missing get no second one.
  const auto patience = state.expired ? std::chrono::nanoseconds(0) : deadline;
  if (workers > 0 && !state.finished.wait_past(finished, patience)) {
    state.broken = true;
    state.expire();
  }
  if (state.failed) {
    std::exception_ptr error;
    {
      std::lock_guard lock(state.error_mutex);
      error = state.error;
    }
    if (!state.broken) state.reset_after_failure();
    std::rethrow_exception(error);
  }
  state.job.reset();
}

bool Team::broken() const { return state_->broken; }
bool Team::awake() const { return !threads_.empty() && !state_->started.has_parked(); }
bool Team::is_playing() { return playing; }

}  // namespace tandem::core

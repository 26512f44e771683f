#include "core/team.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>

#include "core/compute_scope.h"
#include "core/dealing.h"
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

/// Which host plays which members.
struct Deal {
  std::vector<std::vector<Lot>> lots;  // The lots of each host.
  std::vector<int> squad_hosts;        // The number of hosts that play members of each squad.
};

/// Members are dealt in turn, so that those of one squad are on different hosts if they can be.
Deal deal_members(const std::vector<Squad>& squads, int hosts) {
  Deal deal{std::vector<std::vector<Lot>>(static_cast<size_t>(hosts)), {}};
  int before = 0;  // Members of the squads before this one.
  for (size_t s = 0; s < squads.size(); ++s) {
    const int size = squads[s].threads;
    for (int first = 0; first < std::min(size, hosts); ++first) {
      const int global = before + first;
      deal.lots[static_cast<size_t>(global % hosts)].push_back(
          {.squad = static_cast<int>(s),
           .size = size,
           .rank = first,
           .global = global,
           .stride = hosts,
           .count = (size - first + hosts - 1) / hosts});
    }
    deal.squad_hosts.push_back(std::min(size, hosts));
    before += size;
  }
  return deal;
}

int members_of(const std::vector<Squad>& squads) {
  int members = 0;
  for (const Squad& squad : squads) members += squad.threads;
  return members;
}

std::chrono::nanoseconds thread_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

/// What the team and its threads share: a stuck thread may outlive the team.
class TeamState {
 public:
  TeamState(std::vector<Squad> squads_in, int most_hosts)
      : squads(std::move(squads_in)),
        levels(Dealing::halvings(std::min({members_of(squads), available_cores(), most_hosts}))),
        dealing(levels) {
    for (int count : levels) deals.push_back(deal_members(squads, count));
    for (int i = 0; i < levels[0]; ++i) hosts.emplace_back(*this, i);
    for (size_t level = 0; level + 1 < levels.size(); ++level) started.emplace_back();
    for (size_t s = 0; s < squads.size(); ++s) squad_barriers.emplace_back();
  }

  /// A host waits for the signal of the last level that it plays in.
  size_t last_level(int host) const {
    size_t level = 0;
    while (levels[level + 1] > host) ++level;
    return level;
  }

  void run_on(Host& host, Job& job) {
    playing = true;
    const auto before = choice.measure ? thread_time() : std::chrono::nanoseconds(0);
    play(host, job);
    if (choice.measure) host.work_ = thread_time() - before - host.spun_;
    playing = false;
    host.finished_.store(true, std::memory_order_release);
  }

  /// Sets a job up before the other hosts are started. All of them are out of the last job.
  void begin(const std::shared_ptr<Job>& new_job, std::chrono::nanoseconds new_deadline) {
    job = new_job;
    deadline = new_deadline;
    deal = &deals[choice.level];
    team_barrier.participants = levels[choice.level];
    for (size_t s = 0; s < squads.size(); ++s) {
      squad_barriers[s].participants = deal->squad_hosts[s];
    }
    for (int i = 0; i < levels[choice.level]; ++i) {
      Host& host = hosts[static_cast<size_t>(i)];
      host.finished_.store(false, std::memory_order_relaxed);
      host.activity_.store(nullptr, std::memory_order_relaxed);
      host.playing(deal->lots[static_cast<size_t>(i)][0]);
      host.spun_ = {};
    }
  }

  void start_others() {
    unfinished.store(levels[choice.level] - 1, std::memory_order_relaxed);
    for (size_t level = choice.level; level < started.size(); ++level) started[level].advance();
  }

  /// The hosts' time at work, all together.
  std::chrono::nanoseconds work() const {
    std::chrono::nanoseconds sum{0};
    for (int i = 0; i < levels[choice.level]; ++i) {
      sum += std::max(hosts[static_cast<size_t>(i)].work_, std::chrono::nanoseconds(0));
    }
    return sum;
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
    const auto start = choice.measure ? Clock::now() : Clock::time_point();
    if (!barrier.opened.wait_past(generation, deadline)) expire();
    // A host that has waited longer than kSpinTime has parked, which takes no time of the core.
    if (choice.measure && AtWork::cores_suffice()) {
      host.spun_ += std::min<std::chrono::nanoseconds>(Clock::now() - start, kSpinTime);
    }
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
  const std::vector<int> levels;  // Numbers of hosts to choose from, falling to one.
  std::vector<Deal> deals;        // The deal of each level.
  std::deque<Host> hosts;
  Dealing dealing;

  // The job that is played, and how.
  std::shared_ptr<Job> job;
  std::chrono::nanoseconds deadline{0};
  Dealing::Choice choice;
  const Deal* deal = nullptr;

  // For each level, the signal to the hosts that play in it and not in the next.
  std::deque<Signal> started;
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
  void play(Host& host, Job& job) {
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
  }

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

int Host::hosts() const { return state_.levels[state_.choice.level]; }

const std::vector<Lot>& Host::lots() const {
  return state_.deal->lots[static_cast<size_t>(index_)];
}

void Host::squad_barrier(const Lot& lot) {
  state_.arrive(*this, state_.squad_barriers[static_cast<size_t>(lot.squad)]);
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
  const Signal& started = state->started[state->last_level(host.index())];
  for (uint32_t seen = 0;; ++seen) {
    while (!started.wait_past(seen, std::chrono::hours(1))) {
    }
    if (state->leaving) return;
    state->run_on(host, *state->job);  // Kept by the state, for good if this thread is stuck in it.
    if (state->broken) return;
    if (state->unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1) state->finished.advance();
  }
}

}  // namespace

Team::Team(std::vector<Squad> squads, int most_hosts)
    : state_(std::make_shared<TeamState>(std::move(squads), most_hosts)) {
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
  for (Signal& started : state_->started) started.advance();
  for (std::thread& thread : threads_) broken() ? thread.detach() : thread.join();
}

void Team::run(const std::shared_ptr<Job>& job, std::chrono::nanoseconds deadline) {
  TeamState& state = *state_;
  const bool has_choice = !threads_.empty() && !job->may_wait();
  const auto start = has_choice ? Clock::now() : Clock::time_point();
  state.choice = has_choice ? state.dealing.next(start) : Dealing::Choice();
  state.begin(job, deadline);
  const int others = state.levels[state.choice.level] - 1;
  const AtWork at_work(others + 1);
  const ComputeScope computing;

  const uint32_t finished = state.finished.value();
  if (others > 0) state.start_others();
  state.run_on(state.hosts[0], *job);
  // Once a deadline has passed within the job, those still missing get no second one.
  const auto patience = state.expired ? std::chrono::nanoseconds(0) : deadline;
  if (others > 0 && !state.finished.wait_past(finished, patience)) {
    state.broken = true;
    state.expire();
  }
  if (state.failed) throw_failure();
  if (state.choice.measure) {
    const auto end = Clock::now();
    state.dealing.add(end - start, state.work(), end);
  }
  state.job.reset();
}

void Team::throw_failure() {
  std::exception_ptr error;
  {
    std::lock_guard lock(state_->error_mutex);
    error = state_->error;
  }
  if (!state_->broken) state_->reset_after_failure();
  std::rethrow_exception(error);
}

bool Team::broken() const { return state_->broken; }
bool Team::is_playing() { return playing; }

bool Team::awake() const {
  const auto& started = state_->started;
  const size_t level = state_->choice.level;
  return level < started.size() &&
         std::none_of(started.begin() + static_cast<ptrdiff_t>(level), started.end(),
                      [](const Signal& signal) { return signal.has_parked(); });
}

}  // namespace tandem::core

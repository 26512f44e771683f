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
#include "core/interruptible.h"
#include "tandem/error.h"
#include "tandem/foreign_exception.h"

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

/// Which thread plays which members.
struct Deal {
  std::vector<std::vector<Members>> members;  // The members of each thread.
  std::vector<int> subteam_threads;  // The number of threads that play members of each subteam.
};

/// Members are dealt in turn, so that those of one subteam are on different threads if they can be.
Deal deal_members(const std::vector<Subteam>& subteams, int threads) {
  Deal deal{std::vector<std::vector<Members>>(static_cast<size_t>(threads)), {}};
  int before = 0;  // Members of the subteams before this one.
  for (size_t s = 0; s < subteams.size(); ++s) {
    const int size = subteams[s].members;
    for (int first = 0; first < std::min(size, threads); ++first) {
      const int global = before + first;
      deal.members[static_cast<size_t>(global % threads)].push_back(
          {.subteam = static_cast<int>(s),
           .size = size,
           .rank = first,
           .global = global,
           .stride = threads,
           .count = (size - first + threads - 1) / threads});
    }
    deal.subteam_threads.push_back(std::min(size, threads));
    before += size;
  }
  return deal;
}

int members_of(const std::vector<Subteam>& subteams) {
  int members = 0;
  for (const Subteam& subteam : subteams) members += subteam.members;
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
  TeamState(std::vector<Subteam> subteams_in, int most_threads)
      : subteams(std::move(subteams_in)),
        levels(
            Dealing::halvings(std::min({members_of(subteams), available_cores(), most_threads}))),
        dealing(levels) {
    for (int count : levels) deals.push_back(deal_members(subteams, count));
    for (int i = 0; i < levels[0]; ++i) threads.emplace_back(*this, i);
    for (size_t level = 0; level + 1 < levels.size(); ++level) started.emplace_back();
    for (size_t s = 0; s < subteams.size(); ++s) subteam_barriers.emplace_back();
  }

  /// A thread waits for the signal of the last level that it plays in.
  size_t last_level(int thread) const {
    size_t level = 0;
    while (levels[level + 1] > thread) ++level;
    return level;
  }

  void run_on(TeamThread& thread, Job& job) {
    playing = true;
    const auto before = choice.measure ? thread_time() : std::chrono::nanoseconds(0);
    play(thread, job);
    if (choice.measure) thread.work_ = thread_time() - before - thread.spun_;
    playing = false;
    thread.finished_.store(true, std::memory_order_release);
  }

  /// Sets a job up before the other threads are started. All of them are out of the last job.
  void begin(const std::shared_ptr<Job>& new_job, std::chrono::nanoseconds new_deadline) {
    job = new_job;
    deadline = new_deadline;
    deal = &deals[choice.level];
    team_barrier.participants = levels[choice.level];
    for (size_t s = 0; s < subteams.size(); ++s) {
      subteam_barriers[s].participants = deal->subteam_threads[s];
    }
    for (int i = 0; i < levels[choice.level]; ++i) {
      TeamThread& thread = threads[static_cast<size_t>(i)];
      thread.finished_.store(false, std::memory_order_relaxed);
      thread.activity_.store(nullptr, std::memory_order_relaxed);
      thread.playing(deal->members[static_cast<size_t>(i)][0]);
      thread.spun_ = {};
    }
  }

  void start_others() {
    unfinished.store(levels[choice.level] - 1, std::memory_order_relaxed);
    for (size_t level = choice.level; level < started.size(); ++level) started[level].advance();
  }

  /// The threads' time at work, all together.
  std::chrono::nanoseconds work() const {
    std::chrono::nanoseconds sum{0};
    for (int i = 0; i < levels[choice.level]; ++i) {
      sum += std::max(threads[static_cast<size_t>(i)].work_, std::chrono::nanoseconds(0));
    }
    return sum;
  }

  void arrive(TeamThread& thread, Barrier& barrier) {
    if (barrier.participants == 1) return;
    const uint32_t generation = barrier.opened.value();
    if (failed.load(std::memory_order_acquire)) throw Cancelled{};
    if (barrier.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == barrier.participants) {
      barrier.arrived.store(0, std::memory_order_relaxed);
      barrier.opened.advance();
      return;
    }
    thread.waiting_.store(true, std::memory_order_relaxed);
    const auto start = choice.measure ? Clock::now() : Clock::time_point();
    if (!barrier.opened.wait_past(generation, deadline)) expire();
    // A thread that has waited longer than kSpinTime has parked, which takes no time of the core.
    if (choice.measure && AtWork::cores_suffice()) {
      thread.spun_ += std::min<std::chrono::nanoseconds>(Clock::now() - start, kSpinTime);
    }
    thread.waiting_.store(false, std::memory_order_relaxed);
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
    for (Barrier& barrier : subteam_barriers) barrier.opened.advance();
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
    for (const TeamThread& thread : threads) {
      if (thread.waiting_.load() || thread.finished_.load()) continue;
      const char* activity = thread.activity_.load();
      fmt::format_to(std::back_inserter(who), "{}{} (last seen in {})", who.empty() ? "" : " and ",
                     subteams[static_cast<size_t>(thread.subteam_.load())].name,
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
    for (Barrier& barrier : subteam_barriers) barrier.arrived = 0;
  }

  const std::vector<Subteam> subteams;
  const std::vector<int> levels;  // Numbers of threads to choose from, falling to one.
  std::vector<Deal> deals;        // The deal of each level.
  std::deque<TeamThread> threads;
  Dealing dealing;

  // The job that is played, and how.
  std::shared_ptr<Job> job;
  std::chrono::nanoseconds deadline{0};
  Dealing::Choice choice;
  const Deal* deal = nullptr;

  // For each level, the signal to the threads that play in it and not in the next.
  std::deque<Signal> started;
  std::atomic<int> unfinished{0};
  Signal finished;
  std::atomic<bool> leaving{false};
  std::atomic<bool> broken{false};

  Barrier team_barrier;
  std::deque<Barrier> subteam_barriers;

  std::atomic<bool> failed{false};
  std::atomic<bool> expired{false};
  std::mutex error_mutex;
  std::exception_ptr error;

 private:
  void play(TeamThread& thread, Job& job) {
    try {
      job.play(thread);
    } catch (const Cancelled&) {
    } catch (const ForeignException&) {
      fail(std::current_exception());
    } catch (const Error& reason) {
      fail(subteams.size() == 1 ? std::current_exception() : named(thread, reason));
    } catch (const std::exception& reason) {
      fail(subteams.size() == 1 ? std::current_exception()
                                : named(thread, Unavailable(reason.what())));
    } catch (...) {
      fail(std::current_exception());
    }
  }

  std::exception_ptr named(const TeamThread& thread, const Error& reason) const {
    std::exception_ptr result;
    try {
      reason.rethrow_within(subteams[static_cast<size_t>(thread.subteam_.load())].name);
    } catch (...) {
      result = std::current_exception();
    }
    return result;
  }
};

int TeamThread::playing_threads() const { return state_.levels[state_.choice.level]; }

const std::vector<Members>& TeamThread::members() const {
  return state_.deal->members[static_cast<size_t>(index_)];
}

void TeamThread::subteam_barrier(const Members& members) {
  state_.arrive(*this, state_.subteam_barriers[static_cast<size_t>(members.subteam)]);
}

void TeamThread::leave_if_failed() const {
  if (state_.failed.load(std::memory_order_acquire)) throw Cancelled{};
}

void TeamThread::team_barrier() { state_.arrive(*this, state_.team_barrier); }

namespace {

/// The life of a worker thread. A parked worker waits for ever: nobody needs it until started
/// advances.
void serve(const std::shared_ptr<TeamState>& state, TeamThread& thread) {
  ComputeScope computing;
  leave_looking_to_others();
  const Signal& started = state->started[state->last_level(thread.index())];
  for (uint32_t seen = 0;; ++seen) {
    while (!started.wait_past(seen, std::chrono::hours(1))) {
    }
    if (state->leaving) return;
    state->run_on(thread,
                  *state->job);  // Kept by the state, for good if this thread is stuck in it.
    if (state->broken) return;
    if (state->unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1) state->finished.advance();
  }
}

}  // namespace

Team::Team(std::vector<Subteam> subteams, int most_threads)
    : state_(std::make_shared<TeamState>(std::move(subteams), most_threads)) {
  try {
    for (size_t i = 1; i < state_->threads.size(); ++i) {
      threads_.emplace_back([state = state_, i] { serve(state, state->threads[i]); });
    }
  } catch (const std::system_error& error) {
    const size_t made = threads_.size();
    dismiss();
    throw ResourceExhausted(
        fmt::format("a team of {} threads: the system gave {} and refused the next, {}; use fewer "
                    "threads, or raise the limit",
                    state_->threads.size(), made + 1, error.what()));
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
  state.run_on(state.threads[0], *job);
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

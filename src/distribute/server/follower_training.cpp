#include "distribute/server/follower_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "checkpoint/process_files.h"
#include "core/interruptible.h"
#include "core/named_error.h"
#include "distribute/server/result_message.h"
#include "distribute/strategy_body.h"
#include "runtime/random_calls.h"
#include "tandem/error.h"
#include "tandem/log.h"
#include "tensor/shared_stores.h"

namespace tandem::distribute {
namespace {

using namespace std::chrono_literals;

constexpr auto kBeatEvery = 500ms;
constexpr auto kServingEvery = 200ms;
constexpr auto kPause = 20ms;
/// A loop's batches that are done are kept, in case a server loses what came of them, up to so many
/// bytes.
constexpr size_t kMostBatchBytes = size_t{256} << 20;
/// How long a task waits for the chief when it starts.
constexpr auto kPatienceAtStart = 5min;

size_t bytes_of(const PerReplicas& arguments) {
  size_t bytes = 0;
  for (const PerReplica& argument : arguments) {
    if (argument.whole().defined()) bytes += argument.whole().body()->bytes();
    if (!argument.values()) continue;
    for (const Tensor& value : *argument.values()) bytes += value.body()->bytes();
  }
  return bytes;
}

/// How many sessions this program has had; strategies may follow one another.
int64_t next_session() {
  static std::atomic<int64_t> next{0};
  return next++;
}

}  // namespace

/// Tells the chief that this process lives, as long as this object does.
class FollowerTraining::Heart {
 public:
  Heart(PatientLine& chief, int64_t session)
      : chief_(chief), session_(session), thread_([this] { beat(); }) {}
  ~Heart() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  Heart(const Heart&) = delete;
  Heart& operator=(const Heart&) = delete;

 private:
  void beat() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kBeatEvery, [this] { return ends_; })) {
      lock.unlock();
      chief_.try_once(question_of(ServerQuestion::beat, session_).take(), kBeatEvery);
      lock.lock();
    }
  }

  PatientLine& chief_;
  const int64_t session_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread thread_;
};

FollowerTraining::FollowerTraining(const Strategy::Body& body,
                                   const ParameterServerOptions& options,
                                   const ServerCluster& cluster)
    : TaskTraining(body, options, cluster),
      worker_(strategy_,
              worker_options(cluster.is_server() ? 0 : cluster.config.task,
                             cluster.is_server() ? StepUse::trace : StepUse::run, incarnation_)),
      chief_(cluster, "chief", 0) {
  if (cluster_.is_server()) {
    task_ = std::make_shared<ServerTask>();
    host_ = std::make_unique<cluster::ServiceHost>(cluster_.own_address(), cluster_.service, task_);
  }
  take_part();
  checkpoint::set_follower(true);  // The chief writes checkpoints.
}

FollowerTraining::~FollowerTraining() { FollowerTraining::close(); }

void FollowerTraining::close() {
  if (std::exchange(is_closed_, true)) return;
  checkpoint::set_follower(false);
  leave_loop();
  host_.reset();
}

void FollowerTraining::meet() {
  bring_variables();
  leave_loop();
  take_part();
  is_met_ = true;
}

/// In the next session of the program.
void FollowerTraining::take_part() {
  session_ = next_session();
  has_ended_ = false;
  has_followed_ = false;
  done_.reset();
  taken_.reset();
  next_number_ = -1;
  const core::InterruptibleWaits interruptible;
  for (;;) {
    const cluster::ServiceText text =
        chief_.prompt_answer_to(question_of(ServerQuestion::meet, session_).take(),
                                session_ == 0 ? kPatienceAtStart : cluster_.patience);
    MessageReader reader(text.view());
    const auto kind = reader.read<ServerAnswer>();
    if (kind == ServerAnswer::accepted) return take_random_state(reader.read_text());
    if (kind == ServerAnswer::end) {
      has_ended_ = true;
      throw Aborted(fmt::format("the chief: {}", reader.read_text()));
    }
    interruption::look();
    std::this_thread::sleep_for(kPause);
  }
}

std::string FollowerTraining::follow(const FlatFunction& f, const BatchNumber& first,
                                     const BatchAt& batch_at) {
  is_met_ = false;
  has_followed_ = true;
  ServerStep* step = nullptr;
  try {
    if (const std::optional<PerReplicas> batch = batch_at(first)) {
      step = &traced_step(f, *batch);
      mirrors_ = servers_for(*step);
      facts_ = facts_of(*step, mirrors_);
    }
  } catch (...) {
    tell_failure();
    throw;
  }
  if (step == nullptr) return follow();
  return cluster_.is_server() ? serve() : work(*step, batch_at);
}

/// Waits for what the chief does alone.
std::string FollowerTraining::follow() {
  is_met_ = false;
  has_followed_ = true;
  mirrors_.clear();
  for (;;) {
    const cluster::ServiceText text =
        chief_.prompt_answer_to(question_of(ServerQuestion::follow, session_).take());
    MessageReader reader(text.view());
    if (reader.read<ServerAnswer>() == ServerAnswer::end) return take_end(reader);
    std::this_thread::sleep_for(kPause);
  }
}

std::string FollowerTraining::serve() {
  RangeServer& own = *mirrors_[static_cast<size_t>(cluster_.config.task)];
  for (const StoreRange& range : own.state()) hold_in_memory(range);
  const std::vector<uint64_t> sums = own.checksums();
  own.make_state();
  task_->open(own, session_, incarnation_);
  struct Closing {
    ServerTask& task;
    ~Closing() { task.close(); }
  };
  const Closing closing{*task_};
  for (;;) {
    MessageWriter question = question_of(ServerQuestion::serving, session_);
    question.add(incarnation_).add_text(facts_);
    question.add_list(task_->is_written() ? std::vector<uint64_t>() : sums);
    const cluster::ServiceText text = chief_.prompt_answer_to(question.take());
    MessageReader reader(text.view());
    const auto kind = reader.read<ServerAnswer>();
    if (kind == ServerAnswer::refused) throw FailedPrecondition(std::string(reader.read_text()));
    if (kind == ServerAnswer::end) {
      task_->close();
      return take_end(reader);
    }
    std::this_thread::sleep_for(kind == ServerAnswer::accepted ? kServingEvery : kPause);
  }
}

/// So that the chief knows this worker. It does not where the session is over.
void FollowerTraining::join_chief() {
  for (;;) {
    MessageWriter question = question_of(ServerQuestion::join, session_);
    const cluster::ServiceText text =
        chief_.prompt_answer_to(question.add(incarnation_).add_text(facts_).take());
    MessageReader reader(text.view());
    const auto kind = reader.read<ServerAnswer>();
    if (kind == ServerAnswer::accepted) {
      const auto chief = reader.read<uint64_t>();
      // What a former chief has asked for is nothing to this one.
      if (joined_.exchange(chief) != chief) {
        done_.reset();
        next_number_ = -1;
      }
      for (const auto& link : links_) static_cast<RemoteServer&>(*link).set_chief(chief);
      return;
    }
    if (kind == ServerAnswer::end) return;
    if (kind == ServerAnswer::refused) throw FailedPrecondition(std::string(reader.read_text()));
    std::this_thread::sleep_for(kPause);
  }
}

/// Tells what was done last, and takes the next ticket; none where the chief has none now, or where
/// `goal` steps are done.
FollowerTraining::TakeOutcome FollowerTraining::take(const ServerStep& step, int64_t goal) {
  for (;;) {
    MessageWriter question = question_of(ServerQuestion::take, session_);
    question.add(incarnation_).add(goal).add(step.reads_any_rows()).add(done_.has_value());
    if (done_) {
      question.add(done_->ticket).add(done_->is_made);
      append_tensors(question, done_->results);
    }
    const bool is_small = question.bytes().size() < kStatePart;  // Results may be large.
    PatientLine::Question asked = chief_.ask({question.take(), {}});
    const cluster::ServiceText text = is_small ? chief_.prompt_wait(asked) : chief_.wait(asked);
    MessageReader reader(text.view());
    switch (reader.read<ServerAnswer>()) {
      case ServerAnswer::accepted: {
        done_.reset();
        const auto ticket = reader.read<WorkTicket>();
        const auto random = reader.read<op::RandomRun>();
        const auto whole_steps = reader.read<int64_t>();
        taken_ = Taken{ticket, random, whole_steps, reader.read<int64_t>()};
        const bool is_old = reader.read<bool>();
        taken_->next = read_next(reader);
        // It has waited for others, or the chief has written something.
        if (is_old) {
          for (const auto& link : links_) link->forget_values();
        }
        return TakeOutcome::ticket;
      }
      case ServerAnswer::ask_again:
        done_.reset();
        return TakeOutcome::none;
      case ServerAnswer::join_again:
        join_chief();
        break;
      case ServerAnswer::refused:
        throw FailedPrecondition(std::string(reader.read_text()));
      case ServerAnswer::end:
        result_ = take_end(reader);
        return TakeOutcome::end;
    }
  }
}

ServerLinks FollowerTraining::make_links() const {
  ServerLinks links;
  for (int s = 0; s < cluster_.servers(); ++s) {
    links.push_back(std::make_unique<RemoteServer>(cluster_, s, *mirrors_[static_cast<size_t>(s)],
                                                   session_, options_.staleness == 0));
  }
  return links;
}

void FollowerTraining::begin_work(ServerStep& step, FindBatch find_beside) {
  links_ = make_links();
  heart_ = std::make_unique<Heart>(chief_, session_);
  join_chief();
  if (!step.meets()) return;
  beside_ = std::make_unique<SideWorkers>(
      step, SideWorkers::Process{.chief = chief_,
                                 .session = session_,
                                 .incarnation = incarnation_,
                                 .most = shares_ - 1,
                                 .make_worker =
                                     [this](int number) {
                                       ServerWorker::Options options = worker_options(
                                           cluster_.config.task, StepUse::run, incarnation_);
                                       options.team += number;
                                       return std::make_unique<ServerWorker>(strategy_, options);
                                     },
                                 .make_links = [this] { return make_links(); },
                                 .chief_of_tickets = [this] { return joined_.load(); },
                                 .find_batch = std::move(find_beside),
                                 .before_step = options_.before_step,
                                 .tell_failure = [this] { tell_failure(); }});
}

void FollowerTraining::end_work() {
  {
    const std::lock_guard lock(batches_mutex_);
    has_left_ = true;
    batches_changed_.notify_all();
  }
  beside_.reset();
  heart_.reset();
  has_left_ = false;
}

std::string FollowerTraining::work(ServerStep& step, const BatchAt& batch_at) {
  // Shares of a step that are done at the same time are of one batch.
  const FindBatch find = [&](const WorkTicket& ticket) -> std::optional<PerReplicas> {
    const std::lock_guard lock(batches_mutex_);
    const auto known = batches_.find(ticket.step());
    if (known != batches_.end()) return known->second;
    std::optional<PerReplicas> batch = batch_at({ticket.epoch, ticket.batch});
    batches_.clear();
    if (batch && step.meets()) batches_.emplace(ticket.step(), *batch);
    return batch;
  };
  try {
    begin_work(step, find);
    for (;;) {
      const TakeOutcome outcome = take(step, -1);
      if (outcome == TakeOutcome::end) break;
      if (outcome == TakeOutcome::none) {
        std::this_thread::sleep_for(kPause);
        continue;
      }
      do_ticket(step, find);
    }
  } catch (...) {
    tell_failure();
    end_work();
    batches_.clear();
    throw;
  }
  end_work();
  batches_.clear();
  return result_;
}

FollowerTraining::NextTicket FollowerTraining::read_next(MessageReader& reader) {
  if (!reader.read<bool>()) return std::nullopt;
  const auto ticket = reader.read<WorkTicket>();
  return std::pair{ticket, reader.read<op::RandomRun>()};
}

/// The batch of the ticket that it takes next; null where it does not have it.
const ServerWorker::NextBatch* FollowerTraining::note_next(const NextTicket& next,
                                                           const FindBatch& find) {
  if (!next) return nullptr;
  std::optional<PerReplicas> batch = find(next->first);
  if (!batch) return nullptr;
  next_number_ = next->first.number;
  next_ = {std::move(*batch), next->second};
  return &next_;
}

void FollowerTraining::do_ticket(ServerStep& step, const FindBatch& find) {
  const Taken taken = *std::exchange(taken_, std::nullopt);
  const WorkTicket& ticket = taken.ticket;
  const bool is_known = std::exchange(next_number_, -1) == ticket.number;
  const std::optional<PerReplicas> batch =
      is_known ? std::optional(std::move(next_.arguments)) : find(ticket);
  if (!batch) {
    throw InvalidArgument(fmt::format("batch {} of epoch {} is not there, which the chief has",
                                      ticket.batch, ticket.epoch));
  }
  NextTicket known = taken.next;
  std::optional<PatientLine::Question> asked;
  if (!known && options_.staleness != 0 && step.reads_any_rows()) {
    // The answer is there when the step has run.
    asked = chief_.ask({question_of(ServerQuestion::next, session_).add(incarnation_).take(), {}});
  }
  const auto find_next = [&]() -> const ServerWorker::NextBatch* {
    if (asked) {
      const cluster::ServiceText text = chief_.wait(*asked);
      MessageReader reader(text.view());
      if (reader.read<ServerAnswer>() == ServerAnswer::accepted) known = read_next(reader);
    }
    return note_next(known, find);
  };
  std::optional<Tensors> results =
      worker_.run(step, links_, *batch, ticket, taken.random, options_.before_step, find_next);
  if (!results) std::this_thread::sleep_for(kPause);
  done_ = Done{ticket, results.has_value(), results.value_or(Tensors())};
}

/// From here on this process has what the chief has.
std::string FollowerTraining::take_end(MessageReader& reader) {
  has_ended_ = true;
  const std::string_view error = reader.read_text();
  if (!error.empty()) throw Aborted(fmt::format("the chief: {}", error));
  const std::string result(reader.read_text());
  if (reader.read<bool>()) take_states(ServerQuestion::states, 0);
  return result;
}

/// Takes the states of all servers part by part. Returns what the chief answers instead where it
/// has not, or no more, what is asked for.
ServerAnswer FollowerTraining::take_states(ServerQuestion kind, int64_t steps) {
  std::optional<int64_t> moment;
  // Without a step there is nothing to take: it says so by asking for what is behind the end.
  uint64_t offset = mirrors_.empty() ? std::numeric_limits<uint64_t>::max() : 0;
  for (;;) {
    MessageWriter question = question_of(kind, session_);
    const cluster::ServiceText text = chief_.answer_to(question.add(steps).add(offset).take());
    MessageReader reader(text.view());
    const auto answer = reader.read<ServerAnswer>();
    if (answer == ServerAnswer::end) take_end(reader);
    if (answer != ServerAnswer::accepted) return answer;
    const auto now = reader.read<int64_t>();
    const bool is_other = moment && *moment != now;
    moment = now;
    if (is_other) {
      offset = 0;  // The chief has later ones meanwhile.
    } else if (reader.rest().empty()) {
      return answer;
    } else {
      put_states(offset, reader.rest());
      offset += reader.rest().size();
    }
  }
}

/// A server that serves has newer values than the chief; what its own program assigns is not among
/// these.
void FollowerTraining::put_states(uint64_t offset, std::string_view bytes) {
  uint64_t begin = 0;  // Where the server's state begins.
  for (size_t s = 0; s < mirrors_.size() && !bytes.empty(); ++s) {
    const bool serves = cluster_.is_server() && static_cast<int>(s) == cluster_.config.task;
    const uint64_t end = begin + mirrors_[s]->state_bytes();
    if (offset < end) {
      const std::string_view own = bytes.substr(0, end - offset);
      if (has_ended_ || !serves) mirrors_[s]->write_state_part(offset - begin, own);
      if (serves) mirrors_[s]->write_variables(offset - begin, own);
      offset += own.size();
      bytes.remove_prefix(own.size());
    }
    begin = end;
  }
}

/// Is called while an error is handled.
void FollowerTraining::tell_failure() {
  MessageWriter question = question_of(ServerQuestion::failed, session_);
  chief_.try_once(question.add_text(core::current_error_text()).take(), 2s);
}

/// Begins a loop: a worker meets the servers, and a server serves in the background.
void FollowerTraining::enter_loop(const FlatFunction& f, std::span<const PerReplica> arguments) {
  ServerStep& step = traced_step(f, arguments);
  if (loop_ == &step) return;
  if (loop_ != nullptr) {
    if (joined_steps_ != scheduled_) throw_two_functions();
    meet();
    is_met_ = false;
  } else if (has_followed_) {
    take_part();
  }
  mirrors_ = servers_for(step);
  facts_ = facts_of(step, mirrors_);
  scheduled_ = 0;
  joined_steps_ = 0;
  loop_ = &step;
  if (!cluster_.is_server()) {
    return begin_work(step, [this](const WorkTicket& ticket) { return wait_for_batch(ticket); });
  }
  mirrors_[static_cast<size_t>(cluster_.config.task)]->keep_assigned_apart();
  has_served_ = false;
  serving_ = std::thread([this] {
    try {
      serve();
    } catch (...) {
      serving_error_ = std::current_exception();
    }
    has_served_ = true;
  });
}

/// Throws what ended the serving in the background.
void FollowerTraining::check_serving() {
  if (!has_served_ && !has_ended_) return;
  if (serving_.joinable()) serving_.join();  // It is about to end.
  if (serving_error_) std::rethrow_exception(std::exchange(serving_error_, nullptr));
}

/// A server serves until the chief has ended the session.
void FollowerTraining::leave_loop() {
  if (serving_.joinable()) serving_.join();
  end_work();
  batches_.clear();
  batch_bytes_ = 0;
  loop_ = nullptr;
}

/// All tasks schedule the same steps. A worker does those that the chief gives to it, as far as it
/// knows their batches.
StepOutcomePtr FollowerTraining::schedule(const FlatFunction& f, PerReplicas arguments,
                                          const BatchNumber&) {
  check_open(is_closed_);
  enter_loop(f, arguments);
  runtime::next_random_run(loop_->random_calls());  // As the chief does.
  auto outcome = std::make_shared<LoopOutcome>();
  outcome->step = scheduled_;
  if (cluster_.is_server()) {
    ++scheduled_;
    return outcome;
  }
  {
    const std::lock_guard lock(batches_mutex_);
    batch_bytes_ += bytes_of(arguments);
    batches_.emplace(scheduled_++, std::move(arguments));
    batches_changed_.notify_all();
  }
  while (!has_ended_) {
    if (!taken_ && take(*loop_, scheduled_) != TakeOutcome::ticket) break;
    if (taken_->ticket.step() >= scheduled_) break;
    do_loop_ticket();
  }
  return outcome;
}

/// Another thread asks for a batch of a loop, perhaps before that has come to it.
std::optional<PerReplicas> FollowerTraining::wait_for_batch(const WorkTicket& ticket) {
  std::unique_lock lock(batches_mutex_);
  const auto is_there = [&] { return batches_.contains(ticket.step()); };
  batches_changed_.wait(lock, [&] { return has_left_ || is_there(); });
  return is_there() ? std::optional(batches_.at(ticket.step())) : std::nullopt;
}

/// A server that dies may lose all steps since the last join, so their batches are kept as far as
/// they are not too large together.
void FollowerTraining::forget_batches() {
  const std::lock_guard lock(batches_mutex_);
  while (!batches_.empty()) {
    const auto& [step, batch] = *batches_.begin();
    const bool is_done = step < taken_->whole_steps && batch_bytes_ > kMostBatchBytes;
    if (step >= taken_->kept_steps && !is_done) break;
    batch_bytes_ -= bytes_of(batch);
    batches_.erase(batches_.begin());
  }
}

void FollowerTraining::do_loop_ticket() {
  const auto find = [this](const WorkTicket& ticket) -> std::optional<PerReplicas> {
    const std::lock_guard lock(batches_mutex_);
    const auto batch = batches_.find(ticket.step());
    if (batch != batches_.end()) return batch->second;
    if (ticket.step() >= scheduled_) return std::nullopt;  // One that may come next.
    throw FailedPrecondition(
        fmt::format("step {} is to be done again, since a server has lost what came of it, and its "
                    "batch is forgotten: more than {} MB of batches were scheduled since the last "
                    "join",
                    ticket.step(), kMostBatchBytes >> 20));
  };
  forget_batches();
  try {
    do_ticket(*loop_, find);
  } catch (...) {
    tell_failure();
    throw;
  }
}

/// Does tickets until `is_enough`; the chief says when `goal` steps are done.
void FollowerTraining::work_until(int64_t goal, const std::function<bool()>& is_enough) {
  while (!is_enough()) {
    check_serving();
    const bool is_working = !cluster_.is_server() && !has_ended_;
    if (is_working && !taken_) take(*loop_, goal);
    if (is_working && taken_ && taken_->ticket.step() < scheduled_) {
      do_loop_ticket();
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

void FollowerTraining::join() {
  joined_steps_ = scheduled_;
  check_serving();
  if (loop_ == nullptr || has_ended_) return;
  work_until(scheduled_, [this] { return take_values(scheduled_); });
}

void FollowerTraining::bring_variables() {
  if (loop_ != nullptr && joined_steps_ != scheduled_) join();
}

/// Whether the last step that was scheduled is.
bool FollowerTraining::is_done() const {
  if (loop_ == nullptr || scheduled_ == 0) return true;
  MessageWriter question = question_of(ServerQuestion::result, session_);
  const cluster::ServiceText text = chief_.answer_to(question.add(scheduled_ - 1).take());
  return MessageReader(text.view()).read<ServerAnswer>() != ServerAnswer::ask_again;
}

/// Whether the chief has them.
bool FollowerTraining::take_values(int64_t steps) {
  return take_states(ServerQuestion::values, steps) != ServerAnswer::ask_again;
}

bool FollowerTraining::take_results(LoopOutcome& outcome) {
  MessageWriter question = question_of(ServerQuestion::result, session_);
  const cluster::ServiceText text = chief_.answer_to(question.add(outcome.step).take());
  MessageReader reader(text.view());
  const auto kind = reader.read<ServerAnswer>();
  if (kind == ServerAnswer::ask_again) return false;
  if (kind == ServerAnswer::refused) {
    throw FailedPrecondition(fmt::format("fetch: {}", reader.read_text()));
  }
  if (kind != ServerAnswer::accepted) throw Aborted("fetch: the chief has ended what it did");
  for (int share = 0; share < shares_; ++share) {
    outcome.results.push_back(read_tensors(reader));
  }
  outcome.is_done = true;
  return true;
}

const std::vector<Tensors>& FollowerTraining::results_of(const StepOutcome& outcome) {
  auto& own = const_cast<LoopOutcome&>(static_cast<const LoopOutcome&>(outcome));
  if (!own.is_done) work_until(own.step + 1, [&] { return take_results(own); });
  return own.results;
}

std::string FollowerTraining::explain() const {
  return explained(options_, fmt::format("in processes of their own, this is {} {}",
                                         cluster_.config.job, cluster_.config.task));
}

}  // namespace tandem::distribute

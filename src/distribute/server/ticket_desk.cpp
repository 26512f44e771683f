#include "distribute/server/ticket_desk.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "distribute/server/result_message.h"
#include "distribute/server/session_book.h"
#include "tandem/config.h"
#include "tandem/error.h"
#include "tandem/log.h"

namespace tandem::distribute {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

/// Without a sign of life for this long a worker is gone.
constexpr auto kWorkerSilence = 5s;
/// How long the chief waits for those who have not heard of the end, since one of them has taken
/// some of the states.
constexpr auto kPatienceForEnd = 10s;
/// How long it waits for all servers and for the first worker, and how often it says so.
constexpr auto kPatienceAtStart = 5min;
constexpr auto kSayEvery = 10s;
/// A worker for which there is no ticket is told to ask again after this long.
constexpr auto kLongestAnswer = 2s;
TicketTable::Time now() { return SteadyClock::now().time_since_epoch(); }

void log_warning(const std::string& text) {
  logging::write(logging::Level::warning, "chief: " + text);
}

}  // namespace

TicketDesk::TicketDesk(const ParameterServerOptions& options, int servers, uint64_t incarnation)
    : options_(options),
      shares_(shares_of(options)),
      incarnation_(incarnation),
      tickets_(std::make_unique<TicketTable>(options.staleness, shares_)),
      steps_(shares_),
      former_steps_(shares_),
      servers_(static_cast<size_t>(servers)),
      watch_([this] { watch(); }) {}

TicketDesk::~TicketDesk() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    stopping_.notify_all();
  }
  watch_.join();
}

void TicketDesk::open_session() {
  const std::lock_guard lock(mutex_);
  SessionBook::of_process().open(random_state_text());
  tickets_ = std::make_unique<TicketTable>(options_.staleness, shares_);
  former_steps_ = std::exchange(steps_, ScheduledSteps(shares_));
  kept_steps_ = 0;
  valued_steps_ = -1;
  values_.reset();
  facts_.reset();
  std::ranges::fill(servers_, Server{});
  is_begun_ = false;
  streams_.clear();
  waiting_.clear();
  error_.clear();
}

int64_t TicketDesk::session() const { return SessionBook::of_process().last(); }

void TicketDesk::end_session(const std::string& error, const std::string& result,
                             ServerStates states) {
  const std::lock_guard lock(mutex_);
  const auto ended = SessionBook::of_process().end(error, result, std::move(states));
  if (!ended) return;
  for (const Waiting& each : waiting_) {
    each.reply(end_message(*ended));
    const auto stream = streams_.find(each.worker);
    const bool is_last = !ended->states && !each.is_beside;
    if (is_last && stream != streams_.end()) heard_[stream->second] = session();
  }
  waiting_.clear();
  streams_.clear();
}

void TicketDesk::leave(const std::string& error) {
  const std::lock_guard lock(mutex_);
  left_ = error;
}

void TicketDesk::wait_until_heard(bool have_left) {
  std::unique_lock lock(mutex_);
  last_taken_ = Clock::now();
  const auto is_heard = [&] {
    if (have_left) return heard_.empty();
    return std::ranges::all_of(heard_, [this](const auto& one) { return one.second >= session(); });
  };
  while (!is_heard() && Clock::now() - last_taken_ < kPatienceForEnd) {
    changed_.wait_for(lock, 100ms);
  }
}

std::vector<TicketDesk::ServingProcess> TicketDesk::wait_for_servers(const std::string& facts) {
  std::unique_lock lock(mutex_);
  facts_ = facts;
  const auto start = Clock::now();
  const auto missing = [this] {
    std::vector<std::string> names;
    for (size_t s = 0; s < servers_.size(); ++s) {
      if (servers_[s].process.incarnation == 0) names.push_back(fmt::format("ps {}", s));
    }
    return fmt::format("{}", fmt::join(names, ", "));
  };
  core::PacedLook paced;
  auto said = start;
  while (!missing().empty()) {
    check_error();
    if (const auto now = Clock::now(); now - said >= kSayEvery) {
      said = now;
      log_warning(fmt::format("waiting for {}", missing()));
      if (now - start >= kPatienceAtStart) {
        throw DeadlineExceeded(fmt::format("chief: {} did not come within {} s", missing(),
                                           std::chrono::seconds(kPatienceAtStart).count()));
      }
    }
    wait_for_change(lock, paced);
  }
  check_error();
  is_begun_ = true;
  std::vector<ServingProcess> processes;
  for (Server& server : servers_) {
    server.is_new = false;
    processes.push_back(server.process);
  }
  return processes;
}

uint64_t TicketDesk::incarnation_of(size_t server) const {
  const std::lock_guard lock(mutex_);
  return servers_.at(server).process.incarnation;
}

std::shared_ptr<StepOutcome> TicketDesk::add(const BatchNumber& number, const op::RandomRun& random,
                                             int64_t most_open) {
  std::unique_lock lock(mutex_);
  wait(lock, [&] { return tickets_->size() - tickets_->done() < most_open; });
  auto outcome = steps_.add(random, kept_steps_);
  tickets_->add(number.epoch, number.batch);
  for (const auto& [worker, text] : left_idle_) log_warning(text);
  left_idle_.clear();
  answer_waiting();
  return outcome;
}

void TicketDesk::wait_for_all() {
  std::unique_lock lock(mutex_);
  wait(lock, [&] { return tickets_->all_done(); });
}

void TicketDesk::wait_for(const StepOutcome& outcome) {
  std::unique_lock lock(mutex_);
  wait(lock, [&] { return outcome.is_done; });
}

bool TicketDesk::all_done() const {
  const std::lock_guard lock(mutex_);
  return tickets_->all_done();
}

int64_t TicketDesk::whole_steps() const {
  const std::lock_guard lock(mutex_);
  return tickets_->whole_steps();
}

int64_t TicketDesk::generation() const {
  const std::lock_guard lock(mutex_);
  return tickets_->generation();
}

void TicketDesk::note_write() {
  const std::lock_guard lock(mutex_);
  ++writes_;
}

void TicketDesk::note_values(int64_t steps, ServerStates states) {
  const std::lock_guard lock(mutex_);
  valued_steps_ = steps;
  values_ = std::move(states);
}

void TicketDesk::note_kept(int64_t steps) {
  const std::lock_guard lock(mutex_);
  kept_steps_ = steps;
}

int64_t TicketDesk::reopen(const std::function<bool(int64_t ticket)>& is_lost) {
  const std::lock_guard lock(mutex_);
  const int64_t reopened = tickets_->reopen(is_lost);
  answer_waiting();
  return reopened;
}

void TicketDesk::on_question(const cluster::Asker& asker, std::string_view question, Reply reply) {
  const std::lock_guard lock(mutex_);
  try {
    MessageReader reader(question);
    answer(asker, reader, reply);
  } catch (const Error& error) {
    log_warning(fmt::format("a question of {}: {}", asker.str(), error.what()));
    reply(text_message(plain_answer(ServerAnswer::refused, error.what())));
  }
  answer_waiting();
  changed_.notify_all();
}

void TicketDesk::on_gone(const cluster::Asker& asker) {
  const std::lock_guard lock(mutex_);
  heard_.erase(asker.stream);
  const auto worker = streams_.find(asker.task);
  if (asker.job == "worker" && worker != streams_.end() && worker->second == asker.stream) {
    lose(asker.task, "its connection ended");
    answer_waiting();
  }
  changed_.notify_all();
}

std::optional<cluster::ServiceMessage> TicketDesk::answer_to_other(int64_t session) {
  const auto record = SessionBook::of_process().find(session);
  if (!record) return text_message(plain_answer(ServerAnswer::ask_again));
  if (session < this->session() || record->has_ended) return end_message(*record);
  return std::nullopt;
}

void TicketDesk::answer(const cluster::Asker& asker, MessageReader& reader, const Reply& reply) {
  const auto kind = reader.read<ServerQuestion>();
  const auto session = reader.read<int64_t>();
  // Who asks about a session is done with those before.
  int64_t& heard = heard_.try_emplace(asker.stream, -1).first->second;
  heard = std::max(heard, session - 1);
  if (kind == ServerQuestion::meet) {
    const auto record = SessionBook::of_process().find(session);
    if (!record && !left_.empty()) return reply(end_message({.error = left_}));
    return reply(text_message(record ? plain_answer(ServerAnswer::accepted, record->random_state)
                                     : plain_answer(ServerAnswer::ask_again)));
  }
  if (kind == ServerQuestion::beat) tickets_->heard_of(asker.task, now());
  const bool is_current = session == this->session();
  if (is_current && kind == ServerQuestion::result) {
    return reply(text_message(steps_.answer_of(reader.read<int64_t>())));
  }
  if (session == this->session() - 1 && kind == ServerQuestion::result) {
    const auto number = reader.read<int64_t>();
    if (former_steps_.has(number)) return reply(text_message(former_steps_.answer_of(number)));
  }
  if (is_current && kind == ServerQuestion::values && values_) return reply(values(reader));
  if (kind == ServerQuestion::states) return reply(ended_states(asker, session, reader));
  if (auto other = answer_to_other(session)) {
    const auto is_end = static_cast<ServerAnswer>(other->text[0]) == ServerAnswer::end;
    const bool has_states = other->text.back() != 0;  // Which are still to be asked for.
    reply(std::move(*other));
    // Others ask on behalf of the thread that is to know.
    const bool is_aside = kind == ServerQuestion::beat || kind == ServerQuestion::beside;
    if (is_end && !has_states && !is_aside) heard_[asker.stream] = session;
    return;
  }
  switch (kind) {
    case ServerQuestion::serving:
      return reply(text_message(serving(asker, reader)));
    case ServerQuestion::join:
      return reply(text_message(join(asker, reader)));
    case ServerQuestion::take:
      return take(asker, reader, false, reply);
    case ServerQuestion::beside:
      return take(asker, reader, true, reply);
    case ServerQuestion::next:
      return reply(text_message(next(asker, reader)));
    case ServerQuestion::failed:
      note_failure(asker, reader.read_text());
      return reply(text_message(plain_answer(ServerAnswer::accepted)));
    case ServerQuestion::values:
      return reply(text_message(plain_answer(ServerAnswer::ask_again)));
    case ServerQuestion::beat:
    case ServerQuestion::follow:
      return reply(text_message(plain_answer(ServerAnswer::accepted)));
    default:
      throw DataLoss("a message of no known kind");
  }
}

/// One that another process has replaced fails alone.
void TicketDesk::note_failure(const cluster::Asker& asker, std::string_view why) {
  const auto stream = streams_.find(asker.task);
  const bool is_replaced =
      asker.job == "worker" && stream != streams_.end() && stream->second != asker.stream;
  if (is_replaced) return log_warning(fmt::format("a former {} has failed: {}", asker.str(), why));
  if (error_.empty()) error_ = fmt::format("{}: {}", asker.str(), why);
}

std::string TicketDesk::serving(const cluster::Asker& asker, MessageReader& reader) {
  const auto incarnation = reader.read<uint64_t>();
  const std::string_view facts = reader.read_text();
  const auto place = static_cast<size_t>(asker.task);
  if (asker.job != "ps" || place >= servers_.size()) {
    return plain_answer(ServerAnswer::refused, "it is no server of this cluster");
  }
  if (!facts_) return plain_answer(ServerAnswer::ask_again);
  if (const std::string difference = difference_to_chief(facts, *facts_); !difference.empty()) {
    const std::string why = "the tasks run different programs: it has " + difference;
    if (error_.empty()) error_ = fmt::format("{}: {}", asker.str(), why);
    return plain_answer(ServerAnswer::refused, why);
  }
  Server& server = servers_[place];
  if (server.process.incarnation != incarnation) {
    if (incarnation < server.process.incarnation) {
      return plain_answer(ServerAnswer::refused, "it was replaced by another process");
    }
    server = {{incarnation, reader.read_list<uint64_t>()}, is_begun_};
    if (is_begun_) log_warning(fmt::format("{} has come back", asker.str()));
  }
  return plain_answer(ServerAnswer::accepted);
}

std::string TicketDesk::join(const cluster::Asker& asker, MessageReader& reader) {
  const auto incarnation = reader.read<uint64_t>();
  const std::string_view facts = reader.read_text();
  if (asker.job != "worker" || asker.task < 0) {
    return plain_answer(ServerAnswer::refused, "it is no worker of this cluster");
  }
  if (!facts_ || !is_begun_) return plain_answer(ServerAnswer::ask_again);
  if (const std::string difference = difference_to_chief(facts, *facts_); !difference.empty()) {
    const std::string why = "the tasks run different programs: it has " + difference;
    if (error_.empty()) error_ = fmt::format("{}: {}", asker.str(), why);
    return plain_answer(ServerAnswer::refused, why);
  }
  uint64_t& last = incarnations_[asker.task];
  if (incarnation < last) {
    return plain_answer(ServerAnswer::refused, "it was replaced by another process");
  }
  last = incarnation;
  tickets_->join(asker.task, incarnation, now());
  left_idle_.erase(asker.task);
  streams_[asker.task] = asker.stream;
  MessageWriter answer;
  return answer.add(ServerAnswer::accepted).add(incarnation_).take();
}

bool TicketDesk::is_known(const cluster::Asker& asker, uint64_t incarnation) const {
  const auto stream = streams_.find(asker.task);
  return stream != streams_.end() && stream->second == asker.stream &&
         tickets_->is_there(asker.task, incarnation);
}

std::string TicketDesk::next(const cluster::Asker& asker, MessageReader& reader) {
  MessageWriter answer;
  answer.add(ServerAnswer::accepted);
  append_next(answer, asker.task, is_known(asker, reader.read<uint64_t>()));
  return answer.take();
}

/// Whether there is a ticket that the worker takes next, and which.
void TicketDesk::append_next(MessageWriter& answer, int worker, bool is_wanted) {
  const auto next = is_wanted ? tickets_->reserve(worker) : std::nullopt;
  answer.add(next.has_value());
  if (next) answer.add(*next).add(steps_.random_of(next->step()));
}

void TicketDesk::take(const cluster::Asker& asker, MessageReader& reader, bool is_beside,
                      const Reply& reply) {
  const auto incarnation = reader.read<uint64_t>();
  const auto goal = is_beside ? int64_t{-1} : reader.read<int64_t>();
  const bool wants_next = !is_beside && reader.read<bool>();
  const bool has_done = reader.read<bool>();
  if (!is_known(asker, incarnation)) {
    return reply(text_message(plain_answer(ServerAnswer::join_again)));
  }
  tickets_->heard_of(asker.task, now());
  if (has_done) {
    const auto ticket = reader.read<WorkTicket>();
    note_done(asker.task, ticket, reader);
  }
  waiting_.push_back({asker.task, goal, wants_next, is_beside, false, Clock::now(), reply});
}

void TicketDesk::note_done(int worker, const WorkTicket& ticket, MessageReader& reader) {
  const bool is_made = reader.read<bool>();
  Tensors results = read_tensors(reader);
  if (ticket.number < 0 || ticket.number >= tickets_->size()) throw DataLoss("no such ticket");
  if (!is_made) {
    tickets_->give_back(worker, ticket);
    return;
  }
  tickets_->finish(worker, ticket);
  if (tickets_->is_done(ticket.number)) steps_.finish(ticket, std::move(results));
}

cluster::ServiceMessage TicketDesk::values(MessageReader& reader) {
  if (valued_steps_ < reader.read<int64_t>()) {
    return text_message(plain_answer(ServerAnswer::ask_again));
  }
  return part_of(values_, valued_steps_, reader.read<uint64_t>());
}

/// Who is told that there are no more of them has heard all of the end.
cluster::ServiceMessage TicketDesk::ended_states(const cluster::Asker& asker, int64_t session,
                                                 MessageReader& reader) {
  reader.read<int64_t>();
  const auto record = SessionBook::of_process().find(session);
  const ServerStates states = record ? record->states : nullptr;
  cluster::ServiceMessage part = part_of(states, session, reader.read<uint64_t>());
  last_taken_ = Clock::now();
  if (part.parts.empty()) heard_[asker.stream] = session;
  return part;
}

/// Gives tickets to those who wait for them, and lets go who has waited for long.
void TicketDesk::answer_waiting() {
  for (auto each = waiting_.begin(); each != waiting_.end();) {
    const std::optional<WorkTicket> ticket =
        each->is_beside ? tickets_->take_beside(each->worker) : tickets_->take(each->worker);
    if (ticket) {
      MessageWriter answer;
      answer.add(ServerAnswer::accepted).add(*ticket).add(steps_.random_of(ticket->step()));
      const bool is_news = std::exchange(told_writes_[each->worker], writes_) != writes_;
      answer.add(tickets_->whole_steps()).add(kept_steps_).add(each->has_waited || is_news);
      append_next(answer, each->worker, each->wants_next);
      each->reply(text_message(answer.take()));
      waiting_.erase(each);
      each = waiting_.begin();  // Another one may take a share now that this one has one.
    } else if (Clock::now() - each->since > kLongestAnswer ||
               (each->goal >= 0 && tickets_->whole_steps() >= each->goal)) {
      each->reply(text_message(plain_answer(ServerAnswer::ask_again)));
      each = waiting_.erase(each);
    } else {
      each->has_waited |= tickets_->must_wait(each->worker);
      ++each;
    }
  }
}

void TicketDesk::lose(int worker, const std::string& why) {
  if (const auto stream = streams_.find(worker); stream != streams_.end()) {
    heard_.erase(stream->second);
    streams_.erase(stream);
  }
  tickets_->leave(worker);
  waiting_.remove_if([&](const Waiting& each) { return each.worker == worker; });
  const std::string text =
      fmt::format("worker {} is gone: {}; others get its tickets", worker, why);
  if (!tickets_->all_done()) return log_warning(text);
  // It has come to its end, perhaps; if not, it is missed as soon as there is more to do.
  left_idle_[worker] = text;
}

void TicketDesk::watch() {
  std::unique_lock lock(mutex_);
  while (!stops_) {
    stopping_.wait_for(lock, 500ms);
    for (const int worker : tickets_->leave_silent(now(), kWorkerSilence)) {
      lose(worker,
           fmt::format("it is silent for {} s", std::chrono::seconds(kWorkerSilence).count()));
    }
    answer_waiting();
  }
}

void TicketDesk::check_error() const {
  if (!error_.empty()) throw Aborted(error_);
}

/// Servers that have come back get what they had.
void TicketDesk::receive_returned(std::unique_lock<std::mutex>& lock) {
  for (size_t s = 0; s < servers_.size(); ++s) {
    if (!std::exchange(servers_[s].is_new, false)) continue;
    const ServingProcess process = servers_[s].process;
    lock.unlock();
    on_return(static_cast<int>(s), process);
    lock.lock();
  }
}

void TicketDesk::receive_returned() {
  std::unique_lock lock(mutex_);
  check_error();
  receive_returned(lock);
}

/// Waits for a short while, and looks whether somebody asks for the end, which may take another
/// lock.
void TicketDesk::wait_for_change(std::unique_lock<std::mutex>& lock, core::PacedLook& paced) {
  changed_.wait_for(lock, core::kLookEvery);
  lock.unlock();
  paced.look();
  lock.lock();
}

/// Waits as long as steps end. Before the first worker has come it waits longer: processes may
/// start at different times.
void TicketDesk::wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& ready) {
  const std::chrono::nanoseconds deadline = config::wait_deadline();
  const auto state = [this] { return std::pair(tickets_->done(), incarnations_.empty()); };
  auto known = state();
  auto moved = Clock::now();
  auto said = moved;
  core::PacedLook paced;
  for (;;) {
    check_error();
    receive_returned(lock);
    if (ready()) return;
    wait_for_change(lock, paced);
    const auto time = Clock::now();
    if (std::exchange(known, state()) != known) moved = time;
    const bool is_start = incarnations_.empty();
    if (is_start && time - said >= kSayEvery) {
      said = time;
      log_warning("waiting for workers: none has come yet");
    }
    const auto patience =
        is_start ? std::max<std::chrono::nanoseconds>(deadline, kPatienceAtStart) : deadline;
    if (time - moved < patience) continue;
    throw DeadlineExceeded(fmt::format(
        "chief: no step has ended for {:.0f} s; there are {} workers; under way:\n{}",
        std::chrono::duration<double>(patience).count(), streams_.size(), tickets_->held(now())));
  }
}

}  // namespace tandem::distribute

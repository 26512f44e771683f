#include "distribute/server/remote_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <thread>

#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::distribute {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// How long a server that is not ready is left alone.
constexpr std::chrono::milliseconds kPause{10};

constexpr char kZeros[kPieceAlignment] = {};

}  // namespace

ServerLink::~ServerLink() = default;

namespace {

/// Programs that meet wait no longer than their threads do for each other.
std::chrono::nanoseconds longest_meeting(std::chrono::nanoseconds patience) {
  const std::chrono::nanoseconds deadline = config::wait_deadline();
  return std::min(patience, deadline - std::min<std::chrono::nanoseconds>(1s, deadline / 2));
}

[[noreturn]] void throw_not_met(const MeetingNumber& meeting, std::chrono::nanoseconds limit) {
  throw DeadlineExceeded(fmt::format(
      "step {}: some of the workers that share it have not come for {:.0f} s, and it needs sums of "
      "what all of them compute",
      meeting.step, std::chrono::duration<double>(limit).count()));
}

}  // namespace

std::optional<std::string> DirectLink::sum_over_shares(const MeetingNumber& meeting, int share,
                                                       std::string values) {
  const auto sums = std::make_shared<std::promise<std::optional<std::string>>>();
  std::future<std::optional<std::string>> future = sums->get_future();
  server_.meeting().give(meeting, share, std::move(values),
                         [sums](const std::optional<std::string>& all) { sums->set_value(all); });
  const std::chrono::nanoseconds limit = longest_meeting(config::wait_deadline());
  if (future.wait_for(limit) != std::future_status::ready) throw_not_met(meeting, limit);
  return future.get();
}

RemoteServer::RemoteServer(const ServerCluster& cluster, int index, const RangeServer& mirror,
                           int64_t session, bool in_step)
    : line_(cluster, "ps", index),
      mirror_(mirror),
      patience_(cluster.patience),
      session_(session),
      in_step_(in_step),
      by_rows_(mirror.reads_rows()) {}

void RemoteServer::set_chief(uint64_t incarnation) {
  chief_ = incarnation;
  pushed_.reset();
}

void RemoteServer::start_push(const PushStamp& stamp, const Contribution& given,
                              const RowLists& next, Places to) {
  MessageWriter question = question_of(ServerQuestion::exchange, session_);
  const bool wants_values = !in_step_ && (!by_rows_ || !next.empty());
  question.add(chief_).add(stamp).add(wants_values);
  for (const bool condition : given.conditions) question.add(condition);
  for (size_t i = 0; i < pieces().size(); ++i) {
    if (pieces()[i].row_elements > 0) question.add_list(*given.rows[i]);
  }
  next_.assign(pieces().size(), {});
  for (size_t i = 0; i < next.size(); ++i) {
    if (next[i] != nullptr) next_[i] = *next[i];
  }
  if (wants_values) add_row_lists(question, next);
  question.align();
  cluster::ServiceMessage message;
  const size_t first_assigned = mirror_.first_assigned();
  for (size_t i = 0; i < first_assigned; ++i) {
    const size_t bytes = pieces()[i].bytes_of(rows_at(given.rows, i));
    message.parts.push_back({given.pieces[i], bytes, given.owner});
    const size_t padding = MessageWriter::padding_after(bytes);
    if (padding > 0) message.parts.push_back({kZeros, padding, nullptr});
  }
  // The worker changes these before it has the answer, so they are copied.
  MessageWriter assigned;
  for (size_t i = first_assigned; i < pieces().size(); ++i) {
    assigned.align().add_bytes(given.pieces[i], pieces()[i].bytes());
  }
  const auto copied = std::make_shared<const std::string>(assigned.take());
  if (!copied->empty()) message.parts.push_back({copied->data(), copied->size(), copied});
  message.text = question.take();
  pushed_.reset();
  cluster::AnswerPlacesPtr places;
  if (wants_values) places = places_behind(sizeof(ServerAnswer) + sizeof(PushAnswer), next, to);
  open_ = line_.ask(std::move(message), std::move(places));
}

/// The values of these rows lie in an answer behind `head` bytes and their version.
cluster::AnswerPlacesPtr RemoteServer::places_behind(size_t head, const RowLists& rows,
                                                     Places to) const {
  auto places = std::make_shared<cluster::AnswerPlaces>();
  places->head = head + sizeof(int64_t);
  for (size_t i = 0; i < pieces().size(); ++i) {
    pieces()[i].for_each_part(rows_at(rows, i), [&](size_t offset, size_t bytes) {
      places->places.emplace_back(static_cast<char*>(to[i]) + offset, bytes);
    });
  }
  return places;
}

/// The answer to the open question, once the server is ready; nothing where the ticket is void.
std::optional<cluster::ServiceText> RemoteServer::settled_answer() {
  const auto start = Clock::now();
  for (;;) {
    cluster::ServiceText answer = line_.wait(*open_);
    MessageReader reader(answer.view());
    const auto kind = reader.read<ServerAnswer>();
    if (kind == ServerAnswer::accepted) {
      open_.reset();
      return answer;
    }
    if (kind == ServerAnswer::join_again || kind == ServerAnswer::end) {
      open_.reset();
      return std::nullopt;
    }
    if (kind == ServerAnswer::refused) {
      throw Aborted(fmt::format("{}: {}", line_.name(), reader.read_text()));
    }
    if (Clock::now() - start > patience_) {
      throw DeadlineExceeded(fmt::format("{} has not been ready for {:.0f} s", line_.name(),
                                         std::chrono::duration<double>(patience_).count()));
    }
    std::this_thread::sleep_for(kPause);
    open_ = line_.ask_again(std::move(*open_));
  }
}

PushAnswer RemoteServer::finish_push() {
  std::optional<cluster::ServiceText> answer = settled_answer();
  if (!answer) return {.outcome = PushAnswer::Outcome::refused};
  MessageReader reader(answer->view());
  reader.read<ServerAnswer>();
  const auto outcome = reader.read<PushAnswer>();
  if (!reader.rest().empty()) pushed_ = std::move(answer);
  return outcome;
}

/// Adds for each piece that may be read by rows whether it is, and which rows.
void RemoteServer::add_row_lists(MessageWriter& question, const RowLists& lists) const {
  for (size_t i = 0; i < pieces().size(); ++i) {
    if (pieces()[i].row_elements == 0) continue;
    const std::vector<int64_t>* const rows = rows_at(lists, i);
    question.add(rows != nullptr);
    if (rows != nullptr) question.add_list(*rows);
  }
}

/// Whether the values that came with the answer to the last push are of these rows.
bool RemoteServer::has_pushed_for(const RowLists& rows) const {
  for (size_t i = 0; i < pieces().size(); ++i) {
    const std::vector<int64_t>* const own = rows_at(rows, i);
    const bool is_same = own == nullptr ? !next_[i] : next_[i] == *own;
    if (!is_same) return false;
  }
  return true;
}

void RemoteServer::start_norms(int64_t step) {
  MessageWriter question = question_of(ServerQuestion::norms, session_);
  open_ = line_.ask({question.add(chief_).add(step).take(), {}});
}

/// Asks again now and then: the server may have been started anew meanwhile.
std::optional<std::string> RemoteServer::sum_over_shares(const MeetingNumber& meeting, int share,
                                                         std::string values) {
  const auto start = Clock::now();
  const std::chrono::nanoseconds limit = longest_meeting(patience_);
  while (Clock::now() - start < limit) {
    MessageWriter question = question_of(ServerQuestion::sum, session_);
    question.add(chief_).add(meeting).add(share).add_text(values);
    const std::optional<cluster::ServiceText> answer = line_.try_once(question.take(), 2s);
    if (answer) {
      MessageReader reader(answer->view());
      const auto kind = reader.read<ServerAnswer>();
      if (kind == ServerAnswer::accepted) return std::string(reader.read_text());
      if (kind == ServerAnswer::join_again || kind == ServerAnswer::end) return std::nullopt;
      if (kind == ServerAnswer::refused) {
        throw Aborted(fmt::format("{}: {}", line_.name(), reader.read_text()));
      }
    }
    std::this_thread::sleep_for(kPause);
  }
  throw_not_met(meeting, limit);
}

/// None where the ticket is void, as the pull after it will say, too.
RangeServer::NormPart RemoteServer::finish_norms() {
  const std::optional<cluster::ServiceText> answer = settled_answer();
  if (!answer) return {};
  MessageReader reader(answer->view());
  reader.read<ServerAnswer>();
  return read_norm_part(reader);
}

void RemoteServer::start_pull(const WorkTicket& ticket, const RowLists& rows, Places to,
                              const RangeServer::Squares& squares) {
  rows_ = rows;
  to_ = to;
  if (pushed_ && !has_pushed_for(rows)) pushed_.reset();
  if (pushed_) return;
  MessageWriter question = question_of(ServerQuestion::pull, session_);
  question.add(chief_).add(ticket.generation).add(ticket.step()).add_list(squares);
  add_row_lists(question, rows);
  open_ = line_.ask({question.take(), {}}, places_behind(sizeof(ServerAnswer), rows, to));
}

std::optional<int64_t> RemoteServer::finish_pull() {
  if (pushed_) {
    MessageReader reader(pushed_->view());
    reader.read<ServerAnswer>();
    reader.read<PushAnswer>();
    const int64_t version = take_values(reader);
    pushed_.reset();
    return version;
  }
  const std::optional<cluster::ServiceText> answer = settled_answer();
  if (!answer) return std::nullopt;
  MessageReader reader(answer->view());
  reader.read<ServerAnswer>();
  return take_values(reader);
}

int64_t RemoteServer::take_values(MessageReader& reader) const {
  const auto version = reader.read<int64_t>();
  if (reader.rest().empty()) return version;  // They are where they are wanted.
  for (size_t i = 0; i < pieces().size(); ++i) {
    pieces()[i].for_each_part(rows_at(rows_, i), [&](size_t offset, size_t bytes) {
      std::memcpy(static_cast<char*>(to_[i]) + offset, reader.read_bytes(bytes), bytes);
    });
  }
  return version;
}

}  // namespace tandem::distribute

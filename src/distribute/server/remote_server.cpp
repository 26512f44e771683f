#include "distribute/server/remote_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

namespace tandem::distribute {
namespace {

using Clock = std::chrono::steady_clock;

/// How long a server that is not ready is left alone.
constexpr std::chrono::milliseconds kPause{10};

constexpr char kZeros[kPieceAlignment] = {};

}  // namespace

ServerLink::~ServerLink() = default;

void add_squares(RangeServer::Squares& all, const RangeServer::Squares& own) {
  all.resize(std::max(all.size(), own.size()));
  for (size_t i = 0; i < own.size(); ++i) all[i] += own[i];
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

void RemoteServer::start_push(const PushStamp& stamp, const RangeServer::Contribution& given,
                              const RangeServer::RowLists& next) {
  MessageWriter question = question_of(ServerQuestion::exchange, session_);
  const bool wants_values = !in_step_ && (!by_rows_ || !next.empty());
  question.add(chief_).add(stamp).add(wants_values);
  for (const bool condition : given.conditions) question.add(condition);
  for (size_t i = 0; i < pieces().size(); ++i) {
    if (pieces()[i].row_elements > 0) question.add_list(*given.rows[i]);
  }
  next_.assign(pieces().size(), {});
  for (size_t i = 0; i < pieces().size(); ++i) {
    if (!wants_values || !pieces()[i].reads_rows) continue;
    next_[i] = *next[i];
    question.add_list(next_[i]);
  }
  question.align();
  cluster::ServiceMessage message;
  const size_t first_assigned = mirror_.first_assigned();
  for (size_t i = 0; i < first_assigned; ++i) {
    const size_t bytes = pieces()[i].bytes_of(i < given.rows.size() ? given.rows[i] : nullptr);
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
  open_ = line_.ask(std::move(message));
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
    open_ = line_.ask(std::move(open_->message));
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

/// Whether the values that came with the answer to the last push are of these rows.
bool RemoteServer::has_pushed_for(const RangeServer::RowLists& rows) const {
  for (size_t i = 0; i < pieces().size(); ++i) {
    if (pieces()[i].reads_rows && *rows[i] != next_[i]) return false;
  }
  return true;
}

void RemoteServer::start_squares(int64_t step) {
  MessageWriter question = question_of(ServerQuestion::squares, session_);
  open_ = line_.ask({question.add(chief_).add(step).take(), {}});
}

/// None where the ticket is void, as the pull after it will say, too.
RangeServer::Squares RemoteServer::finish_squares() {
  const std::optional<cluster::ServiceText> answer = settled_answer();
  if (!answer) return {};
  MessageReader reader(answer->view());
  reader.read<ServerAnswer>();
  return reader.read_list<double>();
}

void RemoteServer::start_pull(int64_t step, const RangeServer::RowLists& rows,
                              const RangeServer::Squares& squares) {
  rows_ = rows;
  if (pushed_ && !has_pushed_for(rows)) pushed_.reset();
  if (pushed_) return;
  MessageWriter question = question_of(ServerQuestion::pull, session_);
  question.add(chief_).add(step).add_list(squares);
  for (size_t i = 0; i < pieces().size(); ++i) {
    if (pieces()[i].reads_rows) question.add_list(*rows[i]);
  }
  open_ = line_.ask({question.take(), {}});
}

std::optional<int64_t> RemoteServer::finish_pull(std::span<void* const> to) {
  if (pushed_) {
    MessageReader reader(pushed_->view());
    reader.read<ServerAnswer>();
    reader.read<PushAnswer>();
    const int64_t version = take_values(reader, to);
    pushed_.reset();
    return version;
  }
  const std::optional<cluster::ServiceText> answer = settled_answer();
  if (!answer) return std::nullopt;
  MessageReader reader(answer->view());
  reader.read<ServerAnswer>();
  return take_values(reader, to);
}

int64_t RemoteServer::take_values(MessageReader& reader, std::span<void* const> to) const {
  const auto version = reader.read<int64_t>();
  for (size_t i = 0; i < pieces().size(); ++i) {
    const RangeServer::Piece& piece = pieces()[i];
    piece.for_each_part(piece.reads_rows ? rows_[i] : nullptr, [&](size_t offset, size_t bytes) {
      std::memcpy(static_cast<char*>(to[i]) + offset, reader.read_bytes(bytes), bytes);
    });
  }
  return version;
}

}  // namespace tandem::distribute

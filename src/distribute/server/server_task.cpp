#include "distribute/server/server_task.h"

#include <fmt/format.h>

#include "tandem/error.h"
#include "tandem/log.h"

namespace tandem::distribute {
namespace {

/// The lists of rows in a message, for each piece that has one.
struct ReadRows {
  template <class HasList>
  ReadRows(const RangeServer& server, MessageReader& reader, const HasList& has_list)
      : own(server.pieces().size()), lists(own.size(), nullptr) {
    for (size_t i = 0; i < own.size(); ++i) {
      if (!has_list(server.pieces()[i])) continue;
      own[i] = reader.read_list<int64_t>();
      lists[i] = &own[i];
    }
  }
  ReadRows(const ReadRows&) = delete;
  ReadRows& operator=(const ReadRows&) = delete;

  std::vector<std::vector<int64_t>> own;
  RangeServer::RowLists lists;
};

}  // namespace

void ServerTask::open(RangeServer& server, int64_t session) {
  const std::lock_guard lock(door_);
  server_ = &server;
  session_ = session;
  chief_ = 0;
  const std::lock_guard error_lock(error_mutex_);
  error_.clear();
}

void ServerTask::close() {
  const std::lock_guard lock(door_);
  server_ = nullptr;
}

std::string ServerTask::error() const {
  const std::lock_guard lock(error_mutex_);
  return error_;
}

void ServerTask::on_question(const cluster::Asker& asker, std::string_view question, Reply reply) {
  cluster::ServiceMessage text;
  try {
    const std::shared_lock lock(door_);
    text = answer(question);
  } catch (const std::exception& error) {
    const std::string why = fmt::format("a question of {}: {}", asker.str(), error.what());
    logging::write(logging::Level::error, "parameter server: " + why);
    text = {plain_answer(ServerAnswer::refused, why), {}};
    const std::lock_guard lock(error_mutex_);
    if (error_.empty()) error_ = why;
  }
  reply(std::move(text));
}

cluster::ServiceMessage ServerTask::answer(std::string_view question) {
  MessageReader reader(question);
  const auto kind = reader.read<ServerQuestion>();
  const auto session = reader.read<int64_t>();
  const auto chief = reader.read<uint64_t>();
  if (server_ == nullptr || session > session_) return {plain_answer(ServerAnswer::ask_again), {}};
  if (session < session_) return {plain_answer(ServerAnswer::join_again), {}};
  if (kind == ServerQuestion::write) return {write(reader, chief), {}};
  if (chief_ == 0) return {plain_answer(ServerAnswer::ask_again), {}};
  if (chief != chief_) return {plain_answer(ServerAnswer::join_again), {}};
  switch (kind) {
    case ServerQuestion::exchange:
      return {exchange(reader), {}};
    case ServerQuestion::pull: {
      MessageWriter answer;
      answer.add(ServerAnswer::accepted);
      const auto step = reader.read<int64_t>();
      ReadRows rows(*server_, reader, [](const auto& piece) { return piece.reads_rows; });
      append_values(answer, step, rows.lists);
      return {answer.take(), {}};
    }
    case ServerQuestion::read:
      return read(reader.read<int64_t>());
    case ServerQuestion::peek: {
      MessageWriter answer;
      answer.add(ServerAnswer::accepted);
      server_->append_assigned(answer.bytes());
      return {answer.take(), {}};
    }
    default:
      throw DataLoss("a message of no known kind");
  }
}

/// The version, then the values.
void ServerTask::append_values(MessageWriter& answer, int64_t step,
                               const RangeServer::RowLists& rows) const {
  size_t bytes = sizeof(int64_t);
  for (size_t i = 0; i < server_->pieces().size(); ++i) {
    bytes += server_->pieces()[i].bytes_of(i < rows.size() ? rows[i] : nullptr);
  }
  std::string buffer = cluster::take_buffer(answer.bytes().size() + bytes);
  buffer.append(answer.bytes());
  answer.bytes().swap(buffer);
  const size_t place = answer.bytes().size();
  answer.add(int64_t{0});
  const int64_t version = server_->append_values(step, answer.bytes(), rows);
  std::memcpy(answer.bytes().data() + place, &version, sizeof version);
}

std::string ServerTask::exchange(MessageReader& reader) {
  const auto stamp = reader.read<PushStamp>();
  const bool wants_values = reader.read<bool>();
  RangeServer::Contribution given;
  for (size_t i = 0; i < server_->calls(); ++i) given.conditions.push_back(reader.read<bool>());
  const ReadRows rows(*server_, reader, [](const auto& piece) { return piece.row_elements > 0; });
  given.rows = rows.lists;
  for (size_t i = 0; i < server_->pieces().size(); ++i) {
    reader.align();
    given.pieces.push_back(reader.read_bytes(server_->pieces()[i].bytes_of(rows.lists[i])));
  }
  MessageWriter answer;
  answer.add(ServerAnswer::accepted).add(server_->push(stamp, given));
  if (wants_values) append_values(answer, 0);
  return answer.take();
}

/// A chief that was replaced by a later one writes nothing any more.
std::string ServerTask::write(MessageReader& reader, uint64_t chief) {
  if (chief < chief_) {
    return plain_answer(ServerAnswer::refused, "this chief was replaced by another one");
  }
  const std::string ledger(reader.read_text());
  const auto steps = reader.read_list<int64_t>();
  const auto places = reader.read_list<uint64_t>();
  const bool is_again = reader.read<bool>();
  for (const uint64_t place : places) {
    const StoreRange& range = server_->state().at(place);
    reader.align();
    server_->write_state(place, reader.read_bytes(RangeServer::bytes_of(range)));
  }
  if (!steps.empty()) server_->set_steps(steps);
  // Where it goes on from where it is, what it has made stays known.
  if (is_again || chief_ != chief) server_->restore_ledger(ledger);
  chief_ = chief;
  return plain_answer(ServerAnswer::accepted);
}

cluster::ServiceMessage ServerTask::read(int64_t step) {
  RangeServer::Snapshot now = server_->snapshot(step);
  MessageWriter answer;
  answer.add(ServerAnswer::accepted);
  answer.add_text(server_->statistics().save()).add_text(now.ledger).add_list(now.steps);
  const auto state = std::make_shared<const std::string>(std::move(now.state));
  return {answer.take(), {{state->data(), state->size(), state}}};
}

}  // namespace tandem::distribute

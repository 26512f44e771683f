#include "distribute/server/server_task.h"

#include <fmt/format.h>

#include "checkpoint/files.h"
#include "distribute/server/server_shard.h"
#include "tandem/error.h"
#include "tandem/log.h"

namespace tandem::distribute {
namespace {

/// Throws InvalidArgument for rows that the piece has nothing of, and for rows out of order.
void check_rows(const RangePiece& piece, const std::vector<int64_t>& rows) {
  const int64_t end = (piece.begin + piece.range.count - 1) / piece.row_elements + 1;
  int64_t least = piece.begin / piece.row_elements;
  for (const int64_t row : rows) {
    if (row < least || row >= end) {
      throw InvalidArgument(fmt::format(
          "row {} of variable {}, where rows from {} to {} are accepted", row,
          piece.range.block->name_at(piece.range.offset - piece.begin), least, end - 1));
    }
    least = row + 1;
  }
}

/// The lists of rows in a message, for each piece that has one.
struct ReadRows {
  /// `has_list` reads from the message, where that says it, whether a piece has one.
  template <class HasList>
  ReadRows(const RangeServer& server, MessageReader& reader, const HasList& has_list)
      : own(server.pieces().size()), lists(own.size(), nullptr) {
    for (size_t i = 0; i < own.size(); ++i) {
      const RangePiece& piece = server.pieces()[i];
      if (piece.row_elements == 0 || !has_list()) continue;
      own[i] = reader.read_list<int64_t>();
      check_rows(piece, own[i]);
      lists[i] = &own[i];
    }
  }
  ReadRows(const ReadRows&) = delete;
  ReadRows& operator=(const ReadRows&) = delete;

  std::vector<std::vector<int64_t>> own;
  RowLists lists;
};

cluster::ServiceMessage message_of(std::string text) { return {std::move(text), {}}; }

constexpr const char* kReplaced = "this chief was replaced by another one";

}  // namespace

void ServerTask::open(RangeServer& server, int64_t session, uint64_t incarnation) {
  const std::lock_guard lock(door_);
  server_ = &server;
  session_ = session;
  incarnation_ = incarnation;
  chief_ = 0;
  const std::lock_guard error_lock(error_mutex_);
  error_.clear();
}

void ServerTask::close() {
  const std::lock_guard lock(door_);
  if (server_ != nullptr) server_->meeting().clear(0);
  server_ = nullptr;
}

std::string ServerTask::error() const {
  const std::lock_guard lock(error_mutex_);
  return error_;
}

void ServerTask::on_question(const cluster::Asker& asker, std::string_view question, Reply reply) {
  std::optional<cluster::ServiceMessage> text;
  try {
    const std::shared_lock lock(door_);
    text = answer(question, reply);
  } catch (const std::exception& error) {
    const std::string why = fmt::format("a question of {}: {}", asker.str(), error.what());
    logging::write(logging::Level::error, "parameter server: " + why);
    text = cluster::ServiceMessage{plain_answer(ServerAnswer::refused, why), {}};
    const std::lock_guard lock(error_mutex_);
    if (error_.empty()) error_ = why;
  }
  if (text) reply(std::move(*text));
}

/// Has the sums sent once they are there.
void ServerTask::sum(MessageReader& reader, const Reply& reply) {
  const auto meeting = reader.read<MeetingNumber>();
  const auto share = reader.read<int>();
  const auto send = [reply](const std::optional<std::string>& sums) {
    reply({sums ? plain_answer(ServerAnswer::accepted, *sums)
                : plain_answer(ServerAnswer::join_again),
           {}});
  };
  server_->meeting().give(meeting, share, std::string(reader.read_text()), send);
}

/// Nothing where the answer is sent later.
std::optional<cluster::ServiceMessage> ServerTask::answer(std::string_view question,
                                                          const Reply& reply) {
  MessageReader reader(question);
  const auto kind = reader.read<ServerQuestion>();
  const auto session = reader.read<int64_t>();
  const auto chief = reader.read<uint64_t>();
  if (server_ == nullptr || session > session_)
    return message_of(plain_answer(ServerAnswer::ask_again));
  if (session < session_) return message_of(plain_answer(ServerAnswer::join_again));
  if (kind == ServerQuestion::write) return message_of(write(reader, chief));
  if (kind == ServerQuestion::restore) return message_of(restore(reader, chief));
  if (chief_ == 0) return message_of(plain_answer(ServerAnswer::ask_again));
  if (chief != chief_) return message_of(plain_answer(ServerAnswer::join_again));
  switch (kind) {
    case ServerQuestion::exchange:
      return message_of(exchange(reader));
    case ServerQuestion::pull: {
      // It would have steps applied that are not done any more.
      if (reader.read<int64_t>() < server_->generation()) {
        return message_of(plain_answer(ServerAnswer::join_again));
      }
      MessageWriter answer;
      answer.add(ServerAnswer::accepted);
      const auto step = reader.read<int64_t>();
      const auto squares = reader.read_list<double>();
      const ReadRows rows(*server_, reader, [&] { return reader.read<bool>(); });
      append_values(answer, step, rows.lists, squares);
      return message_of(answer.take());
    }
    case ServerQuestion::norms: {
      MessageWriter answer;
      answer.add(ServerAnswer::accepted);
      append_norm_part(answer, server_->norm_part(reader.read<int64_t>()));
      return message_of(answer.take());
    }
    case ServerQuestion::sum:
      sum(reader, reply);
      return std::nullopt;
    case ServerQuestion::read:
      return read(reader);
    case ServerQuestion::save:
      return message_of(save(reader));
    case ServerQuestion::peek: {
      MessageWriter answer;
      answer.add(ServerAnswer::accepted);
      server_->append_assigned(answer.bytes());
      return message_of(answer.take());
    }
    default:
      throw DataLoss("a message of no known kind");
  }
}

/// The version, then the values.
void ServerTask::append_values(MessageWriter& answer, int64_t step, const RowLists& rows,
                               const RangeServer::Squares& squares) const {
  size_t bytes = sizeof(int64_t);
  for (size_t i = 0; i < server_->pieces().size(); ++i) {
    bytes += server_->pieces()[i].bytes_of(i < rows.size() ? rows[i] : nullptr);
  }
  std::string buffer = cluster::take_buffer(answer.bytes().size() + bytes);
  buffer.append(answer.bytes());
  answer.bytes().swap(buffer);
  const size_t place = answer.bytes().size();
  answer.add(int64_t{0});
  const int64_t version = server_->append_values(step, answer.bytes(), rows, squares);
  std::memcpy(answer.bytes().data() + place, &version, sizeof version);
}

std::string ServerTask::exchange(MessageReader& reader) {
  const auto stamp = reader.read<PushStamp>();
  const bool wants_values = reader.read<bool>();
  Contribution given;
  for (size_t i = 0; i < server_->calls(); ++i) given.conditions.push_back(reader.read<bool>());
  const ReadRows rows(*server_, reader, [] { return true; });
  given.rows = rows.lists;
  const ReadRows next(*server_, reader, [&] { return wants_values && reader.read<bool>(); });
  for (size_t i = 0; i < server_->pieces().size(); ++i) {
    reader.align();
    given.pieces.push_back(reader.read_bytes(server_->pieces()[i].bytes_of(rows.lists[i])));
  }
  MessageWriter answer;
  answer.add(ServerAnswer::accepted).add(server_->push(stamp, given));
  if (wants_values) append_values(answer, 0, next.lists);
  return answer.take();
}

/// A chief that was replaced by a later one writes nothing any more.
std::string ServerTask::write(MessageReader& reader, uint64_t chief) {
  if (is_of_former_chief(chief)) return plain_answer(ServerAnswer::refused, kReplaced);
  if (reader.read<uint64_t>() != incarnation_) return plain_answer(ServerAnswer::ask_again);
  const std::string ledger(reader.read_text());
  const auto generation = reader.read<int64_t>();
  const auto steps = reader.read_list<int64_t>();
  const auto places = reader.read_list<uint64_t>();
  const bool is_again = reader.read<bool>();
  for (const uint64_t place : places) {
    const StoreRange& range = server_->state().at(place);
    reader.align();
    server_->write_state(place, reader.read_bytes(ServerState::bytes_of(range)));
  }
  if (!steps.empty()) server_->set_steps(steps);
  // Where it goes on from where it is, what it has made stays known.
  if (is_again || chief_ != chief) server_->restore_ledger(ledger, generation);
  chief_ = chief;
  return plain_answer(ServerAnswer::accepted);
}

cluster::ServiceMessage ServerTask::read(MessageReader& reader) {
  const auto step = reader.read<int64_t>();
  const auto offset = reader.read<uint64_t>();
  const auto squares = reader.read_list<double>();
  RangeServer::Snapshot now = server_->snapshot(step, offset, kStatePart, squares);
  MessageWriter answer;
  answer.add(ServerAnswer::accepted);
  answer.add_text(server_->statistics().save());
  answer.add_text(now.notes.ledger).add_list(now.notes.steps);
  const auto state = std::make_shared<const std::string>(std::move(now.state));
  return {answer.take(), {{state->data(), state->size(), state}}};
}

/// A file of its own. Without parts it is removed: the chief does not see it.
std::string ServerTask::save(MessageReader& reader) {
  checkpoint::KeeperFile file{.path = std::string(reader.read_text()), .runs = {}};
  file.runs = reader.read_list<checkpoint::KeptBytes>();
  try {
    if (file.runs.empty()) {
      checkpoint::remove_file(file.path.string() + checkpoint::kPartialSuffix);
      return plain_answer(ServerAnswer::accepted);
    }
    const ServerShard shard = write_shard(*server_, file);
    MessageWriter answer;
    answer.add(ServerAnswer::accepted).add(shard.notes_bytes).add(shard.notes_crc);
    return answer.add_list(shard.runs).take();
  } catch (const Unavailable& error) {
    return plain_answer(ServerAnswer::refused, error.what());
  }
}

/// It is to go on from there, once the chief has written what is not in the file.
std::string ServerTask::restore(MessageReader& reader, uint64_t chief) {
  if (is_of_former_chief(chief)) return plain_answer(ServerAnswer::refused, kReplaced);
  ServerShard shard{.path = std::string(reader.read_text())};
  shard.notes_bytes = reader.read<uint64_t>();
  shard.notes_crc = reader.read<uint32_t>();
  shard.runs = reader.read_list<ShardRun>();
  try {
    const RangeServer::Notes notes = restore_shard(*server_, shard);
    MessageWriter answer;
    answer.add(ServerAnswer::accepted).add_text(notes.ledger);
    return answer.add_list(server_->checksums()).take();
  } catch (const Error& error) {
    return plain_answer(ServerAnswer::refused, error.what());
  }
}

}  // namespace tandem::distribute

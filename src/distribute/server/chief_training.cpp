#include "distribute/server/chief_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "checkpoint/files.h"
#include "distribute/strategy_body.h"
#include "runtime/random_calls.h"
#include "tandem/error.h"
#include "tandem/log.h"

namespace tandem::distribute {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr char kZeros[kPieceAlignment] = {};
constexpr auto kPause = 20ms;

}  // namespace

ChiefTraining::ChiefTraining(const Strategy::Body& body, const ParameterServerOptions& options,
                             const ServerCluster& cluster)
    : TaskTraining(body, options, cluster),
      tracer_(strategy_, worker_options(0, StepUse::trace)),
      desk_(std::make_shared<TicketDesk>(options, cluster.servers(), incarnation_)) {
  desk_->on_return = [this](int server, const TicketDesk::ServingProcess& process) {
    take_back(server, process);
  };
  for (int s = 0; s < cluster.servers(); ++s) {
    lines_.push_back(std::make_unique<PatientLine>(cluster_, "ps", s));
  }
  desk_->open_session();
  host_ = std::make_unique<cluster::ServiceHost>(cluster_.own_address(), cluster_.service, desk_);
}

ChiefTraining::~ChiefTraining() { ChiefTraining::close(); }

void ChiefTraining::close() {
  if (std::exchange(is_closed_, true)) return;
  try {
    const bool has_failed = std::uncaught_exceptions() > 0;
    const std::string error = has_failed ? "it has left by an exception" : "";
    end({}, error);
    if (has_failed) desk_->leave(error);
    if (has_worked_ || has_failed) desk_->wait_until_heard(has_looped_ || has_failed);
  } catch (const std::exception& error) {
    logging::write(logging::Level::warning, fmt::format("chief: {}", error.what()));
  }
  host_.reset();
}

/// What was scheduled before is part of what was done.
void ChiefTraining::meet() {
  bring_variables();
  end({}, {});
  desk_->open_session();
  has_ended_ = false;
  is_met_ = true;
}

void ChiefTraining::end(const std::string& result, const std::string& error) {
  const bool was_met = std::exchange(is_met_, false);
  if (std::exchange(has_ended_, true)) return;
  ServerStates states;
  if (current_ != nullptr && error.empty()) states = all_states();
  has_looped_ = current_ != nullptr && !was_met;
  has_worked_ = current_ != nullptr || !result.empty() || !error.empty();
  former_.merge(std::exchange(statistics_, {}));
  current_ = nullptr;
  is_open_ = false;
  desk_->end_session(error, result, std::move(states));
}

ServerStates ChiefTraining::all_states() const {
  uint64_t bytes = 0;
  for (const Known& server : servers_) bytes += server.mirror->state_bytes();
  const auto all = memory_for_states(bytes);
  char* next = all->data();
  for (const Known& server : servers_) {
    const uint64_t own = server.mirror->state_bytes();
    server.mirror->copy_state(0, {next, own});
    next += own;
  }
  return all;
}

StepOutcomePtr ChiefTraining::schedule(const FlatFunction& f, PerReplicas arguments,
                                       const BatchNumber& number) {
  check_open(is_closed_);
  ServerStep& step = traced_step(f, arguments);
  step.check_trains();
  const bool is_other = current_ != nullptr && current_ != &step;
  if (is_other && (is_open_ || is_met_)) throw_two_functions();
  if (has_ended_ || is_other) {
    meet();
    is_met_ = false;
  }
  if (current_ == nullptr) begin(step);
  if (!is_open_) {
    for (size_t s = 0; s < servers_.size(); ++s) write_surely(s, WriteKind::values);
    is_open_ = true;
  } else {
    write_settings();
  }
  // Who is told the next ticket with each needs some in store.
  const int64_t each = step.reads_any_rows() ? 4 : 2;
  const int64_t most_open = each * int64_t{shares_} * cluster_.workers();
  return desk_->add(number, runtime::next_random_run(step.random_calls()), most_open);
}

void ChiefTraining::begin(ServerStep& step) {
  auto mirrors = servers_for(step);
  auto processes = desk_->wait_for_servers(facts_of(step, mirrors));
  servers_.clear();
  for (size_t s = 0; s < mirrors.size(); ++s) {
    servers_.push_back({std::move(mirrors[s]), std::move(processes[s]), UpdateLedger({}).save()});
  }
  current_ = &step;
}

/// The rate may change between steps.
void ChiefTraining::write_settings() {
  for (size_t s = 0; s < servers_.size(); ++s) {
    if (changed_places(servers_[s], WriteKind::settings).empty()) continue;
    write_surely(s, WriteKind::settings);
  }
}

/// The places in the list of its state where the chief has something else than the server.
std::vector<uint64_t> ChiefTraining::changed_places(const Known& known, WriteKind kind) const {
  const std::vector<StoreRange>& state = known.mirror->state();
  std::vector<uint64_t> places;
  const auto look_at = [&](size_t place) {
    const bool is_known = place < known.process.sums.size();
    if (!is_known || known.process.sums[place] != ServerState::checksum_of(state[place]))
      places.push_back(place);
  };
  if (kind == WriteKind::settings) {
    for (const size_t place : known.mirror->settings()) look_at(place);
  } else {
    for (size_t place = 0; place < state.size(); ++place) look_at(place);
  }
  return places;
}

cluster::ServiceMessage ChiefTraining::write_message(Known& known, WriteKind kind) const {
  const std::vector<uint64_t> places = changed_places(known, kind);
  if (!places.empty()) desk_->note_write();
  MessageWriter question = question_of(ServerQuestion::write, desk_->session());
  // Tickets that were given before are void where servers go back.
  const int64_t generation = desk_->generation() + (kind == WriteKind::all ? 1 : 0);
  question.add(incarnation_).add(known.process.incarnation);
  question.add_text(known.ledger).add(generation);
  if (kind != WriteKind::settings) known.mirror->set_steps();  // As the optimizers count here.
  question.add_list(kind == WriteKind::settings ? std::vector<int64_t>() : known.mirror->steps());
  question.add_list(places).add(kind == WriteKind::all).align();
  cluster::ServiceMessage message{question.take(), {}};
  known.process.sums.resize(known.mirror->state().size());
  for (const uint64_t place : places) {
    const StoreRange& range = known.mirror->state()[place];
    const size_t bytes = ServerState::bytes_of(range);
    message.parts.push_back({ServerState::address_of(range), bytes, nullptr});
    const size_t padding = MessageWriter::padding_after(bytes);
    if (padding > 0) message.parts.push_back({kZeros, padding, nullptr});
    known.process.sums[place] = ServerState::checksum_of(range);
  }
  return message;
}

/// There are two chiefs where one was cut off for a while; the later one leads, and nobody does any
/// steps for the other one.
void ChiefTraining::check_not_replaced(size_t server, ServerAnswer answer) {
  if (answer != ServerAnswer::join_again) return;
  is_open_ = false;
  throw Aborted(fmt::format("{} has another chief, which was started later: this one was replaced",
                            lines_[server]->name()));
}

/// Waits for a server that is not there. False where another process is in its place meanwhile: it
/// has not what is taken for granted here, and takes nothing before it is received.
bool ChiefTraining::write(size_t server, WriteKind kind) {
  PatientLine::Question question = lines_[server]->ask(write_message(servers_[server], kind));
  const cluster::ServiceText text = settled_answer(server, question, [&] {
    return desk_->incarnation_of(server) == servers_[server].process.incarnation;
  });
  MessageReader reader(text.view());
  const auto answer = reader.read<ServerAnswer>();
  if (answer == ServerAnswer::accepted) return true;
  if (answer == ServerAnswer::ask_again) return false;
  is_open_ = false;  // It was replaced.
  throw Aborted(fmt::format("{}: {}", lines_[server]->name(), reader.read_text()));
}

/// Another process that is in the server's place gets all first.
void ChiefTraining::write_surely(size_t server, WriteKind kind) {
  while (!write(server, kind)) desk_->receive_returned();
}

/// What a server answers once it is ready: that it does as it is asked, or refuses to; or that it
/// is to be asked again, where `is_waiting`, which is called now and then, is false.
cluster::ServiceText ChiefTraining::settled_answer(size_t server, PatientLine::Question& question,
                                                   const std::function<bool()>& is_waiting) {
  const auto start = Clock::now();
  for (;;) {
    cluster::ServiceText text = lines_[server]->wait(question);
    const auto kind = MessageReader(text.view()).read<ServerAnswer>();
    if (kind == ServerAnswer::accepted || kind == ServerAnswer::refused) return text;
    check_not_replaced(server, kind);
    if (Clock::now() - start > cluster_.patience) {
      throw DeadlineExceeded(fmt::format("{} has not been ready for {:.0f} s",
                                         lines_[server]->name(),
                                         std::chrono::duration<double>(cluster_.patience).count()));
    }
    if (is_waiting && !is_waiting()) return text;
    std::this_thread::sleep_for(kPause);
    question = lines_[server]->ask_again(std::move(question));
  }
}

void ChiefTraining::join() {
  if (!std::exchange(is_open_, false)) return;
  // A server that dies now has lost steps, which are done again.
  for (desk_->wait_for_all(); !read_all(); desk_->wait_for_all()) {
    std::this_thread::sleep_for(kPause);
  }
  desk_->note_kept(desk_->whole_steps());
  // In a loop of its own each task wants what came of it.
  if (!is_met_) desk_->note_values(desk_->whole_steps(), all_states());
}

void ChiefTraining::bring_variables() {
  if (is_open_) join();
}

/// False where some server has come back without what it had.
bool ChiefTraining::read_all() {
  std::vector<ReadState> states(servers_.size());
  for (size_t s = 0; s < states.size(); ++s) {
    states[s].memory = memory_for_states(servers_[s].mirror->state_bytes());
  }
  const auto is_whole = [&] {
    for (size_t s = 0; s < states.size(); ++s) {
      if (states[s].bytes < servers_[s].mirror->state_bytes()) return false;
    }
    return true;
  };
  do {
    if (!read_parts(states)) return false;
  } while (!is_whole());
  // All or none, so that what the chief has is of one time.
  for (size_t s = 0; s < states.size(); ++s) take_state(servers_[s], states[s]);
  // Servers make the same updates; the first one's are counted.
  statistics_ = StalenessStatistics::restore(states[0].statistics);
  return true;
}

/// What servers need of each other to make the last step: see RangeServer.
RangeServer::Squares ChiefTraining::squares_before(int64_t step) {
  if (!current_->clips()) return {};
  std::vector<PatientLine::Question> questions;
  for (const auto& line : lines_) {
    MessageWriter question = question_of(ServerQuestion::norms, desk_->session());
    questions.push_back(line->ask({question.add(incarnation_).add(step).take(), {}}));
  }
  std::vector<RangeServer::NormPart> parts;
  std::vector<const std::vector<RangePiece>*> pieces;
  for (size_t s = 0; s < lines_.size(); ++s) {
    const cluster::ServiceText answer = lines_[s]->wait(questions[s]);
    MessageReader reader(answer.view());
    if (reader.read<ServerAnswer>() != ServerAnswer::accepted) return {};
    parts.push_back(read_norm_part(reader));
    pieces.push_back(&servers_[s].mirror->pieces());
  }
  return servers_[0].mirror->joined(parts, pieces);
}

/// The next part of each server's state.
bool ChiefTraining::read_parts(std::vector<ReadState>& states) {
  std::vector<std::optional<PatientLine::Question>> questions(states.size());
  const int64_t step = desk_->whole_steps();
  const RangeServer::Squares squares = squares_before(step);
  for (size_t s = 0; s < states.size(); ++s) {
    const bool is_whole = states[s].bytes == servers_[s].mirror->state_bytes();
    if (is_whole && states[s].bytes > 0) continue;
    MessageWriter question = question_of(ServerQuestion::read, desk_->session());
    question.add(incarnation_).add(step).add(states[s].bytes).add_list(squares);
    questions[s] = lines_[s]->ask({question.take(), {}});
  }
  bool are_there = true;
  for (size_t s = 0; s < states.size(); ++s) {
    if (!questions[s]) continue;
    are_there = take_part(s, lines_[s]->wait(*questions[s]), states[s]) && are_there;
  }
  return are_there;
}

/// False where the server has not what it had when the first part was read.
bool ChiefTraining::take_part(size_t server, const cluster::ServiceText& answer, ReadState& state) {
  MessageReader reader(answer.view());
  const auto kind = reader.read<ServerAnswer>();
  check_not_replaced(server, kind);
  if (kind != ServerAnswer::accepted) return false;
  state.statistics = reader.read_text();
  RangeServer::Notes notes{.ledger = std::string(reader.read_text()), .steps = {}};
  notes.steps = reader.read_list<int64_t>();
  if (state.bytes > 0 && notes.ledger != state.notes.ledger) return false;
  state.notes = std::move(notes);
  const std::string_view part = reader.rest();
  if (part.size() > servers_[server].mirror->state_bytes() - state.bytes) {
    throw DataLoss(fmt::format("{} has more than it should", lines_[server]->name()));
  }
  std::memcpy(state.memory->data() + state.bytes, part.data(), part.size());
  state.bytes += part.size();
  return true;
}

void ChiefTraining::take_state(Known& known, const ReadState& state) {
  known.ledger = state.notes.ledger;
  known.mirror->set_steps(state.notes.steps);
  known.mirror->write_state_part(0, {state.memory->data(), state.bytes});
  known.process.sums = known.mirror->checksums();
}

/// Is called by the chief's thread while it waits for steps.
void ChiefTraining::take_back(int server, const TicketDesk::ServingProcess& process) {
  const bool all_go_back = options_.staleness == 0;
  for (size_t s = 0; s < servers_.size(); ++s) {
    const bool is_it = static_cast<int>(s) == server;
    if (!is_it && !all_go_back) continue;
    servers_[s].process.sums.clear();
    if (is_it) servers_[s].process = process;
    have_restored(s);
    write(s, WriteKind::all);
  }
  UpdateLedger kept({});
  kept.restore(servers_[static_cast<size_t>(server)].ledger);
  const int64_t lost = desk_->reopen([&](int64_t ticket) { return !kept.has(ticket); });
  logging::write(logging::Level::warning,
                 fmt::format("chief: {} is back with the {} updates that were saved last; {} "
                             "tickets since are handed out again",
                             lines_[static_cast<size_t>(server)]->name(), kept.version(), lost));
}

/// A server takes what it has written to the last checkpoint; what the chief has since had from it
/// is still to be written.
void ChiefTraining::have_restored(size_t server) {
  Known& known = servers_[server];
  if (known.saved.path.empty()) return;
  MessageWriter message = question_of(ServerQuestion::restore, desk_->session());
  message.add(incarnation_).add_text(known.saved.path.string());
  message.add(known.saved.notes_bytes).add(known.saved.notes_crc).add_list(known.saved.runs);
  PatientLine::Question question = lines_[server]->ask({message.take(), {}});
  const cluster::ServiceText text = settled_answer(server, question);
  MessageReader reader(text.view());
  const bool is_restored = reader.read<ServerAnswer>() == ServerAnswer::accepted;
  const std::string ledger_or_error(reader.read_text());
  if (!is_restored) {
    return logging::write(logging::Level::warning,
                          fmt::format("chief: {} cannot restore its part, and is sent it: {}",
                                      lines_[server]->name(), ledger_or_error));
  }
  known.process.sums = reader.read_list<uint64_t>();
  // Else the chief's variables, and what they have, are later.
  if (changed_places(known, WriteKind::all).empty()) known.ledger = ledger_or_error;
  logging::write(logging::Level::warning,
                 fmt::format("chief: {} has restored its part from {}", lines_[server]->name(),
                             known.saved.path.string()));
}

int ChiefTraining::count() const {
  return current_ != nullptr && !has_ended_ ? static_cast<int>(servers_.size()) : 0;
}

std::vector<checkpoint::KeptElements> ChiefTraining::elements_of(const StoreRange& variable) const {
  std::vector<checkpoint::KeptElements> parts;
  for (size_t s = 0; s < servers_.size(); ++s) {
    const RangeServer& mirror = *servers_[s].mirror;
    for (size_t place = 0; place < mirror.state().size(); ++place) {
      const StoreRange& range = mirror.state()[place];
      const int64_t begin = range.offset - variable.offset;
      const bool is_part = range.block == variable.block && range.is_same_for_all() && begin >= 0 &&
                           begin + range.count <= variable.count && range.count > 0;
      const bool is_setting =
          std::ranges::find(mirror.settings(), place) != mirror.settings().end();
      if (is_part && !is_setting) parts.push_back({static_cast<int>(s), place, begin, range.count});
    }
  }
  std::ranges::sort(parts, {}, &checkpoint::KeptElements::begin);
  int64_t end = 0;
  for (const checkpoint::KeptElements& part : parts) {
    if (part.begin != end) return {};  // Not all of it is the servers'.
    end += part.count;
  }
  return end == variable.count ? parts : std::vector<checkpoint::KeptElements>();
}

std::vector<std::optional<checkpoint::WrittenKeeperFile>> ChiefTraining::write_files(
    const std::vector<checkpoint::KeeperFile>& files) {
  std::vector<std::optional<PatientLine::Question>> questions(files.size());
  for (size_t s = 0; s < files.size(); ++s) {
    servers_[s].writing = {};
    if (files[s].runs.empty()) continue;
    MessageWriter question = question_of(ServerQuestion::save, desk_->session());
    question.add(incarnation_).add_text(std::filesystem::absolute(files[s].path).string());
    questions[s] = lines_[s]->ask({question.add_list(files[s].runs).take(), {}});
  }
  std::vector<std::optional<checkpoint::WrittenKeeperFile>> written(files.size());
  for (size_t s = 0; s < files.size(); ++s) {
    if (!questions[s]) continue;
    // One that has come back meanwhile is given what it had first.
    const auto receive = [this] {
      desk_->wait_for_all();
      return true;
    };
    written[s] = take_file(s, settled_answer(s, *questions[s], receive), files[s].path);
  }
  return written;
}

/// Nothing where the chief does not see what the server has written, or where it could not write.
std::optional<checkpoint::WrittenKeeperFile> ChiefTraining::take_file(
    size_t server, const cluster::ServiceText& answer, const std::filesystem::path& path) {
  MessageReader reader(answer.view());
  const bool is_written = reader.read<ServerAnswer>() == ServerAnswer::accepted;
  const auto tell = [&](std::string_view why) {
    logging::write(logging::Level::warning, fmt::format("chief: {} has written no file that is "
                                                        "seen here, so the chief does: {}",
                                                        lines_[server]->name(), why));
    return std::nullopt;
  };
  if (!is_written) return tell(reader.read_text());
  ServerShard shard{.path = std::filesystem::absolute(path)};
  shard.notes_bytes = reader.read<uint64_t>();
  shard.notes_crc = reader.read<uint32_t>();
  shard.runs = reader.read_list<ShardRun>();
  checkpoint::WrittenKeeperFile file{{}, shard.notes_bytes, shard.notes_crc};
  uint64_t bytes = shard.notes_bytes;
  for (const ShardRun& run : shard.runs) {
    file.crcs.push_back(run.crc);
    bytes += run.bytes.count;
  }
  std::error_code unseen;
  const std::string partial = shard.path.string() + checkpoint::kPartialSuffix;
  if (std::filesystem::file_size(partial, unseen) != bytes || unseen) {
    MessageWriter question = question_of(ServerQuestion::save, desk_->session());
    question.add(incarnation_).add_text(shard.path.string());
    question.add_list(std::vector<checkpoint::KeptBytes>());
    lines_[server]->try_once(question.take(), 5s);
    return tell("they share no folder");
  }
  servers_[server].writing = std::move(shard);
  return file;
}

std::string ChiefTraining::notes_of(int keeper) const {
  const Known& known = servers_[static_cast<size_t>(keeper)];
  return text_of({.ledger = known.ledger, .steps = known.mirror->steps()});
}

void ChiefTraining::note_complete() {
  for (Known& known : servers_) known.saved = std::exchange(known.writing, {});
}

bool ChiefTraining::is_done() const { return desk_->all_done(); }

const std::vector<Tensors>& ChiefTraining::results_of(const StepOutcome& outcome) {
  if (!outcome.is_done) desk_->wait_for(outcome);
  return outcome.results;
}

/// What steps assign lies on the first server. It is here for the time of the reading.
void ChiefTraining::read_quietly(const std::function<void()>& read) {
  if (!is_open_) return read();
  MessageWriter question = question_of(ServerQuestion::peek, desk_->session());
  const std::optional<cluster::ServiceText> answer =
      lines_[0]->try_once(question.add(incarnation_).take(), 5s);
  if (!answer) return read();
  MessageReader reader(answer->view());
  if (reader.read<ServerAnswer>() != ServerAnswer::accepted) return read();
  const RangeServer& mirror = *servers_[0].mirror;
  std::vector<std::string> former;
  for (size_t i = mirror.first_assigned(); i < mirror.pieces().size(); ++i) {
    const RangePiece& piece = mirror.pieces()[i];
    piece.range.block->settle_loans();
    char* const here = static_cast<char*>(ServerState::address_of(piece.range));
    former.emplace_back(here, piece.bytes());
    std::memcpy(here, reader.read_bytes(piece.bytes()), piece.bytes());
  }
  read();
  for (size_t i = 0; i < former.size(); ++i) {
    const RangePiece& piece = mirror.pieces()[mirror.first_assigned() + i];
    piece.range.block->settle_loans();
    std::memcpy(ServerState::address_of(piece.range), former[i].data(), former[i].size());
  }
}

StalenessStatistics ChiefTraining::statistics() const {
  StalenessStatistics all = former_;
  all.merge(statistics_);
  return all;
}

std::string ChiefTraining::explain() const {
  std::string text = explained(options_, "in processes of their own, this is the chief");
  for (size_t s = 0; s < servers_.size(); ++s) {
    text += explained(lines_[s]->name(), *servers_[s].mirror);
  }
  return text;
}

}  // namespace tandem::distribute

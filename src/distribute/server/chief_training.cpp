#include "distribute/server/chief_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "checkpoint/crc32c.h"
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

uint32_t checksum_of(const StoreRange& range) {
  return checkpoint::crc32c(RangeServer::address_of(range), RangeServer::bytes_of(range));
}

}  // namespace

ChiefTraining::ChiefTraining(const Strategy::Body& body, const ParameterServerOptions& options,
                             const ServerCluster& cluster)
    : strategy_(handle_of(body)),
      options_(options),
      cluster_(cluster),
      incarnation_(new_incarnation()),
      devices_({body.devices()[0]}),
      tracer_(strategy_, 0, devices_[0], shares_of(options), body.targets().owner,
              options.reproducible),
      desk_(std::make_shared<TicketDesk>(options, cluster.servers(), incarnation_)) {
  desk_->on_return = [this](int server, const std::vector<uint32_t>& sums) {
    take_back(server, sums);
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
    end({}, {});
    if (has_worked_) desk_->wait_until_heard(has_looped_);
  } catch (const std::exception& error) {
    logging::write(logging::Level::warning, fmt::format("chief: {}", error.what()));
  }
  host_.reset();
}

void ChiefTraining::meet() {
  end({}, {});
  desk_->open_session();
  has_ended_ = false;
  is_met_ = true;
}

void ChiefTraining::end(const std::string& result, const std::string& error) {
  const bool was_met = std::exchange(is_met_, false);
  if (std::exchange(has_ended_, true)) return;
  std::shared_ptr<const std::string> states;
  if (current_ != nullptr && error.empty()) states = all_states();
  has_looped_ = current_ != nullptr && !was_met;
  has_worked_ = current_ != nullptr || !result.empty() || !error.empty();
  former_.merge(std::exchange(statistics_, {}));
  current_ = nullptr;
  is_open_ = false;
  desk_->end_session(error, result, std::move(states));
}

std::shared_ptr<const std::string> ChiefTraining::all_states() const {
  std::string all;
  for (const Known& server : servers_) all += server.mirror->snapshot(0).state;
  return std::make_shared<const std::string>(std::move(all));
}

ServerStep& ChiefTraining::traced_step(const FlatFunction& f,
                                       std::span<const PerReplica> arguments) {
  std::unique_ptr<ServerStep>& step = steps_[f.body().get()];
  if (!step) {
    step = std::make_unique<ServerStep>(f, shares_of(options_));
    functions_.push_back(f);
  }
  if (!step->is_traced()) tracer_.compile(*step, arguments);
  return *step;
}

bool ChiefTraining::trains(const FlatFunction& f, std::span<const PerReplica> arguments) {
  return traced_step(f, arguments).trains();
}

StepOutcomePtr ChiefTraining::schedule(const FlatFunction& f, PerReplicas arguments,
                                       const BatchNumber& number) {
  check_open(is_closed_);
  ServerStep& step = traced_step(f, arguments);
  if (!step.trains()) {
    throw InvalidArgument(
        "schedule: the function applies no gradients to variables of the strategy");
  }
  const bool is_other = current_ != nullptr && current_ != &step;
  if (is_other && (is_open_ || is_met_)) throw_two_functions();
  if (has_ended_ || is_other) {
    meet();
    is_met_ = false;
  }
  if (current_ == nullptr) begin(step);
  if (!is_open_) {
    for (size_t s = 0; s < servers_.size(); ++s) write(s, WriteKind::values);
    is_open_ = true;
  } else {
    write_settings();
  }
  const int64_t most_open = 2 * int64_t{shares_of(options_)} * cluster_.workers();
  return desk_->add(number, runtime::next_random_run(step.random_calls()), most_open);
}

void ChiefTraining::begin(ServerStep& step) {
  auto mirrors = make_servers(strategy_, step, options_, cluster_.servers(), devices_);
  std::vector<std::vector<uint32_t>> sums = desk_->wait_for_servers(facts_of(step, mirrors));
  servers_.clear();
  for (size_t s = 0; s < mirrors.size(); ++s) {
    servers_.push_back({std::move(mirrors[s]), std::move(sums[s]), UpdateLedger({}).save()});
  }
  current_ = &step;
}

/// The rate may change between steps.
void ChiefTraining::write_settings() {
  for (size_t s = 0; s < servers_.size(); ++s) {
    if (!changed_places(servers_[s], WriteKind::settings).empty()) write(s, WriteKind::settings);
  }
}

/// The places in the list of its state where the chief has something else than the server.
std::vector<uint64_t> ChiefTraining::changed_places(const Known& known, WriteKind kind) const {
  const std::vector<StoreRange>& state = known.mirror->state();
  std::vector<uint64_t> places;
  const auto look_at = [&](size_t place) {
    const bool is_known = place < known.sums.size();
    if (!is_known || known.sums[place] != checksum_of(state[place])) places.push_back(place);
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
  MessageWriter question = question_of(ServerQuestion::write, desk_->session());
  question.add(incarnation_).add_text(known.ledger);
  if (kind != WriteKind::settings) known.mirror->set_steps();  // As the optimizers count here.
  question.add_list(kind == WriteKind::settings ? std::vector<int64_t>() : known.mirror->steps());
  question.add_list(places).add(kind == WriteKind::all).align();
  cluster::ServiceMessage message{question.take(), {}};
  known.sums.resize(known.mirror->state().size());
  for (const uint64_t place : places) {
    const StoreRange& range = known.mirror->state()[place];
    const size_t bytes = RangeServer::bytes_of(range);
    message.parts.push_back({RangeServer::address_of(range), bytes, nullptr});
    const size_t padding = MessageWriter::padding_after(bytes);
    if (padding > 0) message.parts.push_back({kZeros, padding, nullptr});
    known.sums[place] = checksum_of(range);
  }
  return message;
}

/// Waits for a server that is not there.
void ChiefTraining::write(size_t server, WriteKind kind) {
  const cluster::ServiceMessage message = write_message(servers_[server], kind);
  const auto start = Clock::now();
  for (;;) {
    PatientLine::Question question = lines_[server]->ask(message);
    const cluster::ServiceText text = lines_[server]->wait(question);
    MessageReader reader(text.view());
    const auto kind_of_answer = reader.read<ServerAnswer>();
    if (kind_of_answer == ServerAnswer::accepted) return;
    if (kind_of_answer == ServerAnswer::refused) {
      throw Aborted(fmt::format("{}: {}", lines_[server]->name(), reader.read_text()));
    }
    if (Clock::now() - start > cluster_.patience) {
      throw DeadlineExceeded(fmt::format("{} has not been ready for {:.0f} s",
                                         lines_[server]->name(),
                                         std::chrono::duration<double>(cluster_.patience).count()));
    }
    std::this_thread::sleep_for(kPause);
  }
}

void ChiefTraining::join() {
  if (!is_open_) return;
  // A server that dies now has lost steps, which are done again.
  for (desk_->wait_for_all(); !read_all(); desk_->wait_for_all()) {
    std::this_thread::sleep_for(kPause);
  }
  is_open_ = false;
  // In a loop of its own each task wants what came of it.
  if (!is_met_) desk_->note_values(desk_->whole_steps(), all_states());
}

/// False where some server has come back without what it had.
bool ChiefTraining::read_all() {
  std::vector<PatientLine::Question> questions;
  const int64_t step = desk_->whole_steps();
  for (const auto& line : lines_) {
    MessageWriter question = question_of(ServerQuestion::read, desk_->session());
    questions.push_back(line->ask({question.add(incarnation_).add(step).take(), {}}));
  }
  std::vector<cluster::ServiceText> answers;
  for (size_t s = 0; s < lines_.size(); ++s) answers.push_back(lines_[s]->wait(questions[s]));
  // All or none, so that what the chief has is of one time.
  for (const cluster::ServiceText& answer : answers) {
    if (MessageReader(answer.view()).read<ServerAnswer>() != ServerAnswer::accepted) return false;
  }
  for (size_t s = 0; s < answers.size(); ++s) take_state(servers_[s], answers[s], s == 0);
  return true;
}

void ChiefTraining::take_state(Known& known, const cluster::ServiceText& answer,
                               bool has_statistics) {
  MessageReader reader(answer.view());
  reader.read<ServerAnswer>();
  const std::string statistics(reader.read_text());
  // Servers make the same updates; the first one's are counted.
  if (has_statistics) statistics_ = StalenessStatistics::restore(statistics);
  known.ledger = reader.read_text();
  known.mirror->set_steps(reader.read_list<int64_t>());
  const std::vector<StoreRange>& state = known.mirror->state();
  for (size_t place = 0; place < state.size(); ++place) {
    known.mirror->write_state(place, reader.read_bytes(RangeServer::bytes_of(state[place])));
  }
  known.sums = known.mirror->checksums();
}

/// Is called by the chief's thread while it waits for steps.
void ChiefTraining::take_back(int server, const std::vector<uint32_t>& sums) {
  const bool all_go_back = options_.staleness == 0;
  for (size_t s = 0; s < servers_.size(); ++s) {
    const bool is_it = static_cast<int>(s) == server;
    if (!is_it && !all_go_back) continue;
    servers_[s].sums = is_it ? sums : std::vector<uint32_t>();
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
    const RangeServer::Piece& piece = mirror.pieces()[i];
    piece.range.block->settle_loans();
    char* const here = static_cast<char*>(RangeServer::address_of(piece.range));
    former.emplace_back(here, piece.bytes());
    std::memcpy(here, reader.read_bytes(piece.bytes()), piece.bytes());
  }
  read();
  for (size_t i = 0; i < former.size(); ++i) {
    const RangeServer::Piece& piece = mirror.pieces()[mirror.first_assigned() + i];
    piece.range.block->settle_loans();
    std::memcpy(RangeServer::address_of(piece.range), former[i].data(), former[i].size());
  }
}

StalenessStatistics ChiefTraining::statistics() const {
  StalenessStatistics all = former_;
  all.merge(statistics_);
  return all;
}

std::string ChiefTraining::explain() const {
  const std::string bound = options_.staleness == unbounded
                                ? "workers never wait for each other"
                                : fmt::format("staleness {}", options_.staleness);
  std::string text =
      fmt::format("{} workers and {} servers in processes of their own, this is the chief; {}\n",
                  cluster_.workers(), cluster_.servers(), bound);
  for (size_t s = 0; s < servers_.size(); ++s) {
    size_t bytes = 0;
    for (const RangeServer::Piece& piece : servers_[s].mirror->pieces()) bytes += piece.bytes();
    text += fmt::format("  {} has {} bytes in {} pieces\n", lines_[s]->name(), bytes,
                        servers_[s].mirror->pieces().size());
  }
  return text;
}

}  // namespace tandem::distribute

#include "cluster/coordinator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>

#include <algorithm>
#include <random>
#include <sstream>

#include "cluster/reachability.h"
#include "tandem/error.h"
#include "tandem/log.h"

namespace tandem::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kMostPending = 64;
constexpr seconds kHandshakeTime{5};
constexpr seconds kSayMissingEvery{10};
constexpr milliseconds kProbeAfter{4000};
constexpr milliseconds kUnreachableAfter{5000};
constexpr milliseconds kSilentAfter{10000};
constexpr milliseconds kGraceOfDeath{100};
constexpr milliseconds kGraceOfLauncher{1000};
constexpr milliseconds kGraceOfSuspicion{1500};
constexpr milliseconds kGraceOfGathering{1500};
constexpr milliseconds kGraceOfMissed{5000};
/// What stands before the ranks in Exchanger::Waiting::text.
constexpr std::string_view kForRank = ", for rank ";
constexpr size_t kMostTextBytes = size_t{256} << 20;
constexpr size_t kTextPiece = size_t{256} << 10;

double seconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

std::string host_part(const std::string& address) { return address.substr(0, address.rfind(':')); }

}  // namespace

/// A stream that somebody opened: nobody knows who it is until it has proved itself.
class Coordinator::Visitor final : public FrameHandler,
                                   public std::enable_shared_from_this<Visitor> {
 public:
  Visitor(std::shared_ptr<Anchor> anchor, std::shared_ptr<FrameStream> stream)
      : stream(std::move(stream)), since(Clock::now()), anchor_(std::move(anchor)) {}

  void on_frame(std::string bytes) override {
    const std::lock_guard lock(anchor_->mutex);
    if (anchor_->coordinator == nullptr || refused) return;
    const auto frame = decode(bytes);
    std::string wrong = "what it says is no frame";
    if (frame) wrong = state == State::known ? hear(*frame) : shake_hands(*frame, bytes.size());
    if (!wrong.empty()) refuse(wrong);
  }

  void on_end(const std::string&) override {
    const std::lock_guard lock(anchor_->mutex);
    if (anchor_->coordinator == nullptr) return;
    if (state != State::known) --anchor_->coordinator->pending_;
    if (state == State::known && !beats && generation != nullptr) {
      anchor_->coordinator->on_stream_end(*generation, introduction.rank);
    }
    state = State::known;
    generation = nullptr;
  }

  void refuse(const std::string& why) {
    turn_away({why});
    if (anchor_->coordinator != nullptr) {
      anchor_->coordinator->log_of_visitor(stream->peer(), "refused somebody at", why);
    }
  }

  /// Many visitors have not proved themselves yet. A member tries again.
  void put_off() {
    const char* why = "many others wait to be let in";
    turn_away({why, "later"});
    anchor_->coordinator->log_of_visitor(stream->peer(), "put off somebody at", why);
  }

  enum class State { silent, challenged, known };
  State state = State::silent;
  bool refused = false;
  bool beats = false;
  Introduction introduction;
  Generation* generation = nullptr;
  std::shared_ptr<FrameStream> stream;
  Clock::time_point since;

 private:
  void turn_away(std::vector<std::string> words) {
    refused = true;
    stream->send(Frame{FrameType::refused, std::move(words)}.encode());
    stream->close();
  }

  std::string hear(const Frame& frame) {
    Coordinator& coordinator = *anchor_->coordinator;
    if (generation == nullptr) return "";
    if (beats) {
      coordinator.on_beat(*generation, introduction.rank, frame);
      stream->send(Frame{FrameType::beat, {}}.encode());
    } else {
      coordinator.on_member_frame(*generation, introduction.rank, frame);
    }
    return "";
  }

  std::string shake_hands(const Frame& frame, size_t bytes) {
    constexpr size_t kMostHandshakeBytes = 64 << 10;  // A transport's address is in it.
    const CoordinatorOptions& options = anchor_->coordinator->options_;
    if (bytes > kMostHandshakeBytes) return "its introduction is too long";
    if (state == State::silent && frame.type == FrameType::hello) {
      introduction = {frame.field(1),
                      frame.field(2),
                      static_cast<int>(frame.number(3)),
                      static_cast<int>(frame.number(4)),
                      frame.field(5),
                      make_nonce()};
      if (frame.field(0) != "tandem 1")
        return fmt::format("it speaks '{:.20}' instead of 'tandem 1'", frame.field(0));
      if (introduction.member_nonce.size() != 32) return "its nonce is none";
      stream->send(Frame{
          FrameType::challenge,
          {introduction.coordinator_nonce, proof_of(options.secret, "coordinator", introduction)}}
                       .encode());
      state = State::challenged;
      return "";
    }
    if (state != State::challenged || frame.type != FrameType::proof)
      return "it does not introduce itself";
    if (!equal_proofs(frame.field(0), proof_of(options.secret, "member", introduction))) {
      return "it does not know the cluster's secret";
    }
    state = State::known;
    --anchor_->coordinator->pending_;
    return anchor_->coordinator->join(shared_from_this(), frame);
  }

  std::shared_ptr<Anchor> anchor_;
};

Coordinator::Coordinator(CoordinatorOptions options)
    : options_(std::move(options)), anchor_(std::make_shared<Anchor>()) {
  anchor_->coordinator = this;
  open_generation();
  const auto accept = [anchor = anchor_](const std::shared_ptr<FrameStream>& stream) {
    auto visitor = std::make_shared<Visitor>(anchor, stream);
    const std::lock_guard lock(anchor->mutex);
    Coordinator* coordinator = anchor->coordinator;
    if (coordinator == nullptr) return visitor;
    ++coordinator->pending_;
    if (coordinator->pending_ > kMostPending) visitor->put_off();
    coordinator->visitors_.push_back(visitor);
    return visitor;
  };
  std::string error;
  server_ = frame_plugin().listen(options_.listen, options_.tls, accept, error);
  if (server_ == nullptr) {
    anchor_->coordinator = nullptr;
    throw Unavailable(fmt::format("cluster: the coordinator at {}: {}", options_.listen, error));
  }
  thread_ = std::thread([this] { watch(); });
  pthread_setname_np(thread_.native_handle(), "tandem-coord");
}

Coordinator::~Coordinator() {
  {
    const std::lock_guard lock(anchor_->mutex);
    ending_ = true;
    for (Generation& generation : generations_) {
      for (Membership& member : generation.members) {
        if (member.stream != nullptr) member.stream->send(Frame{FrameType::leaving, {}}.encode());
      }
    }
  }
  ended_.notify_all();
  thread_.join();
  {
    const std::lock_guard lock(anchor_->mutex);
    anchor_->coordinator = nullptr;
  }
  server_.reset();
}

void Coordinator::report_exit(int rank, const std::string& cause) {
  const std::lock_guard lock(anchor_->mutex);
  exits_[rank] = cause;
}

std::optional<Verdict> Coordinator::verdict() const {
  const std::lock_guard lock(anchor_->mutex);
  for (const Generation& generation : generations_) {
    if (generation.verdict) return generation.verdict;
  }
  return std::nullopt;
}

void Coordinator::log(const std::string& text) const {
  if (options_.log) {
    options_.log(text);
  } else {
    logging::write(logging::Level::info, "cluster: " + text);
  }
}

/// Each address is told of once a minute.
void Coordinator::log_of_visitor(const std::string& peer, const char* what,
                                 const std::string& why) {
  constexpr size_t kMostAddresses = 1000;
  const auto now = Clock::now();
  const auto found = refused_.find(host_part(peer));
  if (found != refused_.end() && now - found->second < seconds(60)) return;
  if (refused_.size() >= kMostAddresses) refused_.clear();
  refused_[host_part(peer)] = now;
  log(fmt::format("{} {}: {}", what, peer, why));
}

void Coordinator::open_generation() {
  const int number = generations_.empty() ? 1 : generations_.back().number + 1;
  Generation& generation = generations_.emplace_back();
  generation.number = number;
  generation.members.resize(static_cast<size_t>(options_.size));
  generation.opened = generation.said = Clock::now();
}

/// Lets a visitor in that has proved itself; what is wrong with it, or nothing.
std::string Coordinator::join(const std::shared_ptr<Visitor>& visitor, const Frame& proof) {
  const Introduction& who = visitor->introduction;
  if (who.cluster != options_.cluster) {
    return fmt::format("it belongs to the cluster '{:.80}', this is '{}'", who.cluster,
                       options_.cluster);
  }
  if (who.size != options_.size) {
    return fmt::format("it is one of {} ranks, and here {} meet", who.size, options_.size);
  }
  if (who.rank < 0 || who.rank >= options_.size)
    return fmt::format("there is no rank {}", who.rank);
  if (who.purpose.starts_with("beat ")) {
    for (Generation& generation : generations_) {
      if (who.purpose != fmt::format("beat {}", generation.number)) continue;
      visitor->generation = &generation;
      visitor->beats = true;
      return "";
    }
    return "its generation is over";
  }
  if (who.purpose != "join") return fmt::format("it wants to '{:.20}'", who.purpose);
  if (generations_.back().running) open_generation();
  Generation& generation = generations_.back();
  Membership& member = generation.members[static_cast<size_t>(who.rank)];
  if (member.present) {
    return fmt::format("rank {} is here already, as process {} on {}", who.rank, member.process,
                       member.host);
  }
  visitor->generation = &generation;
  member.present = member.connected = true;
  member.stream = visitor->stream;
  member.from = visitor->stream->peer();
  member.host = proof.field(1);
  member.process = proof.field(2);
  member.task = proof.field(3);
  member.address = proof.field(4);
  member.heard = Clock::now();
  if (generation.verdict) {
    member.stream->send(
        Frame{FrameType::verdict, {generation.verdict->kind, generation.verdict->text}}.encode());
  } else if (std::ranges::all_of(generation.members,
                                 [](const Membership& m) { return m.present; })) {
    welcome(generation);
  }
  return "";
}

void Coordinator::welcome(Generation& generation) {
  generation.running = true;
  std::random_device random;
  Frame frame{FrameType::welcome, {std::to_string(generation.number), std::to_string(random())}};
  for (Membership& member : generation.members) {
    frame.fields.insert(frame.fields.end(),
                        {member.host, member.process, member.task, member.address});
    member.heard = Clock::now();
  }
  for (const Membership& member : generation.members) member.stream->send(frame.encode());
}

std::string Coordinator::describe(const Generation& generation, int rank) const {
  const Membership& member = generation.members[static_cast<size_t>(rank)];
  if (!member.present) return fmt::format("rank {}", rank);
  return fmt::format("rank {} ({}, {}, process {})", rank, member.task, member.host,
                     member.process);
}

/// ", in backward of step 812"
std::string Coordinator::place_of(const Membership& member) const {
  if (member.phase.empty()) return "";
  return fmt::format(", in {} of step {}", member.phase, member.step);
}

void Coordinator::on_member_frame(Generation& generation, int rank, const Frame& frame) {
  Membership& member = generation.members[static_cast<size_t>(rank)];
  switch (frame.type) {
    case FrameType::text:
      return on_text(generation, rank, frame);
    case FrameType::trouble:
      return on_trouble(generation, rank, frame);
    case FrameType::abort:
      return decide(generation, rank, "Aborted",
                    fmt::format("{}: {}", describe(generation, rank), frame.field(0)));
    case FrameType::leaving:
      member.left = true;
      return;
    default:
      return;
  }
}

void Coordinator::on_beat(Generation& generation, int rank, const Frame& frame) {
  Membership& member = generation.members[static_cast<size_t>(rank)];
  member.beats = true;
  member.heard = Clock::now();
  member.probed = false;
  member.phase = frame.field(0);
  member.step = frame.field(1);
  member.in_phase = frame.field(2);
  const bool waits_as_before = !member.waits_for.empty() && member.exchange == frame.field(4);
  if (!waits_as_before) member.waits_since = member.heard;
  member.waits_for = frame.field(3);
  member.exchange = frame.field(4);
  member.signature = frame.field(5);
  if (member.waits_for.empty()) return;
  for (int r = 0; r < options_.size; ++r) {
    const Membership& other = generation.members[static_cast<size_t>(r)];
    if (other.waits_for.empty() || other.exchange != member.exchange ||
        other.signature == member.signature) {
      continue;
    }
    return decide(
        generation, -1, "FailedPrecondition",
        fmt::format("the ranks do not do the same: exchange #{} is {} on {}, and {} on {}",
                    member.exchange, member.signature, describe(generation, rank), other.signature,
                    describe(generation, r)));
  }
}

void Coordinator::on_text(Generation& generation, int rank, const Frame& frame) {
  Gathering& gathering = generation.gatherings[frame.field(0)];
  if (gathering.texts.empty()) {
    gathering.name = frame.field(1);
    gathering.since = Clock::now();
  }
  if (gathering.name != frame.field(1)) {
    return decide(generation, rank, "FailedPrecondition",
                  fmt::format("{} gathers '{}' where others gather '{}'",
                              describe(generation, rank), frame.field(1), gathering.name));
  }
  std::string& text = gathering.texts[rank];
  text += frame.field(2);
  if (text.size() > kMostTextBytes) {
    return decide(generation, rank, "FailedPrecondition",
                  fmt::format("{} gathers a text '{}' of more than {} bytes",
                              describe(generation, rank), gathering.name, kMostTextBytes));
  }
  if (frame.field(3) == "1") gathering.complete.insert(rank);
  if (static_cast<int>(gathering.complete.size()) < options_.size) return;
  for (const auto& [from, whole] : gathering.texts) {
    size_t at = 0;
    do {
      const bool last = whole.size() - at <= kTextPiece;
      const Frame piece{
          FrameType::texts,
          {frame.field(0), std::to_string(from), whole.substr(at, kTextPiece), last ? "1" : "0"}};
      const std::string bytes = piece.encode();
      for (const Membership& member : generation.members) member.stream->send(bytes);
      at += kTextPiece;
    } while (at < whole.size());
  }
  generation.gatherings.erase(frame.field(0));
}

/// A member's exchange does not go on.
void Coordinator::on_trouble(Generation& generation, int rank, const Frame& frame) {
  if (generation.verdict) return;
  std::vector<int> awaited;
  for (size_t i = 4; i < frame.fields.size(); ++i) {
    const auto other = static_cast<int>(frame.number(i));
    if (other >= 0 && other < options_.size && other != rank) awaited.push_back(other);
  }
  const std::string& exchange = frame.field(1);
  if (frame.field(0) == "gather") {
    const auto found = generation.gatherings.find(exchange);
    awaited.clear();
    for (int r = 0; r < options_.size; ++r) {
      if (found != generation.gatherings.end() && !found->second.complete.contains(r))
        awaited.push_back(r);
    }
  }
  if (frame.field(0) == "lost" && !awaited.empty()) {
    Membership& member = generation.members[static_cast<size_t>(awaited[0])];
    member.suspected = Clock::now();
    member.suspicion = fmt::format("rank {} in {}", rank, exchange);
    return;
  }
  // Some of those that are awaited wait themselves for the one that is late.
  const auto waits = [&](int r) {
    return !generation.members[static_cast<size_t>(r)].waits_for.empty();
  };
  if (!std::ranges::all_of(awaited, waits)) std::erase_if(awaited, waits);
  std::vector<int> present;
  std::vector<std::string> missing;
  for (int r = 0; r < options_.size; ++r) {
    if (std::ranges::find(awaited, r) == awaited.end()) {
      present.push_back(r);
      continue;
    }
    const Membership& member = generation.members[static_cast<size_t>(r)];
    std::string text = describe(generation, r) + place_of(member);
    if (member.left) {
      text += ", which has ended its part";
    } else if (!member.in_phase.empty() && !member.phase.empty()) {
      text += fmt::format(" since {} s", member.in_phase);
    }
    missing.push_back(text);
  }
  const std::string what =
      frame.field(0) == "gather" ? fmt::format("gathering '{}'", frame.field(3)) : exchange;
  decide(generation, awaited.empty() ? -1 : awaited.front(), "DeadlineExceeded",
         fmt::format("{} waited {} s: have {}; missing {}", what, frame.field(2),
                     fmt::join(present, ", "), fmt::join(missing, "; ")));
}

void Coordinator::on_stream_end(Generation& generation, int rank) {
  Membership& member = generation.members[static_cast<size_t>(rank)];
  member.connected = false;
  if (!generation.running) {
    return decide(generation, rank, "Unavailable",
                  fmt::format("{} died while others were awaited", describe(generation, rank)));
  }
  member.lost = Clock::now();
}

void Coordinator::decide(Generation& generation, int rank, const char* kind,
                         const std::string& text, const std::string& to_rank) {
  if (generation.verdict) return;
  generation.verdict = {kind, text, rank};
  generation.running = true;  // Nobody can join it any more.
  log(text);
  for (int r = 0; r < options_.size; ++r) {
    const Membership& member = generation.members[static_cast<size_t>(r)];
    if (member.stream == nullptr) continue;
    const bool apart = r == rank && !to_rank.empty();
    member.stream->send(Frame{FrameType::verdict, {kind, apart ? to_rank : text}}.encode());
  }
}

void Coordinator::decide_death(Generation& generation, int rank) {
  const Membership& member = generation.members[static_cast<size_t>(rank)];
  const auto cause = exits_.find(rank);
  decide(generation, rank, "Unavailable",
         fmt::format("{} died{}{}{}", describe(generation, rank),
                     cause == exits_.end() ? "" : ": " + cause->second, place_of(member),
                     member.suspicion.empty() ? "" : "; seen by " + member.suspicion));
}

void Coordinator::watch() {
  std::unique_lock lock(anchor_->mutex);
  auto last = Clock::now();
  while (!ending_) {
    ended_.wait_for(lock, milliseconds(50));
    const auto now = Clock::now();
    // Whoever was stopped itself has heard nobody.
    const bool slept = now - last > seconds(2);
    last = now;
    for (Generation& generation : generations_) {
      if (generation.verdict) continue;
      if (!generation.running) {
        watch_start(generation, now);
        continue;
      }
      for (int r = 0; r < options_.size && !generation.verdict && !ending_; ++r) {
        if (slept) generation.members[static_cast<size_t>(r)].heard = now;
        watch_member(generation, r, now, lock);
      }
      if (!generation.verdict) watch_gatherings(generation, now);
    }
    close_idle_visitors(now);
  }
}

void Coordinator::close_idle_visitors(Clock::time_point now) {
  std::erase_if(visitors_, [&](const std::weak_ptr<Visitor>& entry) {
    const auto visitor = entry.lock();
    if (visitor == nullptr || visitor->state == Visitor::State::known || visitor->refused)
      return true;
    if (now - visitor->since < kHandshakeTime) return false;
    visitor->refuse("it does not introduce itself in time");
    return true;
  });
}

/// Finds texts that are gathered in vain: one of those who are awaited has ended its part, or each
/// of them waits in an exchange, for those who gather.
void Coordinator::watch_gatherings(Generation& generation, Clock::time_point now) {
  for (const auto& [number, gathering] : generation.gatherings) {
    const auto gathers = [&](int r) { return gathering.complete.contains(r); };
    int first = 0;
    while (first < options_.size && !gathers(first)) ++first;
    if (first == options_.size) continue;
    const std::string who =
        fmt::format("{} in gathering '{}'", describe(generation, first), gathering.name);
    int stuck = -1;
    bool all_stuck = now - gathering.since >= kGraceOfGathering;
    for (int r = 0; r < options_.size; ++r) {
      if (gathers(r)) continue;
      const Membership& member = generation.members[static_cast<size_t>(r)];
      if (member.left) {
        return decide(generation, r, "Unavailable",
                      fmt::format("{} has ended its part{}, and {} waits for it",
                                  describe(generation, r), place_of(member), who));
      }
      const bool waits = !member.waits_for.empty() && now - member.heard < kGraceOfGathering &&
                         now - member.waits_since >= kGraceOfGathering;
      all_stuck = all_stuck && waits;
      if (stuck < 0) stuck = r;
    }
    if (!all_stuck || stuck < 0) continue;
    return decide(generation, -1, "FailedPrecondition",
                  fmt::format("the ranks do not do the same: {} waits in {}, and {}; each call of "
                              "fit, evaluate, predict, save and restore is one of all ranks",
                              describe(generation, stuck),
                              generation.members[static_cast<size_t>(stuck)].waits_for, who));
  }
}

void Coordinator::watch_start(Generation& generation, Clock::time_point now) {
  std::vector<int> missing;
  for (int r = 0; r < options_.size; ++r) {
    if (!generation.members[static_cast<size_t>(r)].present) missing.push_back(r);
  }
  const bool some = static_cast<int>(missing.size()) < options_.size;
  for (const int r : missing) {  // A program that nobody joins from has no need to meet.
    if (!some || !exits_.contains(r)) continue;
    return decide(generation, r, "Unavailable",
                  fmt::format("rank {} ended before all had met: {}", r, exits_[r]));
  }
  if (!some || now - generation.said < kSayMissingEvery) return;
  generation.said = now;
  log(fmt::format("waiting for rank{} {} since {:.0f} s", missing.size() > 1 ? "s" : "",
                  fmt::join(missing, ", "), seconds_since(generation.opened)));
}

/// A rank has ended its part. Where its last messages were lost, others may wait for it.
void Coordinator::watch_who_waits_for(Generation& generation, int rank, Clock::time_point now) {
  for (int r = 0; r < options_.size; ++r) {
    const Membership& other = generation.members[static_cast<size_t>(r)];
    if (other.left || now - other.waits_since < kGraceOfMissed) continue;
    const size_t list = other.waits_for.rfind(kForRank);
    if (list == std::string::npos) continue;
    std::istringstream ranks(other.waits_for.substr(list + kForRank.size()));
    for (int awaited = -1; ranks >> awaited; ranks.ignore(1, ',')) {
      if (awaited != rank) continue;
      return decide(generation, rank, "Unavailable",
                    fmt::format("{} has ended its part{}, and rank {} in {} waits for it",
                                describe(generation, rank),
                                place_of(generation.members[static_cast<size_t>(rank)]), r,
                                other.waits_for.substr(0, list)));
    }
  }
}

void Coordinator::watch_member(Generation& generation, int rank, Clock::time_point now,
                               std::unique_lock<std::mutex>& lock) {
  Membership& member = generation.members[static_cast<size_t>(rank)];
  if (member.left && !member.suspicion.empty()) {
    return decide(generation, rank, "Unavailable",
                  fmt::format("{} has ended its part{}, and {} waits for it",
                              describe(generation, rank), place_of(member), member.suspicion));
  }
  if (member.left) return watch_who_waits_for(generation, rank, now);
  if (!member.connected) {
    const auto grace =
        options_.watches_processes && !exits_.contains(rank) ? kGraceOfLauncher : kGraceOfDeath;
    if (now - member.lost >= grace) decide_death(generation, rank);
    return;
  }
  if (!member.suspicion.empty() && now - member.suspected >= kGraceOfSuspicion) {
    return decide(generation, rank, "Unavailable",
                  fmt::format("{} lost its connection to {}{}", member.suspicion,
                              describe(generation, rank), place_of(member)));
  }
  const auto silence = now - member.heard;
  if (silence < kProbeAfter) return;
  if (!member.probed) {
    member.probed = true;
    const std::string address = member.from;
    lock.unlock();
    const bool answers = machine_answers(address, milliseconds(900));
    lock.lock();
    member.answers = answers;
    return;
  }
  const std::string expelled =
      fmt::format("this process was expelled at generation {}: it was silent for {:.0f} s",
                  generation.number, std::chrono::duration<double>(silence).count());
  if (!member.answers && silence >= kUnreachableAfter) {
    decide(generation, rank, "Unavailable",
           fmt::format("{} cannot be reached for {:.0f} s; last heard{}",
                       describe(generation, rank), std::chrono::duration<double>(silence).count(),
                       member.phase.empty() ? " before its first step" : place_of(member)),
           expelled);
  } else if (silence >= kSilentAfter) {
    decide(
        generation, rank, "Unavailable",
        fmt::format(
            "{} is silent for {:.0f} s{}; its machine answers: the process is stopped or starved",
            describe(generation, rank), std::chrono::duration<double>(silence).count(),
            place_of(member)),
        expelled);
  }
}

}  // namespace tandem::cluster

#include "cluster/member.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>

#include "cluster/reachability.h"
#include "core/background.h"
#include "tandem/cluster.h"
#include "tandem/interruption.h"
#include "tandem/log.h"

namespace tandem::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kBeatEvery{500};
constexpr milliseconds kProbeAfter{4000};
constexpr milliseconds kUnreachableAfter{5000};
constexpr milliseconds kSilentAfter{10000};
constexpr milliseconds kPatienceForVerdict{4000};
constexpr size_t kTextPiece = size_t{256} << 10;

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

double seconds_of(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

/// A connection to the coordinator, from the first word on.
class Member::Line final : public FrameHandler {
 public:
  Line(std::shared_ptr<Anchor> anchor, Introduction introduction)
      : introduction(std::move(introduction)), anchor_(std::move(anchor)) {}

  void on_frame(std::string bytes) override {
    const std::lock_guard lock(anchor_->mutex);
    Member* member = anchor_->member;
    const auto frame = decode(bytes);
    if (member == nullptr || !frame) return;
    if (frame->type == FrameType::challenge && !known) return answer(*member, *frame);
    if (frame->type == FrameType::refused) {
      const bool may_try_again = frame->field(1) == "later";
      if (member->refusal_.empty() && !may_try_again) member->refusal_ = frame->field(0);
    } else if (known) {
      if (beats()) {
        member->heard_ = Clock::now();
        member->probed_ = false;
      } else {
        member->on_frame(*frame);
      }
    }
    anchor_->changed.notify_all();
  }

  void on_end(const std::string& why) override {
    const std::lock_guard lock(anchor_->mutex);
    ended = true;
    if (anchor_->member != nullptr) anchor_->member->on_line_end(beats(), why);
    anchor_->changed.notify_all();
  }

  bool beats() const { return introduction.purpose != "join"; }

  Introduction introduction;
  std::shared_ptr<FrameStream> stream;
  bool known = false;
  bool ended = false;

 private:
  void answer(Member& member, const Frame& challenge) {
    introduction.coordinator_nonce = challenge.field(0);
    const std::string& secret = member.options_.secret;
    if (!equal_proofs(challenge.field(1), proof_of(secret, "coordinator", introduction))) {
      member.refusal_ =
          "the coordinator there does not know this process's secret, or it is another cluster's";
      anchor_->changed.notify_all();
      stream->close();
      return;
    }
    known = true;
    const Cluster& cluster = member.options_.cluster;
    Frame proof{FrameType::proof, {proof_of(secret, "member", introduction)}};
    if (!beats()) {
      proof.fields.insert(proof.fields.end(),
                          {host_name(), std::to_string(getpid()), cluster.task_name(cluster.rank),
                           member.options_.address});
    }
    stream->send(proof.encode());
  }

  std::shared_ptr<Anchor> anchor_;
};

Member::Member(MemberOptions options)
    : options_(std::move(options)),
      anchor_(std::make_shared<Anchor>()),
      phase_since_(Clock::now()) {
  anchor_->member = this;
  try {
    wait_for_all();
    beats_ = open_line(fmt::format("beat {}", generation_));
  } catch (...) {
    std::unique_lock lock(anchor_->mutex);
    anchor_->member = nullptr;
    if (control_ != nullptr) {
      control_->stream->cut();
      anchor_->changed.wait_for(lock, seconds(2), [&] { return control_->ended; });
    }
    throw;
  }
  heard_ = Clock::now();
}

Member::~Member() {
  {
    const std::lock_guard lock(anchor_->mutex);
    ending_ = true;
  }
  anchor_->changed.notify_all();
  if (thread_.joinable()) thread_.join();
  std::unique_lock lock(anchor_->mutex);
  anchor_->member = nullptr;
  // After an error it does not go of its own will: whoever does not know of the error yet finds
  // that this process is gone.
  if (!verdict_) control_->stream->send(Frame{FrameType::leaving, {}}.encode());
  control_->stream->close();
  beats_->stream->close();
  anchor_->changed.wait_for(lock, seconds(1), [&] { return control_->ended && beats_->ended; });
  control_->stream->cut();
  beats_->stream->cut();
  anchor_->changed.wait_for(lock, seconds(1), [&] { return control_->ended && beats_->ended; });
}

std::shared_ptr<Member::Line> Member::open_line(const std::string& purpose) {
  const Cluster& cluster = options_.cluster;
  auto line = std::make_shared<Line>(
      anchor_, Introduction{cluster.id, purpose, cluster.rank, cluster.size, make_nonce(), ""});
  const Introduction& who = line->introduction;
  std::string error;
  const std::string address = cluster.coordinator.str();
  {
    // The first answer may come before `connect` returns.
    const std::lock_guard lock(anchor_->mutex);
    line->stream = frame_plugin().connect(address, options_.tls, line, error);
    if (line->stream == nullptr) throw Unavailable(fmt::format("cluster: {}: {}", address, error));
    line->stream->send(Frame{
        FrameType::hello,
        {"tandem 1", who.cluster, purpose, std::to_string(who.rank), std::to_string(who.size),
         who.member_nonce}}.encode());
  }
  return line;
}

void Member::wait_for_all() {
  const auto start = Clock::now();
  const Cluster& cluster = options_.cluster;
  auto said = start;
  control_ = open_line("join");
  std::unique_lock lock(anchor_->mutex);
  while (generation_ == 0) {
    anchor_->changed.wait_for(lock, milliseconds(100));
    if (!refusal_.empty()) {
      throw FailedPrecondition(fmt::format("cluster: rank {} is not let in at {}: {}", cluster.rank,
                                           cluster.coordinator.str(), refusal_));
    }
    if (verdict_) std::rethrow_exception(verdict_->error());
    if (generation_ != 0) break;
    lock.unlock();
    interruption::look();
    lock.lock();
    const auto now = Clock::now();
    const char* whom = control_->known ? "the other ranks" : "the coordinator";
    if (now - start >= options_.join_timeout) {
      throw DeadlineExceeded(fmt::format("cluster: rank {} ({}) waited {:.0f} s for {} at {}",
                                         cluster.rank, cluster.source, seconds_of(now - start),
                                         whom, cluster.coordinator.str()));
    }
    if (now - said >= seconds(10)) {
      said = now;
      logging::write(logging::Level::info,
                     fmt::format("cluster: rank {} waits for {} at {} since {:.0f} s", cluster.rank,
                                 whom, cluster.coordinator.str(), seconds_of(now - start)));
    }
    if (control_->ended && control_->known) {
      const std::string who =
          cluster.hosted ? "" : fmt::format(", rank 0 ({}),", cluster.task_name(0));
      throw Unavailable(fmt::format(
          "cluster: the coordinator{} at {} died while rank {} waited for the other ranks", who,
          cluster.coordinator.str(), cluster.rank));
    }
    if (control_->ended) {  // One that ends, perhaps, and another one comes.
      lock.unlock();
      std::this_thread::sleep_for(milliseconds(200));
      control_ = open_line("join");
      lock.lock();
    }
  }
}

void Member::on_frame(const Frame& frame) {
  switch (frame.type) {
    case FrameType::welcome:
      if (generation_ != 0 ||
          frame.fields.size() != 2 + 4 * static_cast<size_t>(options_.cluster.size))
        return;
      for (size_t i = 2; i < frame.fields.size(); i += 4) {
        members_.push_back(
            {frame.field(i), frame.field(i + 1), frame.field(i + 2), frame.field(i + 3)});
      }
      tag_seed_ = static_cast<uint64_t>(frame.number(1)) & 0xffffffff;
      generation_ = static_cast<int>(frame.number(0));
      return;
    case FrameType::texts: {
      auto& [text, complete] = texts_[frame.field(0)][static_cast<int>(frame.number(1))];
      text += frame.field(2);
      complete = frame.field(3) == "1";
      return;
    }
    case FrameType::verdict:
      return set_verdict({frame.field(0), frame.field(1), -1});
    case FrameType::leaving:
      coordinator_left_ = true;
      return;
    default:
      return;
  }
}

std::string Member::coordinator_name() const {
  const std::string address = options_.cluster.coordinator.str();
  if (options_.cluster.hosted || members_.empty())
    return fmt::format("the coordinator ({})", address);
  return fmt::format("the coordinator, {},", describe(0));
}

void Member::on_line_end(bool beats, const std::string&) {
  if (generation_ == 0 || coordinator_left_ || ending_ || beats) return;
  set_verdict({"Unavailable", fmt::format("{} died", coordinator_name())});
}

void Member::set_verdict(Verdict verdict) {
  if (verdict_) return;
  verdict_ = std::move(verdict);
  if (on_verdict_) on_verdict_(*verdict_);
  anchor_->changed.notify_all();
}

std::string Member::describe(int rank) const {
  const MemberEntry& entry = members_[static_cast<size_t>(rank)];
  return fmt::format("rank {} ({}, {}, process {})", rank, entry.task, entry.host, entry.process);
}

std::optional<Verdict> Member::verdict() const {
  const std::lock_guard lock(anchor_->mutex);
  return verdict_;
}

void Member::begin_beats(std::function<void(const Verdict&)> on_verdict,
                         std::function<collective::Exchanger::Waiting()> waiting) {
  {
    const std::lock_guard lock(anchor_->mutex);
    on_verdict_ = std::move(on_verdict);
    waiting_ = std::move(waiting);
    if (verdict_) on_verdict_(*verdict_);
  }
  thread_ = std::thread([this] { beat(); });
  pthread_setname_np(thread_.native_handle(), "tandem-member");
}

void Member::beat() {
  std::unique_lock lock(anchor_->mutex);
  auto last = Clock::now();
  while (!ending_) {
    const auto now = Clock::now();
    // Whoever was stopped itself has heard nobody.
    if (now - last > seconds(2)) heard_ = now;
    last = now;
    const auto in_phase = std::chrono::duration_cast<seconds>(now - phase_since_).count();
    const auto waiting = waiting_ ? waiting_() : collective::Exchanger::Waiting{};
    const Frame frame{FrameType::beat,
                      {phase_, std::to_string(step_), std::to_string(in_phase), waiting.text,
                       std::to_string(waiting.number), waiting.signature}};
    if (beats_->known) beats_->stream->send(frame.encode());
    if (beats_->ended && !beats_->known && refusal_.empty()) try_beats_again(lock);
    if (!verdict_ && !coordinator_left_) watch_coordinator(now, lock);
    anchor_->changed.wait_for(lock, kBeatEvery, [&] { return ending_; });
  }
}

/// The coordinator had no room for the line: too many others were about to prove themselves.
void Member::try_beats_again(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  std::shared_ptr<Line> line;
  try {
    line = open_line(fmt::format("beat {}", generation_));
  } catch (const Error&) {  // The next beat tries again.
  }
  lock.lock();
  if (line != nullptr) beats_ = std::move(line);
}

void Member::watch_coordinator(Clock::time_point now, std::unique_lock<std::mutex>& lock) {
  const auto silence = now - heard_;
  if (silence < kProbeAfter) return;
  if (!probed_) {
    probed_ = true;
    const std::string address = options_.cluster.coordinator.str();
    lock.unlock();
    const bool answers = machine_answers(address, milliseconds(900));
    lock.lock();
    answers_ = answers;
  } else if (!answers_ && silence >= kUnreachableAfter) {
    set_verdict({"Unavailable", fmt::format("{} cannot be reached for {:.0f} s", coordinator_name(),
                                            seconds_of(silence))});
  } else if (silence >= kSilentAfter) {
    set_verdict(
        {"Unavailable",
         fmt::format(
             "{} is silent for {:.0f} s; its machine answers: the process is stopped or starved",
             coordinator_name(), seconds_of(silence))});
  }
}

std::optional<Verdict> Member::wait_for_verdict(std::unique_lock<std::mutex>& lock,
                                                milliseconds patience) {
  anchor_->changed.wait_for(lock, patience,
                            [&] { return verdict_.has_value() || control_->ended; });
  return verdict_;
}

std::vector<std::string> Member::gather_texts(std::string_view name, const std::string& text,
                                              std::chrono::nanoseconds timeout) {
  std::unique_lock lock(anchor_->mutex);
  if (verdict_) std::rethrow_exception(verdict_->error());
  const std::string number = std::to_string(++gatherings_);
  size_t at = 0;
  do {
    const bool last = text.size() - at <= kTextPiece;
    control_->stream->send(Frame{
        FrameType::text,
        {number, std::string(name), text.substr(at, kTextPiece),
         last ? "1" : "0"}}.encode());
    at += kTextPiece;
  } while (at < text.size());
  const auto size = static_cast<size_t>(options_.cluster.size);
  const auto complete = [&] {
    const auto& texts = texts_[number];
    return texts.size() == size &&
           std::ranges::all_of(texts, [](const auto& entry) { return entry.second.second; });
  };
  const auto ended = [&] { return complete() || verdict_ || control_->ended || coordinator_left_; };
  if (!anchor_->changed.wait_for(lock, timeout, ended)) {
    control_->stream->send(Frame{
        FrameType::trouble,
        {"gather", number, fmt::format("{:.0f}", seconds_of(timeout)),
         std::string(name)}}.encode());
    wait_for_verdict(lock, kPatienceForVerdict);
  }
  if (!complete()) {
    if (!verdict_) {
      set_verdict({"Unavailable",
                   fmt::format("{} has gone while '{}' was gathered", coordinator_name(), name)});
    }
    std::rethrow_exception(verdict_->error());
  }
  std::vector<std::string> result;
  for (auto& [rank, entry] : texts_[number]) result.push_back(std::move(entry.first));
  texts_.erase(number);
  return result;
}

void Member::abort(std::string_view reason) {
  const std::lock_guard lock(anchor_->mutex);
  if (verdict_) return;
  control_->stream->send(Frame{FrameType::abort, {std::string(reason)}}.encode());
  set_verdict({"Aborted", fmt::format("{}: {}", describe(options_.cluster.rank), reason)});
}

void Member::note_progress(std::string_view phase, std::int64_t step) {
  const std::lock_guard lock(anchor_->mutex);
  phase_.assign(phase);
  step_ = step;
  phase_since_ = Clock::now();
}

Verdict Member::judge(const collective::ExchangeTrouble& trouble) {
  const bool lost = trouble.kind == collective::ExchangeTrouble::Kind::peer_lost;
  std::unique_lock lock(anchor_->mutex);
  Frame frame{FrameType::trouble,
              {lost ? "lost" : "overdue", trouble.exchange, fmt::format("{:.0f}", trouble.seconds),
               trouble.detail}};
  for (const int rank : trouble.ranks) frame.fields.push_back(std::to_string(rank));
  control_->stream->send(frame.encode());
  if (!coordinator_left_) wait_for_verdict(lock, kPatienceForVerdict);
  if (!verdict_) {
    std::vector<std::string> names;
    for (const int rank : trouble.ranks) names.push_back(describe(rank));
    set_verdict(
        {lost ? "Unavailable" : "DeadlineExceeded",
         fmt::format("{} waited {:.1f} s for {}{}{}", trouble.exchange, trouble.seconds,
                     fmt::join(names, "; "), trouble.detail.empty() ? "" : ": ", trouble.detail)});
  }
  return *verdict_;
}

}  // namespace tandem::cluster

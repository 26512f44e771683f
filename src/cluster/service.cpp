#include "cluster/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <optional>

#include "cluster/frame.h"
#include "cluster/handshake.h"
#include "cluster/tls_files.h"
#include "tandem/error.h"
#include "tandem/log.h"

namespace tandem::cluster {
namespace {

using Clock = std::chrono::steady_clock;
using Refusal = std::function<void(const std::string& peer, const std::string& why)>;

constexpr const char* kProtocol = "tandem service 1";
constexpr const char* kLater = "later";  // A refusal with this word is not for good.
constexpr size_t kMostPending = 64;
constexpr size_t kMostAddresses = 1000;
constexpr std::chrono::seconds kHandshakeTime{5};
constexpr size_t kMostHandshakeBytes = 4096;
constexpr size_t kHeadBytes = ServiceText::kHeadBytes;
constexpr uint64_t kContinued = ~uint64_t{0};

std::string head_of(uint64_t number, uint64_t second) {
  std::string head(kHeadBytes, '\0');
  std::memcpy(head.data(), &number, sizeof number);
  std::memcpy(head.data() + sizeof number, &second, sizeof second);
  return head;
}

uint64_t number_at(std::string_view bytes, size_t offset) {
  uint64_t number = 0;
  std::copy_n(bytes.data() + offset, sizeof number, reinterpret_cast<char*>(&number));
  return number;
}

std::atomic<uint64_t> moved_bytes{0};
std::atomic<uint64_t> sent_messages{0};

/// Buffers of large messages that nobody needs any more.
class SpareBuffers {
 public:
  std::string take(size_t bytes) {
    std::string buffer;
    {
      const std::lock_guard lock(mutex_);
      const auto found = std::ranges::find_if(
          spare_, [&](const std::string& each) { return each.capacity() >= bytes; });
      if (bytes >= kLeast && found != spare_.end()) {
        buffer = std::move(*found);
        spare_.erase(found);
      }
    }
    buffer.clear();
    buffer.reserve(bytes);
    return buffer;
  }
  void give_back(std::string&& buffer) {
    if (buffer.capacity() < kLeast) return;
    const std::lock_guard lock(mutex_);
    if (spare_.size() < kMost) spare_.push_back(std::move(buffer));
  }

 private:
  static constexpr size_t kLeast = size_t{256} << 10;
  static constexpr size_t kMost = 8;
  std::mutex mutex_;
  std::vector<std::string> spare_;
};

SpareBuffers& spare_buffers() {
  static auto* const buffers = new SpareBuffers;
  return *buffers;
}

/// The text, whose memory is spare when nobody holds it.
std::shared_ptr<const std::string> recycled(std::string&& text) {
  return {new std::string(std::move(text)), [](std::string* held) {
            spare_buffers().give_back(std::move(*held));
            delete held;
          }};
}

void send_message(FrameStream& stream, uint64_t number, ServiceMessage message) {
  ++sent_messages;
  const std::shared_ptr<const std::string> text = recycled(std::move(message.text));
  std::vector<FrameBytes>& parts = message.parts;
  parts.insert(parts.begin(), {text->data(), text->size(), text});
  size_t left = 0;
  for (const FrameBytes& part : parts) left += part.count;
  moved_bytes += left;
  uint64_t second = left;
  auto part = parts.begin();
  size_t at = 0;  // How much of the part is sent.
  do {
    std::vector<FrameBytes> frame;
    size_t room = kMostFrameBytes - kHeadBytes;
    while (room > 0 && part != parts.end()) {
      const size_t count = std::min(room, part->count - at);
      if (count > 0) {
        frame.push_back({static_cast<const char*>(part->data) + at, count, part->owner});
      }
      room -= count;
      left -= count;
      at += count;
      if (at == part->count) {
        ++part;
        at = 0;
      }
    }
    stream.send_parts(head_of(number, second), frame);
    second = kContinued;
  } while (left > 0);
}

/// A frame, in runs of bytes.
class FrameRuns {
 public:
  explicit FrameRuns(std::span<const std::string_view> runs) : runs_(runs) {
    for (const std::string_view run : runs) size_ += run.size();
  }

  size_t size() const { return size_; }
  /// Gives all bytes from `begin` on to `take`, run by run.
  template <class Take>
  void for_each(size_t begin, const Take& take) const {
    for (const std::string_view run : runs_) {
      take(run.substr(std::min(begin, run.size())));
      begin -= std::min(begin, run.size());
    }
  }
  std::string head() const {
    std::string head;
    for (const std::string_view run : runs_) head.append(run.substr(0, kHeadBytes - head.size()));
    return head;
  }

 private:
  const std::span<const std::string_view> runs_;
  size_t size_ = 0;
};

/// A message of which some frames have come.
class OpenMessage {
 public:
  /// It has so many bytes; `places` are null where all of it is a text.
  OpenMessage(uint64_t bytes, AnswerPlacesPtr places) : bytes_(bytes) {
    size_t placed = 0;
    if (places) {
      for (const std::span<char> place : places->places) placed += place.size();
    }
    if (placed > 0 && places->head + placed == bytes) places_ = std::move(places);
    text_bytes_ = kHeadBytes + (places_ ? places_->head : bytes);
    text_ = take_buffer(text_bytes_);
  }

  uint64_t missing() const { return bytes_ - taken_; }
  /// All bytes of a frame from `begin` on. The head of the first frame is part of the text.
  void add(const FrameRuns& frame, size_t begin) {
    taken_ += frame.size() - kHeadBytes;
    frame.for_each(begin, [this](std::string_view run) { add(run); });
  }
  ServiceText take() { return ServiceText(std::move(text_)); }

 private:
  void add(std::string_view run) {
    const size_t of_text = std::min(run.size(), text_bytes_ - text_.size());
    text_.append(run.substr(0, of_text));
    run.remove_prefix(of_text);
    while (!run.empty()) {
      const std::span<char> place = places_->places[place_].subspan(offset_);
      const size_t count = std::min(run.size(), place.size());
      std::memcpy(place.data(), run.data(), count);
      run.remove_prefix(count);
      offset_ += count;
      if (count < place.size()) continue;
      ++place_;
      offset_ = 0;
    }
  }

  const uint64_t bytes_;
  uint64_t taken_ = 0;
  AnswerPlacesPtr places_;
  size_t text_bytes_;
  std::string text_;
  size_t place_ = 0;   // The one that the next byte goes to,
  size_t offset_ = 0;  // and where in it.
};

/// Makes messages of the frames of a stream.
class MessageAssembly {
 public:
  explicit MessageAssembly(size_t most_bytes) : most_bytes_(most_bytes) {}

  struct Whole {
    uint64_t number;
    ServiceText text;
  };

  /// The message of this number, if it comes, is to lie there.
  void place(uint64_t number, AnswerPlacesPtr places) {
    places_.emplace(number, std::move(places));
  }

  /// The message that the frame ends; none where others are to follow, and where it is wrong.
  std::optional<Whole> add(const FrameRuns& frame) {
    if (frame.size() < kHeadBytes) return fail();
    moved_bytes += frame.size() - kHeadBytes;
    const std::string head = frame.head();
    const uint64_t number = number_at(head, 0);
    const uint64_t second = number_at(head, sizeof number);
    auto open = open_.find(number);
    const bool is_first = second != kContinued;
    if (is_first != (open == open_.end()) || (is_first && second > most_bytes_)) return fail();
    if (is_first) {
      auto places = places_.extract(number);
      open = open_.try_emplace(number, second, places ? std::move(places.mapped()) : nullptr).first;
    }
    OpenMessage& message = open->second;
    if (frame.size() - kHeadBytes > message.missing()) return fail();
    message.add(frame, is_first ? 0 : kHeadBytes);
    if (message.missing() > 0) return std::nullopt;
    Whole whole{number, message.take()};
    open_.erase(open);
    return whole;
  }

  bool has_failed() const { return has_failed_; }

 private:
  std::optional<Whole> fail() {
    has_failed_ = true;
    return std::nullopt;
  }

  const size_t most_bytes_;
  std::map<uint64_t, OpenMessage> open_;
  std::map<uint64_t, AnswerPlacesPtr> places_;
  bool has_failed_ = false;
};

/// "10.0.0.2" of "10.0.0.2:4000".
std::string host_of(const std::string& peer) { return peer.substr(0, peer.rfind(':')); }

}  // namespace

std::string take_buffer(size_t bytes) { return spare_buffers().take(bytes); }

ServiceText::ServiceText(std::string&& frames) : frames_(recycled(std::move(frames))) {}

std::string Asker::str() const { return fmt::format("{} {}", job, task); }

/// A stream that somebody opened, who proves itself before anything else.
class ServiceGuest;

struct ServiceHost::Body {
  ServiceOptions options;
  std::shared_ptr<ServiceHandler> handler;
  std::mutex mutex;
  std::vector<std::weak_ptr<ServiceGuest>> guests;   // That have not proved themselves.
  std::map<std::string, Clock::time_point> refused;  // When a host was refused last.
  std::unique_ptr<FrameServer> server;

  /// `tell` is told of those who are turned away.
  std::shared_ptr<ServiceGuest> let_in(std::shared_ptr<FrameStream> stream, Refusal tell);
};

class ServiceGuest final : public FrameHandler {
 public:
  ServiceGuest(const ServiceOptions& options, std::shared_ptr<ServiceHandler> handler,
               std::shared_ptr<FrameStream> stream)
      : options_(options),
        handler_(std::move(handler)),
        stream_(std::move(stream)),
        since_(Clock::now()),
        assembly_(options.most_bytes) {
    static std::atomic<uint64_t> last{0};
    asker_.stream = ++last;
  }

  void on_frame_runs(std::span<const std::string_view> runs) override {
    if (refused_) return;
    known_ ? hear(FrameRuns(runs)) : FrameHandler::on_frame_runs(runs);
  }

  /// Somebody who has not proved itself says something.
  void on_frame(std::string bytes) override {
    const std::optional<Frame> frame =
        bytes.size() <= kMostHandshakeBytes ? decode(bytes) : std::nullopt;
    const std::string wrong = frame ? shake_hands(*frame) : "what it says is no introduction";
    if (!wrong.empty()) refuse(wrong);
  }

  void on_end(const std::string&) override {
    refused_ = true;
    if (known_.exchange(false)) handler_->on_gone(asker_);
  }

  void refuse(const std::string& why) { turn_away(why, {why}); }
  /// Many others have not proved themselves yet. A task of the cluster tries again.
  void put_off() {
    const std::string why = "too many others wait to be let in";
    turn_away(why, {why, kLater});
  }

  bool is_pending() const { return !known_ && !refused_; }
  bool is_overdue() const { return is_pending() && Clock::now() - since_ > kHandshakeTime; }

  Refusal on_refusal;

 private:
  void turn_away(const std::string& why, std::vector<std::string> words) {
    refused_ = true;
    stream_->send(Frame{FrameType::refused, std::move(words)}.encode());
    stream_->close();
    if (on_refusal) on_refusal(stream_->peer(), why);
  }

  void hear(const FrameRuns& frame) {
    const std::optional<MessageAssembly::Whole> question = assembly_.add(frame);
    if (assembly_.has_failed()) return refuse("what it says is no question");
    if (!question) return;
    handler_->on_question(asker_, question->text.view(),
                          [stream = stream_, number = question->number](ServiceMessage answer) {
                            send_message(*stream, number, std::move(answer));
                          });
  }

  /// What is wrong with it; empty where nothing is.
  std::string shake_hands(const Frame& frame) {
    if (!challenged_ && frame.type == FrameType::hello) return challenge(frame);
    if (!challenged_ || frame.type != FrameType::proof) return "it does not introduce itself";
    if (!equal_proofs(frame.field(0), proof_of(options_.secret, "member", introduction_))) {
      return "it does not know the cluster's secret";
    }
    asker_.job = introduction_.purpose;
    asker_.task = introduction_.rank;
    known_ = true;
    stream_->send(Frame{FrameType::welcome, {}}.encode());
    return "";
  }

  std::string challenge(const Frame& hello) {
    if (hello.field(0) != kProtocol) return fmt::format("it does not speak '{}'", kProtocol);
    introduction_ = {hello.field(1), hello.field(2), static_cast<int>(hello.number(3)), 0,
                     hello.field(4), make_nonce()};
    if (introduction_.member_nonce.size() != 32) return "its nonce is none";
    if (introduction_.cluster != options_.cluster) {
      return fmt::format("it is of the cluster '{:.80}', not of '{}'", introduction_.cluster,
                         options_.cluster);
    }
    challenged_ = true;
    const std::string proof = proof_of(options_.secret, "coordinator", introduction_);
    stream_->send(Frame{FrameType::challenge, {introduction_.coordinator_nonce, proof}}.encode());
    return "";
  }

  const ServiceOptions options_;
  const std::shared_ptr<ServiceHandler> handler_;
  const std::shared_ptr<FrameStream> stream_;
  const Clock::time_point since_;
  Asker asker_;
  Introduction introduction_;
  bool challenged_ = false;
  MessageAssembly assembly_;
  std::atomic<bool> known_{false};
  std::atomic<bool> refused_{false};
};

std::shared_ptr<ServiceGuest> ServiceHost::Body::let_in(std::shared_ptr<FrameStream> stream,
                                                        Refusal tell) {
  auto guest = std::make_shared<ServiceGuest>(options, handler, std::move(stream));
  guest->on_refusal = std::move(tell);
  std::vector<std::shared_ptr<ServiceGuest>> late;
  bool is_full = false;
  {
    const std::lock_guard lock(mutex);
    std::erase_if(guests, [&](const std::weak_ptr<ServiceGuest>& known) {
      const std::shared_ptr<ServiceGuest> other = known.lock();
      if (!other || !other->is_pending()) return true;
      if (other->is_overdue()) late.push_back(other);
      return other->is_overdue();
    });
    is_full = guests.size() >= kMostPending;
    guests.push_back(guest);
  }
  for (const auto& other : late) other->refuse("it does not introduce itself");
  if (is_full) guest->put_off();
  return guest;
}

ServiceHost::ServiceHost(const HostPort& address, ServiceOptions options,
                         std::shared_ptr<ServiceHandler> handler)
    : body_(std::make_shared<Body>()) {
  check_may_listen(address, options.secret, process_environment());
  body_->options = std::move(options);
  body_->handler = std::move(handler);
  // It is told once a minute for each host.
  const auto tell = [weak = std::weak_ptr(body_)](const std::string& peer, const std::string& why) {
    const std::shared_ptr<Body> body = weak.lock();
    if (!body) return;
    const std::lock_guard lock(body->mutex);
    if (body->refused.size() >= kMostAddresses) body->refused.clear();
    const auto [known, is_new] = body->refused.try_emplace(host_of(peer), Clock::now());
    if (!is_new && Clock::now() - known->second < std::chrono::minutes(1)) return;
    known->second = Clock::now();
    logging::write(logging::Level::warning,
                   fmt::format("cluster: refused somebody at {}: {}", peer, why));
  };
  const auto accept = [weak = std::weak_ptr(body_),
                       tell](std::shared_ptr<FrameStream> stream) -> std::shared_ptr<FrameHandler> {
    const std::shared_ptr<Body> body = weak.lock();
    if (!body) return nullptr;
    return body->let_in(std::move(stream), tell);
  };
  const std::string where =
      is_loopback(address.host) ? address.str() : fmt::format("[::]:{}", address.port);
  std::string error;
  body_->server = frame_plugin().listen(where, body_->options.tls, accept, error);
  if (!body_->server) throw Unavailable(fmt::format("cluster: {}: {}", address.str(), error));
}

ServiceHost::~ServiceHost() { body_->server.reset(); }

int ServiceHost::port() const { return body_->server->port(); }

/// One stream, and the questions on it that are not answered.
class ServiceLine::Stream final : public FrameHandler {
 public:
  Stream(const std::string& name, const ServiceOptions& options, const std::string& job, int task)
      : name_(name),
        options_(options),
        introduction_{options.cluster, job, task, 0, make_nonce(), ""},
        assembly_(options.most_bytes) {}

  void begin(std::shared_ptr<FrameStream> frames) {
    const std::lock_guard lock(mutex_);
    frames_ = std::move(frames);
    frames_->send(Frame{FrameType::hello,
                        {kProtocol, introduction_.cluster, introduction_.purpose,
                         std::to_string(introduction_.rank), introduction_.member_nonce}}
                      .encode());
  }

  std::future<ServiceText> ask(ServiceMessage question, AnswerPlacesPtr places) {
    const std::lock_guard lock(mutex_);
    std::promise<ServiceText> promise;
    std::future<ServiceText> answer = promise.get_future();
    if (ended_) {
      promise.set_exception(ended_);
      return answer;
    }
    open_.emplace(++last_, std::move(promise));
    if (places) assembly_.place(last_, std::move(places));
    if (is_ready_) {
      send_message(*frames_, last_, std::move(question));
    } else {
      waiting_.emplace_back(last_, std::move(question));
    }
    return answer;
  }

  bool has_ended() const {
    const std::lock_guard lock(mutex_);
    return ended_ != nullptr;
  }

  bool is_ready() const {
    const std::lock_guard lock(mutex_);
    return is_ready_ && !ended_;
  }

  void end_now() {
    const std::lock_guard lock(mutex_);
    if (frames_) frames_->cut();
    end(std::make_exception_ptr(Unavailable(fmt::format("{}: the connection was cut", name_))));
  }
  /// What was sent still leaves, unless there is no connection.
  void close() {
    const std::lock_guard lock(mutex_);
    if (frames_) is_ready_ ? frames_->close() : frames_->cut();
    end(std::make_exception_ptr(Unavailable(fmt::format("{}: the line has ended", name_))));
  }

  void on_frame_runs(std::span<const std::string_view> runs) override {
    {
      const std::lock_guard lock(mutex_);
      if (ended_) return;
      if (is_ready_) return hear(FrameRuns(runs));
    }
    FrameHandler::on_frame_runs(runs);
  }

  void on_frame(std::string bytes) override {
    const std::lock_guard lock(mutex_);
    if (!ended_) shake_hands(bytes);
  }
  void on_end(const std::string& why) override {
    const std::lock_guard lock(mutex_);
    end(std::make_exception_ptr(Unavailable(fmt::format("{} is gone: {}", name_, why))));
    frames_.reset();
  }

 private:
  void hear(const FrameRuns& frame) {
    std::optional<MessageAssembly::Whole> answer = assembly_.add(frame);
    if (!answer) return;
    const auto question = open_.find(answer->number);
    if (question == open_.end()) return;
    question->second.set_value(std::move(answer->text));
    open_.erase(question);
  }

  void shake_hands(const std::string& bytes) {
    const std::optional<Frame> frame = decode(bytes);
    if (!frame) return refuse("it does not speak as a task of a cluster does");
    if (frame->type == FrameType::refused) {
      return frame->field(1) == kLater ? try_later(frame->field(0))
                                       : refuse("not let in: " + frame->field(0));
    }
    if (frame->type == FrameType::welcome && is_sure_) {
      is_ready_ = true;
      for (auto& [number, question] : waiting_) {
        send_message(*frames_, number, std::move(question));
      }
      waiting_.clear();
      return;
    }
    introduction_.coordinator_nonce = frame->field(0);
    if (frame->type != FrameType::challenge ||
        !equal_proofs(frame->field(1), proof_of(options_.secret, "coordinator", introduction_))) {
      return refuse("it does not know the cluster's secret");
    }
    is_sure_ = true;
    frames_->send(
        Frame{FrameType::proof, {proof_of(options_.secret, "member", introduction_)}}.encode());
  }

  void refuse(const std::string& why) {
    end(std::make_exception_ptr(
        FailedPrecondition(fmt::format("cluster: {} at {}: {}", name_, frames_->peer(), why))));
    frames_->close();
  }
  void try_later(const std::string& why) {
    end(std::make_exception_ptr(Unavailable(fmt::format("{} lets nobody in: {}", name_, why))));
    frames_->close();
  }

  void end(const std::exception_ptr& error) {
    if (!ended_) ended_ = error;
    for (auto& [number, promise] : open_) promise.set_exception(ended_);
    open_.clear();
    waiting_.clear();
  }

  const std::string name_;
  const ServiceOptions options_;
  Introduction introduction_;
  mutable std::mutex mutex_;
  std::shared_ptr<FrameStream> frames_;
  MessageAssembly assembly_;
  bool is_sure_ = false;   // The other side has proved itself,
  bool is_ready_ = false;  // and this one, too.
  std::exception_ptr ended_;
  uint64_t last_ = 0;
  std::map<uint64_t, std::promise<ServiceText>> open_;
  std::vector<std::pair<uint64_t, ServiceMessage>> waiting_;
};

ServiceLine::ServiceLine(std::string name, const HostPort& address, ServiceOptions options,
                         std::string job, int task)
    : name_(std::move(name)),
      address_(address),
      options_(std::move(options)),
      job_(std::move(job)),
      task_(task) {}

ServiceLine::~ServiceLine() {
  if (stream_) stream_->close();
}

std::future<ServiceText> ServiceLine::ask(ServiceMessage question, AnswerPlacesPtr places) {
  const std::lock_guard lock(mutex_);
  if (!stream_ || stream_->has_ended()) {
    auto stream = std::make_shared<Stream>(name_, options_, job_, task_);
    std::string error;
    auto frames = frame_plugin().connect(address_.str(), options_.tls, stream, error);
    if (!frames) throw Unavailable(fmt::format("cluster: {}: {}", name_, error));
    stream->begin(std::move(frames));
    stream_ = std::move(stream);
  }
  return stream_->ask(std::move(question), std::move(places));
}

bool ServiceLine::is_connected() {
  const std::lock_guard lock(mutex_);
  return stream_ && stream_->is_ready();
}

void ServiceLine::cut() {
  const std::lock_guard lock(mutex_);
  if (stream_) stream_->end_now();
}

uint64_t service_bytes() { return moved_bytes; }
uint64_t service_messages() { return sent_messages; }

ServiceOptions service_options_from(const Environment& environment, std::string cluster) {
  return {.cluster = std::move(cluster),
          .secret = secret_from(environment),
          .tls = tls_from(environment)};
}

}  // namespace tandem::cluster

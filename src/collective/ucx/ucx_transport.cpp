/// The transport over UCX: TCP between hosts, shared memory within one. This folder is all of the
/// plugin libtandem_ucx.so; the rest of the library knows no type of UCX.
///
/// UCX copies messages into shared memory and out of it. Large ones between processes of one
/// machine are not sent at all where the receiver may read the sender's memory:
///
///   sender    note {identity, address}  ->          done when the answer is there
///   receiver                                reads   ->  answer, done when UCX has sent it
///
/// A receiver takes either, a note or the bytes themselves, and tells them apart by their length. A
/// sender makes notes for a peer once that has said that it can read.
#include <sys/random.h>
#include <ucp/api/ucp.h>

#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collective/transport.h"
#include "collective/ucx/failed_assertion.h"
#include "collective/ucx/neighbour_memory.h"

namespace tandem::collective::ucx {
namespace {

using Clock = std::chrono::steady_clock;

/// Messages from this size on are read by their receiver.
constexpr size_t kReadBytes = size_t{32} << 10;

/// What is sent in place of a large message.
struct Note {
  uint64_t identity;  ///< The sender's,
  uint64_t at;        ///< and where it has the bytes.
};

/// The answer's tag, which is no message's: other bits than those that messages differ in are
/// turned over, and the receiver's identity is in it.
uint64_t answer_tag(uint64_t tag, uint64_t receiver) { return ~tag ^ receiver; }

/// A large message: one that is offered, or one that is awaited.
struct LargeMessage {
  enum class Kind { offered, awaited };
  Kind kind = Kind::offered;
  Note note{};
  char answer = 0;
  ucs_status_ptr_t first = nullptr;   // The note's sending, or what is received.
  ucs_status_ptr_t second = nullptr;  // The answer's receipt, or its sending.
  uint64_t tag = 0;
  void* data = nullptr;
  size_t bytes = 0;
};

class UcxTransport final : public Transport {
 public:
  ~UcxTransport() override {
    if (abandoned_) {
      for (auto& message : large_) static_cast<void>(message.release());  // UCX may know them.
      for (auto& peer : peers_) static_cast<void>(peer.release());
      return;
    }
    try {
      close();
    } catch (const FailedAssertion&) {  // There is nobody left to be told.
    }
  }

  /// Returns what is wrong, or nothing.
  std::string open(const TransportOptions& options) {
    if (auto wrong = make_context(options); !wrong.empty()) return wrong;
    ucp_worker_params_t parameters{};
    parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    parameters.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    if (auto wrong = text("worker", ucp_worker_create(context_, &parameters, &worker_));
        !wrong.empty()) {
      return wrong;
    }
    if (auto wrong = text("events", ucp_worker_get_efd(worker_, &events_)); !wrong.empty())
      return wrong;
    ucp_address_t* address = nullptr;
    size_t length = 0;
    if (auto wrong = text("address", ucp_worker_get_address(worker_, &address, &length));
        !wrong.empty()) {
      return wrong;
    }
    address_.assign(reinterpret_cast<const char*>(address), length);
    ucp_worker_release_address(worker_, address);
    reads_ = options.read_neighbours && options.kind != "tcp" &&
             getrandom(&identity_, sizeof identity_, 0) == sizeof identity_;
    const ReadingPlace place = reads_ ? own_reading_place(identity_) : ReadingPlace{};
    address_.append(reinterpret_cast<const char*>(&place), sizeof place);
    return "";
  }

  const std::string& address() const override { return address_; }

  std::string connect(int peer, const std::string& address) override {
    if (peers_.size() <= static_cast<size_t>(peer)) peers_.resize(static_cast<size_t>(peer) + 1);
    auto& entry = peers_[static_cast<size_t>(peer)];
    entry = std::make_unique<Peer>();
    ucp_ep_params_t parameters{};
    parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    parameters.err_handler.cb = [](void* argument, ucp_ep_h, ucs_status_t status) {
      static_cast<Peer*>(argument)->failure = ucs_status_string(status);
    };
    parameters.err_handler.arg = entry.get();
    parameters.address = reinterpret_cast<const ucp_address_t*>(address.data());
    if (address.size() < sizeof(ReadingPlace)) return "UCX: connection: the address is too short";
    std::memcpy(&entry->place, address.data() + address.size() - sizeof(ReadingPlace),
                sizeof(ReadingPlace));
    const std::string wrong =
        text("connection", ucp_ep_create(worker_, &parameters, &entry->endpoint));
    if (wrong.empty() && reads_ && entry->place.process != 0) exchange_verdicts(*entry);
    return wrong;
  }

  Request send(int peer, uint64_t tag, const void* data, size_t bytes) override {
    Peer& to = *peers_[static_cast<size_t>(peer)];
    if (bytes >= kReadBytes && reads_us(to)) return offer(to, tag, data);
    const ucp_request_param_t parameters{};
    return ucp_tag_send_nbx(to.endpoint, data, bytes, tag, &parameters);
  }

  Request receive(uint64_t tag, void* data, size_t bytes) override {
    if (bytes >= kReadBytes && reads_) return await(tag, data, bytes);
    const ucp_request_param_t parameters{};
    return ucp_tag_recv_nbx(worker_, data, bytes, tag, ~uint64_t{0}, &parameters);
  }

  Status test(Request request) override {
    if (request == nullptr) return Status::done;
    if (LargeMessage* large = large_of(request)) return test_large(*large);
    return test_request(request);
  }

  void cancel(Request request) override {
    if (LargeMessage* large = large_of(request)) {
      for (ucs_status_ptr_t part : {large->first, large->second}) {
        if (UCS_PTR_IS_PTR(part)) ucp_request_cancel(worker_, part);
      }
    } else if (UCS_PTR_IS_PTR(request)) {
      ucp_request_cancel(worker_, request);
    }
  }

  bool progress() override { return ucp_worker_progress(worker_) != 0; }

  int arm() override { return ucp_worker_arm(worker_) == UCS_OK ? events_ : -1; }

  const std::string& failure(int peer) const override {
    return peers_[static_cast<size_t>(peer)]->failure;
  }

  void flush() override {
    const ucp_request_param_t parameters{};
    finish(ucp_worker_flush_nbx(worker_, &parameters));
  }

  // UCX 1.13 asserts that an endpoint that is closed by force has no message of its wireup left.
  void abandon() override { abandoned_ = true; }

  void disconnect() override {
    std::vector<ucs_status_ptr_t> closing;
    for (const auto& peer : peers_) {
      if (peer == nullptr || peer->endpoint == nullptr) continue;
      ucp_request_param_t parameters{};
      parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
      parameters.flags = UCP_EP_CLOSE_FLAG_FORCE;
      closing.push_back(ucp_ep_close_nbx(peer->endpoint, &parameters));
      peer->endpoint = nullptr;
      if (peer->failure.empty()) peer->failure = "the connection was closed here";
    }
    for (ucs_status_ptr_t request : closing) finish(request);
  }

 private:
  struct Peer {
    ucp_ep_h endpoint = nullptr;
    std::string failure;
    ReadingPlace place;
    bool is_readable = false;            // By this process.
    char own_verdict = 0;                // What it was told of that.
    char its_verdict = 0;                // Whether it can read this process,
    ucs_status_ptr_t verdict = nullptr;  // once this is done.
  };

  void close() {
    disconnect();
    for (const auto& peer : peers_) {
      if (peer != nullptr) end(peer->verdict);
    }
    if (worker_ != nullptr) ucp_worker_destroy(worker_);
    if (context_ != nullptr) ucp_cleanup(context_);
  }

  /// Requests are pointers to UCX's, or to large messages with the lowest bit set.
  static Request request_of(LargeMessage* large) {
    return reinterpret_cast<Request>(reinterpret_cast<uintptr_t>(large) | 1);
  }
  static LargeMessage* large_of(Request request) {
    const auto bits = reinterpret_cast<uintptr_t>(request);
    const bool is_large = !UCS_PTR_IS_ERR(request) && (bits & 1) != 0;
    return is_large ? reinterpret_cast<LargeMessage*>(bits & ~uintptr_t{1}) : nullptr;
  }

  static Status test_request(ucs_status_ptr_t request) {
    if (request == nullptr) return Status::done;
    if (UCS_PTR_IS_ERR(request)) return Status::failed;
    const ucs_status_t status = ucp_request_check_status(request);
    if (status == UCS_INPROGRESS) return Status::pending;
    ucp_request_free(request);
    return status == UCS_OK ? Status::done : Status::failed;
  }

  /// Tells a peer whether this process can read it, and hears the same from it. Tags are the
  /// speakers' identities.
  void exchange_verdicts(Peer& peer) {
    const ucp_request_param_t parameters{};
    peer.is_readable = can_read(peer.place);
    peer.own_verdict = peer.is_readable ? 1 : 0;
    peer.verdict = ucp_tag_recv_nbx(worker_, &peer.its_verdict, 1, peer.place.identity,
                                    ~uint64_t{0}, &parameters);
    release(ucp_tag_send_nbx(peer.endpoint, &peer.own_verdict, 1, identity_, &parameters));
    by_identity_[peer.place.identity] = &peer;
  }

  bool reads_us(Peer& peer) const {
    if (peer.verdict != nullptr) {
      const Status status = test_request(peer.verdict);
      if (status == Status::pending) return false;
      if (status == Status::failed) peer.its_verdict = 0;
      peer.verdict = nullptr;
    }
    return peer.its_verdict != 0;
  }

  LargeMessage& new_message(LargeMessage::Kind kind, uint64_t tag) {
    if (spare_.empty()) {
      large_.push_back(std::make_unique<LargeMessage>());
      spare_.push_back(large_.back().get());
    }
    LargeMessage& message = *spare_.back();
    spare_.pop_back();
    message = {};
    message.kind = kind;
    message.tag = tag;
    return message;
  }

  Request offer(Peer& to, uint64_t tag, const void* data) {
    LargeMessage& message = new_message(LargeMessage::Kind::offered, tag);
    message.note = {identity_, reinterpret_cast<uintptr_t>(data)};
    const ucp_request_param_t parameters{};
    message.second = ucp_tag_recv_nbx(
        worker_, &message.answer, 1, answer_tag(tag, to.place.identity), ~uint64_t{0}, &parameters);
    message.first =
        ucp_tag_send_nbx(to.endpoint, &message.note, sizeof message.note, tag, &parameters);
    return request_of(&message);
  }

  Request await(uint64_t tag, void* data, size_t bytes) {
    LargeMessage& message = new_message(LargeMessage::Kind::awaited, tag);
    message.data = data;
    message.bytes = bytes;
    ucp_request_param_t parameters{};  // With a request in any case: it knows the length.
    parameters.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    message.first = ucp_tag_recv_nbx(worker_, data, bytes, tag, ~uint64_t{0}, &parameters);
    return request_of(&message);
  }

  Status test_large(LargeMessage& message) {
    const Status status =
        message.kind == LargeMessage::Kind::offered ? test_offered(message) : test_awaited(message);
    if (status != Status::pending) spare_.push_back(&message);
    return status;
  }

  /// It is over when both of its requests are.
  Status test_offered(LargeMessage& message) const {
    for (ucs_status_ptr_t* request : {&message.first, &message.second}) {
      if (*request == nullptr) continue;
      const Status status = test_request(*request);
      if (status == Status::pending) return status;
      *request = nullptr;
      if (status == Status::failed) message.bytes = 1;  // It has failed; the other may be pending.
    }
    return message.bytes == 0 ? Status::done : Status::failed;
  }

  /// It is over when the bytes are here and, where they were read, the sender has been told. UCX
  /// keeps an answer back while the sender's queue is full, and it leaves this process only while
  /// somebody drives the transport: after its last exchange nobody does.
  Status test_awaited(LargeMessage& message) {
    if (message.first != nullptr) {
      const Status status = test_receipt(message);
      if (status != Status::done) return status;
    }
    return test_request(message.second);
  }

  Status test_receipt(LargeMessage& message) {
    if (!UCS_PTR_IS_PTR(message.first)) return Status::failed;
    ucp_tag_recv_info_t info{};
    const ucs_status_t status = ucp_tag_recv_request_test(message.first, &info);
    if (status == UCS_INPROGRESS) return Status::pending;
    ucp_request_free(message.first);
    message.first = nullptr;
    if (status != UCS_OK) return Status::failed;
    return info.length == sizeof(Note) ? read_noted(message) : Status::done;
  }

  /// Reads what the note tells of, which lies where the bytes belong, and begins to answer.
  Status read_noted(LargeMessage& message) {
    Note note{};
    std::memcpy(&note, message.data, sizeof note);
    const auto found = by_identity_.find(note.identity);
    if (found == by_identity_.end()) return Status::failed;
    Peer& from = *found->second;
    if (!read_from(from.place, note.at, message.data, message.bytes)) {
      if (from.failure.empty()) from.failure = "its memory cannot be read any more";
      return Status::failed;
    }
    if (from.endpoint == nullptr) return Status::failed;
    message.answer = 1;
    const ucp_request_param_t parameters{};
    message.second = ucp_tag_send_nbx(from.endpoint, &message.answer, 1,
                                      answer_tag(message.tag, identity_), &parameters);
    return Status::done;
  }

  /// Lets a request end by itself.
  static void release(ucs_status_ptr_t request) {
    if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
  }

  /// Ends a receive that nobody waits for any more.
  void end(ucs_status_ptr_t& request) {
    if (UCS_PTR_IS_PTR(request)) {
      ucp_request_cancel(worker_, request);
      ucp_request_free(request);
    }
    request = nullptr;
  }

  static std::string text(const char* what, ucs_status_t status) {
    return status == UCS_OK ? "" : std::string("UCX: ") + what + ": " + ucs_status_string(status);
  }

  std::string make_context(const TransportOptions& options) {
    ucp_config_t* config = nullptr;
    if (auto wrong = text("settings", ucp_config_read(nullptr, nullptr, &config)); !wrong.empty())
      return wrong;
    const char* kinds = options.kind == "tcp"   ? "tcp"
                        : options.kind == "shm" ? "posix,cma"
                                                : "posix,cma,tcp";
    std::vector<std::pair<const char*, const char*>> settings = {{"TLS", kinds},
                                                                 {"KEEPALIVE_INTERVAL", "1s"}};
    if (!options.interfaces.empty())
      settings.emplace_back("NET_DEVICES", options.interfaces.c_str());
    std::string wrong;
    for (const auto& [name, value] : settings) {
      if (wrong.empty()) wrong = text(name, ucp_config_modify(config, name, value));
    }
    if (wrong.empty()) {
      ucp_params_t parameters{};
      parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
      parameters.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
      wrong = text("start", ucp_init(&parameters, config, &context_));
    }
    ucp_config_release(config);
    return wrong;
  }

  /// Waits for a request of UCX's own, for a second at most.
  void finish(ucs_status_ptr_t request) {
    if (!UCS_PTR_IS_PTR(request)) return;
    const auto deadline = Clock::now() + std::chrono::seconds(1);
    while (ucp_request_check_status(request) == UCS_INPROGRESS && Clock::now() < deadline) {
      ucp_worker_progress(worker_);
    }
    ucp_request_free(request);
  }

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int events_ = -1;
  bool abandoned_ = false;
  bool reads_ = false;  // Processes of this machine may read each other's memory.
  uint64_t identity_ = 0;
  std::string address_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::map<uint64_t, Peer*> by_identity_;
  std::vector<std::unique_ptr<LargeMessage>> large_;
  std::vector<LargeMessage*> spare_;  // Those that are under way no more.
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const char* tandem_plugin_version() {
  return TANDEM_VERSION;
}

extern "C" __attribute__((visibility("default"))) Transport* tandem_open_ucx(
    const TransportOptions& options, std::string& error) {
  auto transport = std::make_unique<UcxTransport>();
  try {
    error = transport->open(options);
  } catch (const FailedAssertion& failed) {
    transport->abandon();
    error = failed.text;
  }
  return error.empty() ? survive_assertions(std::move(transport)).release() : nullptr;
}

}  // namespace tandem::collective::ucx

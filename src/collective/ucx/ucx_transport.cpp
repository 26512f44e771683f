/// The transport over UCX: TCP between hosts, shared memory within one. This is all of the plugin
/// libtandem_ucx.so; the rest of the library knows no type of UCX.
#include <ucp/api/ucp.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "collective/transport.h"

namespace tandem::collective::ucx {
namespace {

using Clock = std::chrono::steady_clock;

class UcxTransport final : public Transport {
 public:
  ~UcxTransport() override {
    if (abandoned_) return;
    disconnect();
    if (worker_ != nullptr) ucp_worker_destroy(worker_);
    if (context_ != nullptr) ucp_cleanup(context_);
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
    return text("connection", ucp_ep_create(worker_, &parameters, &entry->endpoint));
  }

  Request send(int peer, uint64_t tag, const void* data, size_t bytes) override {
    const ucp_request_param_t parameters{};
    return ucp_tag_send_nbx(peers_[static_cast<size_t>(peer)]->endpoint, data, bytes, tag,
                            &parameters);
  }

  Request receive(uint64_t tag, void* data, size_t bytes) override {
    const ucp_request_param_t parameters{};
    return ucp_tag_recv_nbx(worker_, data, bytes, tag, ~uint64_t{0}, &parameters);
  }

  Status test(Request request) override {
    if (request == nullptr) return Status::done;
    if (UCS_PTR_IS_ERR(request)) return Status::failed;
    const ucs_status_t status = ucp_request_check_status(request);
    if (status == UCS_INPROGRESS) return Status::pending;
    ucp_request_free(request);
    return status == UCS_OK ? Status::done : Status::failed;
  }

  void cancel(Request request) override {
    if (UCS_PTR_IS_PTR(request)) ucp_request_cancel(worker_, request);
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
  };

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
  std::string address_;
  std::vector<std::unique_ptr<Peer>> peers_;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const char* tandem_plugin_version() {
  return TANDEM_VERSION;
}

extern "C" __attribute__((visibility("default"))) Transport* tandem_open_ucx(
    const TransportOptions& options, std::string& error) {
  auto transport = std::make_unique<UcxTransport>();
  error = transport->open(options);
  return error.empty() ? transport.release() : nullptr;
}

}  // namespace tandem::collective::ucx

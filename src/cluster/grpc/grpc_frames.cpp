/// Streams of frames over gRPC: a bidirectional call of a generic service, whose messages are the
/// frames as they are. This is all of the plugin libtandem_grpc.so; the rest of the library knows
/// no type of gRPC.
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <openssl/hmac.h>

#include <deque>
#include <fstream>
#include <mutex>
#include <sstream>

#include "cluster/frame_stream.h"

namespace tandem::cluster::grpc_frames {
namespace {

using grpc::ByteBuffer;

constexpr const char* kMethod = "/tandem.Coordinator/Frames";

ByteBuffer buffer_of(const std::string& frame) {
  const grpc::Slice slice(frame);
  return ByteBuffer(&slice, 1);
}

std::string text_of(const ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (!buffer.Dump(&slices).ok()) return text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

/// "ipv4:10.0.0.2:4000" without the kind.
std::string plain_address(const std::string& uri) {
  const size_t colon = uri.find(':');
  std::string text = colon == std::string::npos ? uri : uri.substr(colon + 1);
  for (const auto& [code, letter] : {std::pair{"%5B", "["}, {"%5D", "]"}}) {
    for (size_t at; (at = text.find(code)) != std::string::npos;) text.replace(at, 3, letter);
  }
  return text;
}

/// Frames that wait to be written, one after another. Guards itself.
class Outbox {
 public:
  /// True if the caller shall write `current` now.
  bool push(std::string frame) {
    const std::lock_guard lock(mutex_);
    if (closed_ || ended_) return false;
    frames_.push_back(std::move(frame));
    return take();
  }
  bool written() {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    return take();
  }
  /// True if nothing is left to write, so that the caller shall finish now.
  bool close() {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    closed_ = true;
    return finishes();
  }
  /// After `written` said that there is nothing more: whether the caller shall finish now.
  bool finishes_after_write() {
    const std::lock_guard lock(mutex_);
    return closed_ && finishes();
  }
  /// Nothing more can be written. True the first time, if nobody has finished before.
  bool end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    frames_.clear();
    if (finished_) return false;
    finished_ = true;
    return true;
  }
  ByteBuffer current;

 private:
  bool take() {
    if (writing_ || frames_.empty() || ended_) return false;
    current = buffer_of(frames_.front());
    frames_.pop_front();
    writing_ = true;
    return true;
  }
  bool finishes() {
    if (writing_ || !frames_.empty() || finished_) return false;
    finished_ = true;
    return true;
  }

  std::mutex mutex_;
  std::deque<std::string> frames_;
  bool writing_ = false;
  bool closed_ = false;
  bool ended_ = false;
  bool finished_ = false;
};

class ClientStream final : public FrameStream,
                           public grpc::ClientBidiReactor<ByteBuffer, ByteBuffer> {
 public:
  ClientStream(const std::string& address,
               const std::shared_ptr<grpc::ChannelCredentials>& credentials,
               std::shared_ptr<FrameHandler> handler)
      : peer_(address), handler_(std::move(handler)) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetMaxReceiveMessageSize(static_cast<int>(kMostFrameBytes));
    channel_ = grpc::CreateCustomChannel(address, credentials, arguments);
    stub_ = std::make_unique<grpc::GenericStub>(channel_);
    context_.set_wait_for_ready(true);
  }

  void begin(std::shared_ptr<ClientStream> self) {
    self_ = std::move(self);
    stub_->PrepareBidiStreamingCall(&context_, kMethod, {}, this);
    AddHold();  // For writes that begin outside of gRPC's calls.
    StartRead(&incoming_);
    StartCall();
  }

  void send(std::string frame) override {
    if (outbox_.push(std::move(frame))) StartWrite(&outbox_.current);
  }
  void close() override {
    if (outbox_.close()) finish();
  }
  void cut() override { context_.TryCancel(); }
  const std::string& peer() const override { return peer_; }

  void OnReadDone(bool ok) override {
    if (!ok) {
      if (outbox_.end()) RemoveHold();
      return;
    }
    handler_->on_frame(text_of(incoming_));
    StartRead(&incoming_);
  }
  void OnWriteDone(bool ok) override {
    if (ok && outbox_.written()) {
      StartWrite(&outbox_.current);
    } else if (ok && outbox_.finishes_after_write()) {
      finish();
    }
  }
  void OnDone(const grpc::Status& status) override {
    const auto handler = std::move(handler_);
    const auto self = std::move(self_);  // The last one, perhaps.
    handler->on_end(status.ok() ? "closed" : status.error_message());
  }

 private:
  void finish() {
    StartWritesDone();
    RemoveHold();
  }

  std::string peer_;
  std::shared_ptr<FrameHandler> handler_;
  std::shared_ptr<ClientStream> self_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<grpc::GenericStub> stub_;
  grpc::ClientContext context_;
  ByteBuffer incoming_;
  Outbox outbox_;
};

class ServerStream;

/// gRPC's side of a stream that somebody opened here; it lives until OnDone.
class ServerReactor final : public grpc::ServerGenericBidiReactor {
 public:
  explicit ServerReactor(std::shared_ptr<ServerStream> stream) : stream_(std::move(stream)) {}
  void begin(std::shared_ptr<FrameHandler> handler) {
    handler_ = std::move(handler);
    StartRead(&incoming_);
  }
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  std::shared_ptr<ServerStream> stream_;
  std::shared_ptr<FrameHandler> handler_;
  ByteBuffer incoming_;
};

class ServerStream final : public FrameStream {
 public:
  explicit ServerStream(std::string peer) : peer_(std::move(peer)) {}
  void send(std::string frame) override {
    const std::lock_guard lock(mutex_);
    if (reactor != nullptr && outbox.push(std::move(frame))) reactor->StartWrite(&outbox.current);
  }
  void close() override {
    const std::lock_guard lock(mutex_);
    if (reactor != nullptr && outbox.close()) reactor->Finish(grpc::Status::OK);
  }
  void cut() override { close(); }
  void detach() {
    const std::lock_guard lock(mutex_);
    reactor = nullptr;
  }
  const std::string& peer() const override { return peer_; }

  ServerReactor* reactor = nullptr;
  Outbox outbox;

 private:
  std::string peer_;
  std::mutex mutex_;
};

void ServerReactor::OnReadDone(bool ok) {
  if (!ok) {
    if (stream_->outbox.end()) Finish(grpc::Status::OK);
    return;
  }
  if (handler_ != nullptr) handler_->on_frame(text_of(incoming_));
  StartRead(&incoming_);
}

void ServerReactor::OnWriteDone(bool ok) {
  if (ok && stream_->outbox.written()) {
    StartWrite(&stream_->outbox.current);
  } else if (ok && stream_->outbox.finishes_after_write()) {
    Finish(grpc::Status::OK);
  }
}

void ServerReactor::OnCancel() {
  if (stream_->outbox.end()) Finish(grpc::Status::CANCELLED);
}

void ServerReactor::OnDone() {
  stream_->detach();
  if (handler_ != nullptr) handler_->on_end("the connection ended");
  delete this;
}

std::string contents_of(const std::string& path, std::string& error) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file && error.empty()) error = "TLS: '" + path + "' cannot be read";
  return text.str();
}

class Server final : public FrameServer, public grpc::CallbackGenericService {
 public:
  explicit Server(FramePlugin::Accept accept) : accept_(std::move(accept)) {}
  ~Server() override {
    if (server_ != nullptr)
      server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
  }

  bool listen(const std::string& address,
              const std::shared_ptr<grpc::ServerCredentials>& credentials) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, credentials, &port_);
    builder.RegisterCallbackGenericService(this);
    builder.SetMaxReceiveMessageSize(static_cast<int>(kMostFrameBytes));
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 5000);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 4);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 8192);
    server_ = builder.BuildAndStart();
    return server_ != nullptr && port_ != 0;
  }

  int port() const override { return port_; }

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    auto stream = std::make_shared<ServerStream>(plain_address(context->peer()));
    auto* reactor = new ServerReactor(stream);
    if (context->method() != kMethod) {
      reactor->Finish(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, ""));
      return reactor;
    }
    stream->reactor = reactor;
    reactor->begin(accept_(stream));
    return reactor;
  }

 private:
  FramePlugin::Accept accept_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class Plugin final : public FramePlugin {
 public:
  std::unique_ptr<FrameServer> listen(const std::string& address, const TlsFiles& tls,
                                      Accept accept, std::string& error) override {
    std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
    if (!tls.certificate.empty()) {
      grpc::SslServerCredentialsOptions options(
          GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
      options.pem_root_certs = contents_of(tls.authority, error);
      options.pem_key_cert_pairs.push_back(
          {contents_of(tls.key, error), contents_of(tls.certificate, error)});
      credentials = grpc::SslServerCredentials(options);
    }
    if (!error.empty()) return nullptr;
    auto server = std::make_unique<Server>(std::move(accept));
    if (server->listen(address, credentials)) return server;
    error = "cannot listen there; another process may";
    return nullptr;
  }

  std::shared_ptr<FrameStream> connect(const std::string& address, const TlsFiles& tls,
                                       std::shared_ptr<FrameHandler> handler,
                                       std::string& error) override {
    std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
    if (!tls.certificate.empty()) {
      grpc::SslCredentialsOptions options;
      options.pem_root_certs = contents_of(tls.authority, error);
      options.pem_private_key = contents_of(tls.key, error);
      options.pem_cert_chain = contents_of(tls.certificate, error);
      credentials = grpc::SslCredentials(options);
    }
    if (!error.empty()) return nullptr;
    auto stream = std::make_shared<ClientStream>(address, credentials, std::move(handler));
    stream->begin(stream);
    return stream;
  }

  std::array<uint8_t, 32> hmac_sha256(const std::string& key, const std::string& text) override {
    std::array<uint8_t, 32> result{};
    unsigned length = 0;
    HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
         reinterpret_cast<const unsigned char*>(text.data()), text.size(), result.data(), &length);
    return result;
  }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const char* tandem_plugin_version() {
  return TANDEM_VERSION;
}

extern "C" __attribute__((visibility("default"))) FramePlugin* tandem_open_grpc() {
  gpr_set_log_function([](gpr_log_func_args*) {});
  grpc_init();  // Once for the whole process, whose end must not meet gRPC's own.
  static auto* const plugin = new Plugin;
  return plugin;
}

}  // namespace tandem::cluster::grpc_frames

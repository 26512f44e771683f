/// Streams of frames over gRPC: a bidirectional call of a generic service, whose messages are the
/// frames as they are. This is all of the plugin libtandem_grpc.so; the rest of the library knows
/// no type of gRPC.
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <openssl/hmac.h>

#include <cstdio>
#include <deque>
#include <fstream>
#include <functional>
#include <mutex>
#include <sstream>
#include <string_view>
#include <utility>

#include "cluster/frame_stream.h"

namespace tandem::cluster::grpc_frames {
namespace {

using grpc::ByteBuffer;

constexpr const char* kMethod = "/tandem.Coordinator/Frames";

/// Memory that is released with the slice's owner.
template <class Owner>
grpc::Slice slice_of(const void* data, size_t count, Owner* owner) {
  return {const_cast<void*>(data), count, [](void* held) { delete static_cast<Owner*>(held); },
          owner};
}

grpc::Slice slice_of(std::string text) {
  auto* const held = new std::string(std::move(text));
  return slice_of(held->data(), held->size(), held);
}

ByteBuffer buffer_of(std::string head, const std::vector<FrameBytes>& parts = {}) {
  std::vector<grpc::Slice> slices;
  slices.push_back(slice_of(std::move(head)));
  for (const FrameBytes& part : parts) {
    slices.push_back(slice_of(part.data, part.count, new std::shared_ptr<const void>(part.owner)));
  }
  return {slices.data(), slices.size()};
}

/// Gives the frame that was received to a handler, where gRPC has it.
void hand_over(const ByteBuffer& buffer, FrameHandler& handler) {
  std::vector<grpc::Slice> slices;
  std::vector<std::string_view> runs;
  if (buffer.Dump(&slices).ok()) {
    for (const grpc::Slice& slice : slices) {
      runs.emplace_back(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
  }
  handler.on_frame_runs(runs);
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

/// Frames that wait to be written, one after another, and the end of a stream. It calls `write` and
/// `finish` with its lock held, and neither after `finish`: gRPC ends a process that starts an
/// operation of a call which has finished meanwhile.
class Outbox {
 public:
  using Write = std::function<void(const ByteBuffer*)>;
  /// `said`: whether this side closed the stream, all of whose frames are written.
  using Finish = std::function<void(bool said)>;
  Outbox(Write write, Finish finish) : write_(std::move(write)), finish_(std::move(finish)) {}

  void push(ByteBuffer frame) {
    const std::lock_guard lock(mutex_);
    if (closed_ || finished_) return;
    frames_.push_back(std::move(frame));
    proceed();
  }
  void written() {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    proceed();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    proceed();
  }
  /// Nothing more can be written.
  void end() {
    const std::lock_guard lock(mutex_);
    frames_.clear();
    finish(false);
  }

 private:
  void proceed() {
    if (writing_ || finished_) return;
    if (!frames_.empty()) {
      current_.Swap(&frames_.front());
      frames_.pop_front();
      writing_ = true;
      write_(&current_);
    } else if (closed_) {
      finish(true);
    }
  }
  void finish(bool said) {
    if (!std::exchange(finished_, true)) finish_(said);
  }

  const Write write_;
  const Finish finish_;
  std::mutex mutex_;
  std::deque<ByteBuffer> frames_;
  ByteBuffer current_;
  bool writing_ = false;
  bool closed_ = false;
  bool finished_ = false;
};

/// Channels of streams that have ended. The end of a stream comes on a thread of gRPC, which must
/// not destroy a channel: the last one joins gRPC's threads, itself among them, and the process is
/// aborted. They wait here for the next thread that connects; the last ones stay.
class RetiredChannels {
 public:
  void add(std::shared_ptr<grpc::Channel> channel) {
    const std::lock_guard lock(mutex_);
    channels_.push_back(std::move(channel));
  }
  void clear() {
    std::vector<std::shared_ptr<grpc::Channel>> channels;
    const std::lock_guard lock(mutex_);
    channels.swap(channels_);
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
};

RetiredChannels& retired_channels() {
  static auto* const channels = new RetiredChannels;
  return *channels;
}

class ClientStream final : public FrameStream,
                           public grpc::ClientBidiReactor<ByteBuffer, ByteBuffer> {
 public:
  ClientStream(const std::string& address,
               const std::shared_ptr<grpc::ChannelCredentials>& credentials,
               std::shared_ptr<FrameHandler> handler)
      : peer_(address),
        handler_(std::move(handler)),
        outbox_([this](const ByteBuffer* frame) { StartWrite(frame); },
                [this](bool said) { finish(said); }) {
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
  ~ClientStream() override { retired_channels().add(std::move(channel_)); }

  void begin(std::shared_ptr<ClientStream> self) {
    self_ = std::move(self);
    stub_->PrepareBidiStreamingCall(&context_, kMethod, {}, this);
    AddHold();  // For writes that begin outside of gRPC's calls.
    StartRead(&incoming_);
    StartCall();
  }

  void send(std::string frame) override { outbox_.push(buffer_of(std::move(frame))); }
  void send_parts(std::string head, const std::vector<FrameBytes>& parts) override {
    outbox_.push(buffer_of(std::move(head), parts));
  }
  void close() override { outbox_.close(); }
  void cut() override { context_.TryCancel(); }
  const std::string& peer() const override { return peer_; }

  void OnReadDone(bool ok) override {
    if (!ok) return outbox_.end();
    hand_over(incoming_, *handler_);
    StartRead(&incoming_);
  }
  void OnWriteDone(bool ok) override {
    if (ok) outbox_.written();  // Else the end is read soon.
  }
  void OnDone(const grpc::Status& status) override {
    const auto handler = std::move(handler_);
    const auto self = std::move(self_);  // The last one, perhaps.
    handler->on_end(status.ok() ? "closed" : status.error_message());
  }

 private:
  void finish(bool said) {
    if (said) StartWritesDone();
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
  explicit ServerReactor(const std::string& peer);
  const std::shared_ptr<ServerStream>& stream() const { return stream_; }
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

/// It may outlive its reactor, which its outbox knows until it has finished.
class ServerStream final : public FrameStream {
 public:
  ServerStream(std::string peer, ServerReactor& reactor)
      : outbox([&reactor](const ByteBuffer* frame) { reactor.StartWrite(frame); },
               [&reactor](bool) { reactor.Finish(grpc::Status::OK); }),
        peer_(std::move(peer)) {}
  void send(std::string frame) override { outbox.push(buffer_of(std::move(frame))); }
  void send_parts(std::string head, const std::vector<FrameBytes>& parts) override {
    outbox.push(buffer_of(std::move(head), parts));
  }
  void close() override { outbox.close(); }
  void cut() override { close(); }
  const std::string& peer() const override { return peer_; }

  Outbox outbox;

 private:
  std::string peer_;
};

ServerReactor::ServerReactor(const std::string& peer)
    : stream_(std::make_shared<ServerStream>(peer, *this)) {}

void ServerReactor::OnReadDone(bool ok) {
  if (!ok) return stream_->outbox.end();
  if (handler_ != nullptr) hand_over(incoming_, *handler_);
  StartRead(&incoming_);
}

void ServerReactor::OnWriteDone(bool ok) {
  if (ok) stream_->outbox.written();
}

void ServerReactor::OnCancel() { stream_->outbox.end(); }

void ServerReactor::OnDone() {
  if (handler_ != nullptr) handler_->on_end("the connection ended");
  delete this;
}

/// A call of some other service, which does not exist here.
class UnknownMethod final : public grpc::ServerGenericBidiReactor {
 public:
  UnknownMethod() { Finish(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "")); }
  void OnDone() override { delete this; }
};

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
    if (context->method() != kMethod) return new UnknownMethod;
    auto* reactor = new ServerReactor(plain_address(context->peer()));
    reactor->begin(accept_(reactor->stream()));
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
    retired_channels().clear();
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
  gpr_set_log_function([](gpr_log_func_args* line) {
    // All else comes back as the status of a call. A failed assertion ends the process.
    if (std::string_view(line->message).find("assertion failed") == std::string_view::npos) return;
    std::fprintf(stderr, "tandem: gRPC: %s:%d: %s\n", line->file, line->line, line->message);
  });
  grpc_init();  // Once for the whole process, whose end must not meet gRPC's own.
  static auto* const plugin = new Plugin;
  return plugin;
}

}  // namespace tandem::cluster::grpc_frames

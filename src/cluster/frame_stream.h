/// Frames between two processes, in order, over a connection that says when it ends. The control
/// plane is made of these; a plugin implements them (cluster/grpc/), so errors are values.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::cluster {

/// No frame is longer.
inline constexpr size_t kMostFrameBytes = size_t{1} << 20;

/// The files of mutual TLS, as PEM. Empty names: no TLS.
struct TlsFiles {
  std::string authority = {};
  std::string certificate = {};
  std::string key = {};
};

/// What happens on a stream; called by threads of the plugin, one at a time for each stream.
class FrameHandler {
 public:
  virtual ~FrameHandler() = default;
  virtual void on_frame(std::string frame) = 0;
  /// The same: a frame as it was received, in runs of bytes that are there for the time of the
  /// call.
  virtual void on_frame_runs(std::span<const std::string_view> runs) {
    std::string frame;
    for (const std::string_view run : runs) frame.append(run);
    on_frame(std::move(frame));
  }
  /// The last call.
  virtual void on_end(const std::string& why) = 0;
};

/// Some bytes of a frame, where they lie.
struct FrameBytes {
  const void* data = nullptr;
  size_t count = 0;
  std::shared_ptr<const void> owner = {};  ///< They stay as they are while somebody holds it.
};

/// Any thread may use it.
class FrameStream {
 public:
  virtual ~FrameStream() = default;
  /// Returns at once; frames of a stream that has ended are dropped.
  virtual void send(std::string frame) = 0;
  /// A frame of `head` and then `parts`, which are not copied.
  virtual void send_parts(std::string head, const std::vector<FrameBytes>& parts) = 0;
  /// Ends the stream once what was sent has left. The handler hears of it.
  virtual void close() = 0;
  /// Ends the stream at once.
  virtual void cut() = 0;
  /// The address of the other side: "10.0.0.2:41234".
  virtual const std::string& peer() const = 0;
};

class FrameServer {
 public:
  /// Ends all streams.
  virtual ~FrameServer() = default;
  virtual int port() const = 0;
};

/// What the plugin brings.
class FramePlugin {
 public:
  using Accept = std::function<std::shared_ptr<FrameHandler>(std::shared_ptr<FrameStream>)>;

  virtual ~FramePlugin() = default;

  /// Listens at "host:port"; null, and why in `error`, if that is impossible. Port 0: any.
  virtual std::unique_ptr<FrameServer> listen(const std::string& address, const TlsFiles& tls,
                                              Accept accept, std::string& error) = 0;

  /// Tries until it succeeds or the stream is closed. Each stream has a connection of its own.
  virtual std::shared_ptr<FrameStream> connect(const std::string& address, const TlsFiles& tls,
                                               std::shared_ptr<FrameHandler> handler,
                                               std::string& error) = 0;

  virtual std::array<uint8_t, 32> hmac_sha256(const std::string& key, const std::string& text) = 0;
};

/// Opens the plugin at the first call. Throws NotFound, which names the package.
FramePlugin& frame_plugin();

}  // namespace tandem::cluster

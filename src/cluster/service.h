/// Questions and answers between tasks of a cluster, over a stream each, once both sides have
/// proved that they know the cluster's secret (cluster/handshake.h):
///
///   asker   hello             host   challenge
///   asker   proof             host   welcome, or refused: why
///   asker   a question        host   its answer
///
/// A message, which is a question or an answer, is one frame or several, so that no frame is longer
/// than kMostFrameBytes: a stranger can send that much, and only one who has proved itself more.
///
///   first frame   number (8 bytes) | bytes of the message (8 bytes) | as many of them as fit
///   the others    number           | ~0                             | the next ones
///
/// Questions of one stream may be answered in any order.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/cluster_config.h"
#include "cluster/frame_stream.h"

namespace tandem::cluster {

struct ServiceOptions {
  std::string cluster;  ///< The same for all tasks.
  std::string secret = {};
  TlsFiles tls = {};
  size_t most_bytes = size_t{1} << 34;  ///< A message of one who has proved itself has no more.
};

/// What is sent: a text, then bytes where they lie.
struct ServiceMessage {
  std::string text = {};
  std::vector<FrameBytes> parts = {};
};

/// An empty text with room for so many bytes. Memory of large messages that were handled is used
/// again: new pages cost as much as a copy.
std::string take_buffer(size_t bytes);

/// What was received. Its text begins at a multiple of 16 bytes.
class ServiceText {
 public:
  ServiceText() = default;
  /// `frames` are those of a message, without the heads of all but the first.
  explicit ServiceText(std::string&& frames);

  static constexpr size_t kHeadBytes = 16;
  std::string_view view() const { return std::string_view(*frames_).substr(kHeadBytes); }

 private:
  std::shared_ptr<const std::string> frames_;
};

/// Where an answer is to lie: its first `head` bytes are a text, and the others go to these places,
/// one after another, as they arrive. An answer of another length is a text as a whole.
struct AnswerPlaces {
  size_t head = 0;
  std::vector<std::span<char>> places = {};
};
using AnswerPlacesPtr = std::shared_ptr<const AnswerPlaces>;

/// A task that asks.
struct Asker {
  std::string job;
  int task = 0;
  uint64_t stream = 0;  ///< Another one for each stream.

  /// "worker 1"
  std::string str() const;
};

/// Called by threads of the plugin: one at a time for each stream, several streams at once.
class ServiceHandler {
 public:
  using Reply = std::function<void(ServiceMessage answer)>;

  virtual ~ServiceHandler() = default;
  /// `reply` may be called once, later and by any thread; of a stream that has ended it is dropped.
  virtual void on_question(const Asker& asker, std::string_view question, Reply reply) = 0;
  virtual void on_gone(const Asker& asker) = 0;
};

/// Answers those who ask at an address.
class ServiceHost {
 public:
  /// Throws Unavailable if it cannot listen there, FailedPrecondition without a secret that it
  /// would need. The handler lives as long as some stream does.
  ServiceHost(const HostPort& address, ServiceOptions options,
              std::shared_ptr<ServiceHandler> handler);
  ~ServiceHost();
  ServiceHost(const ServiceHost&) = delete;
  ServiceHost& operator=(const ServiceHost&) = delete;

  int port() const;

 private:
  struct Body;
  std::shared_ptr<Body> body_;
};

/// Asks at an address. When the stream ends the next question opens another. Any thread may ask.
class ServiceLine {
 public:
  /// `job` and `task` are this process's, `name` the other one's, for messages: "ps 1".
  ServiceLine(std::string name, const HostPort& address, ServiceOptions options, std::string job,
              int task);
  ~ServiceLine();
  ServiceLine(const ServiceLine&) = delete;
  ServiceLine& operator=(const ServiceLine&) = delete;

  const std::string& name() const { return name_; }

  /// The answer will be there, or Unavailable where the stream ends before or too many others wait
  /// to be let in, FailedPrecondition where this process is not let in. A task that is not there
  /// yet is waited for. Nothing is written to `places` once the future has an error, nor when this
  /// line has ended.
  std::future<ServiceText> ask(ServiceMessage question, AnswerPlacesPtr places = nullptr);

  /// Whether the other side is there, and both have proved themselves.
  bool is_connected();

  /// Ends the stream at once: questions that are open are answered by Unavailable.
  void cut();

 private:
  class Stream;
  const std::string name_;
  const HostPort address_;
  const ServiceOptions options_;
  const std::string job_;
  const int task_;
  std::mutex mutex_;
  std::shared_ptr<Stream> stream_;
};

/// The bytes of all messages that this process has sent and received so far.
uint64_t service_bytes();
/// How many it has sent.
uint64_t service_messages();

/// The secret and the files of TLS that the environment names.
ServiceOptions service_options_from(const Environment& environment, std::string cluster);

}  // namespace tandem::cluster

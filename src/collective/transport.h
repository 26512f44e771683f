/// Messages between the processes of a group. A transport moves bytes between ranks; what they
/// mean, in which order they are summed and how long one waits for them is the Exchanger's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace tandem::collective {

/// One thread at a time uses it. It is implemented by plugins, so errors are values.
class Transport {
 public:
  /// A message on its way; null when it has arrived already.
  using Request = void*;
  enum class Status { pending, done, failed };

  virtual ~Transport() = default;

  /// Where peers reach this process, for `connect`.
  virtual const std::string& address() const = 0;

  /// Returns what is wrong, or nothing. The peer is found or missed by the first messages.
  virtual std::string connect(int peer, const std::string& address) = 0;

  /// Messages with one tag between two ranks arrive in the order in which they were sent. The tag
  /// tells the sender.
  virtual Request send(int peer, uint64_t tag, const void* data, size_t bytes) = 0;
  virtual Request receive(uint64_t tag, void* data, size_t bytes) = 0;

  /// A request that is done or failed exists no more.
  virtual Status test(Request request) = 0;
  /// Asks for the end of a receive, which `test` then tells.
  virtual void cancel(Request request) = 0;

  /// Moves what can be moved; true if something did.
  virtual bool progress() = 0;
  /// A file descriptor that can be read when there is something to move, or -1 if there is now.
  virtual int arm() = 0;

  /// Why a peer cannot be reached any more; empty while it can.
  virtual const std::string& failure(int peer) const = 0;

  /// Waits until what was sent has left this process, for a second at most.
  virtual void flush() = 0;
  /// Cuts the connections at once: sends under way fail.
  virtual void disconnect() = 0;
  /// Leaves everything as it is until the process ends, and touches nothing any more. Connections
  /// that are only half made cannot always be cut.
  virtual void abandon() = 0;
};

struct TransportOptions {
  /// "auto": shared memory within a host and TCP between hosts; "tcp"; "shm".
  std::string kind = "auto";
  /// The network interfaces to use, such as "eth0"; all without.
  std::string interfaces = {};
  /// Large messages within a host are read from the sender's memory, where the system lets
  /// processes do so. TANDEM_READ_NEIGHBOURS=0 turns it off.
  bool read_neighbours = true;
};

/// Throws InvalidArgument for a kind that there is not and for a TANDEM_READ_NEIGHBOURS that is
/// neither 0 nor 1, NotFound without the plugin, Unavailable if it cannot start.
std::unique_ptr<Transport> open_transport(const TransportOptions& options);

}  // namespace tandem::collective

/// The exchanges of a group over a transport: who drives them, how long they wait, how they fail.
///
/// Small exchanges are driven by the thread that waits for them, which polls: nobody else is woken.
/// Large ones are driven by a thread of the exchanger while their starter computes, and by the
/// starter once it waits. That thread exists from the first large exchange on.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "collective/process_exchange.h"
#include "collective/transport.h"
#include "core/signal.h"
#include "op/group.h"

namespace tandem::collective {

/// Why an exchange does not go on.
struct ExchangeTrouble {
  enum class Kind { peer_lost, overdue };
  Kind kind = Kind::overdue;
  std::vector<int> ranks;  ///< Those that are lost, or awaited.
  std::string exchange;    ///< "all-reduce #4512 'dense/kernel'"
  double seconds = 0;      ///< How long nothing has moved.
  std::string detail;      ///< What the transport says.
};

struct ExchangerOptions {
  int rank = 0;
  int size = 1;
  uint64_t tag_seed = 0;
  /// How long an exchange may make no progress.
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);
  /// Makes the error of a trouble; called by whoever drives.
  std::function<std::exception_ptr(const ExchangeTrouble&)> judge = {};
};

class Exchanger {
 public:
  using Ticket = op::Group::Ticket;

  /// The transport is connected to all peers.
  Exchanger(std::unique_ptr<Transport> transport, ExchangerOptions options);
  ~Exchanger();
  Exchanger(const Exchanger&) = delete;
  Exchanger& operator=(const Exchanger&) = delete;

  /// Exchanges nothing with all peers, so that all connections are made. All ranks call it first.
  void meet();

  Ticket start(const op::Exchange& exchange);
  void wait(Ticket ticket);

  /// As those of op::Group.
  void send(const op::PeerMessage& message);
  void receive(const op::PeerMessage& message);

  /// From any thread: present and later calls throw this. The first failure stays.
  void fail(std::exception_ptr failure);

  /// Waits until what was sent has left this process; nothing can be started afterwards.
  void finish();

  /// What is waited for.
  struct Waiting {
    std::string text;       ///< "all-reduce #12 'x', for rank 2"
    Ticket number = 0;      ///< 12
    std::string signature;  ///< "all-reduce 'x' of 10240 bytes"
  };

  /// What is waited for since a tenth of a second or longer: empty without. Any
  /// thread may ask.
  Waiting waiting() const;

 private:
  /// An exchange, from its start until it is done, and then kept for when it recurs.
  struct Started {
    Ticket ticket = 0;
    std::string name;
    bool large = false;
    bool running = false;
    op::ExchangeKind kind = op::ExchangeKind::sum;
    int root = 0;
    size_t bytes = 0;
    uint32_t shape = 0;  // A hash of all but the name.
    std::vector<op::Piece> pieces;
    std::unique_ptr<ProcessExchange> messages;
    core::Clock::time_point moved;  // When something last happened to it.

    bool is(const op::Exchange& exchange) const;
  };
  class CallersTurn;

  /// A message between two ranks.
  struct Posted {
    Posted(Ticket ticket, const ExchangeContext& context, const op::PeerMessage& text,
           RankMessage::Kind kind)
        : number(ticket), message(context, text, kind), moved(core::Clock::now()) {}
    Ticket number;
    RankMessage message;
    core::Clock::time_point moved;
  };

  std::unique_ptr<Started> take(const op::Exchange& exchange);
  template <class IsDone>
  void wait_until(CallersTurn& turn, const IsDone& is_done);
  bool drive();
  bool drive_messages();
  void end_sending();
  void begin_thread();
  void look_at_messages(core::Clock::time_point now);
  void look_for_trouble(core::Clock::time_point now);
  void note_waiting(Waiting waiting);
  void sleep(std::unique_lock<std::mutex>& lock);
  void throw_if_failed();
  void give_up();
  void run_thread();
  std::exception_ptr failure() const;

  ExchangerOptions options_;
  std::unique_ptr<Transport> transport_;
  MessageMemory memory_;
  ExchangeContext context_;

  std::mutex mutex_;                               // Guards the transport and what follows.
  std::vector<std::unique_ptr<Started>> started_;  // In their order.
  std::vector<std::unique_ptr<Started>> spare_;    // Done; those that recur are found again.
  Ticket last_ticket_ = 0;
  std::list<Posted> posted_;  // Messages between two ranks that are under way.
  Ticket last_message_ = 0;
  int large_ = 0;  // Large exchanges, and messages that are being sent.
  bool met_ = false;
  bool waits_ = false;  // Whether waiting_ says something.
  bool given_up_ = false;
  std::chrono::microseconds nap_{50};
  std::thread thread_;
  std::condition_variable changed_;
  std::atomic<int> callers_{
      0};  // Threads in start and wait; the exchanger's own thread yields to them.
  std::atomic<bool> ending_{false};

  std::atomic<bool> failed_{false};
  mutable std::mutex failure_mutex_;  // Guards the two below.
  std::exception_ptr failure_;
  Waiting waiting_;
};

}  // namespace tandem::collective

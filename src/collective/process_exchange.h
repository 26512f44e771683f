/// One exchange between processes while it is under way: which messages are sent and awaited, and
/// what becomes of them.
///
/// Small sums: everybody sends all it has to everybody, and sums for itself.
///
///   rank 0   [a0 b0] -->  rank 1, 2      then a0+a1+a2, b0+b1+b2 on each rank
///
/// All else goes by parts: each rank owns a part of each piece (op::part_of_piece), cut into
/// blocks.
///
///   contribute   every rank sends block k of part r to rank r     (sum, sum_parts; broadcast: the
///   root) sum          rank r adds what arrived to its own block k, in the order of
///   collective/tree.h spread       rank r sends block k of its part to every rank   (sum,
///   gather_parts, broadcast)
///
/// Blocks are independent of each other, so that wires and adders work at the same time. Each rank
/// sends and receives 2 (N-1)/N of the bytes for a sum, which is the least.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collective/transport.h"
#include "op/group.h"

namespace tandem::collective {

/// Memory for messages, used again by later exchanges.
class MessageMemory {
 public:
  using Bytes = std::vector<char>;
  std::unique_ptr<Bytes> take(size_t bytes);
  void give_back(std::unique_ptr<Bytes> bytes);

 private:
  std::vector<std::unique_ptr<Bytes>> free_;
};

/// What an exchange needs from its surroundings.
struct ExchangeContext {
  Transport& transport;
  MessageMemory& memory;
  int rank;
  int size;
  uint64_t tag_seed;  ///< The upper 32 bits of all tags of this group.
};

class ProcessExchange {
 public:
  virtual ~ProcessExchange() = default;

  /// Sends the first messages. An exchange that is done may begin again, as another number: what
  /// recurs in every step is made once. Messages of different signatures do not meet.
  virtual void begin(uint64_t number, uint32_t signature) = 0;
  /// Sends and receives what can be; true if something was done. Call it until is_done().
  virtual bool advance() = 0;
  virtual bool is_done() const = 0;
  /// The ranks that something is awaited from or still on its way to.
  virtual std::vector<int> awaited() const = 0;
  /// Gives up; returns when nothing touches the pieces any more, or after a second.
  virtual void cancel() = 0;
};

/// Makes one; the pieces stay where they are.
std::unique_ptr<ProcessExchange> make_exchange(const ExchangeContext& context,
                                               const op::Exchange& exchange);

/// A message between two ranks while it is under way. What is sent is copied first.
class RankMessage {
 public:
  enum class Kind { sent, received };
  RankMessage(const ExchangeContext& context, const op::PeerMessage& message, Kind kind);
  ~RankMessage();
  RankMessage(const RankMessage&) = delete;
  RankMessage& operator=(const RankMessage&) = delete;

  /// True if something arrived. Call it until is_done().
  bool advance();
  bool is_done() const;
  int peer() const { return peer_; }
  Kind kind() const { return kind_; }
  const std::string& name() const { return name_; }
  /// As ProcessExchange's own.
  void cancel();

 private:
  struct Moving;
  ExchangeContext context_;
  const Kind kind_;
  const int peer_;
  const std::string name_;
  std::unique_ptr<MessageMemory::Bytes> copy_;
  std::unique_ptr<Moving> moving_;
};

/// The bytes of all pieces.
size_t bytes_of(const op::Exchange& exchange);

/// "all-reduce", "reduce-scatter", "all-gather" or "broadcast".
const char* name_of(op::ExchangeKind kind);

}  // namespace tandem::collective

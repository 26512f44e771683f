#pragma once
// The processes that take part in a collective. A Group is what programs know of other processes:
// who they are, and exchanges with them. Transports implement it (collective/ucx/), the cluster
// makes it (cluster/), tests double it.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/dtype.h"

namespace tandem::op {

// Some elements in host memory. All ranks name pieces of the same counts and types, in the same
// order.
struct Piece {
  void* data;
  std::int64_t count;
  DType dtype;
};

enum class ExchangeKind {
  sum,           // Every rank ends with the sum over all ranks, in the order of collective/tree.h.
  sum_parts,     // Rank r ends with the sum in its part of each piece; the rest of the piece is
                 // undefined then.
  gather_parts,  // Every rank's part of each piece goes to all ranks.
  broadcast,     // The root's pieces go to all ranks.
};

struct Exchange {
  ExchangeKind kind = ExchangeKind::sum;
  std::span<const Piece> pieces;
  int root = 0;
  std::string_view name;  // What errors call it, such as the first gradient's variable.
};

// Elements that go from one rank to another. Those of the receiver have the counts and types of the
// sender's. Messages of one `key` between two ranks are received in the order in which they were
// sent.
struct PeerMessage {
  int peer = 0;  // Who is sent to, or received from.
  std::uint32_t key = 0;
  std::span<const Piece> pieces;
  std::string_view name;  // What errors call it.
};

// [begin, end) of the elements of a piece that belong to `rank`: whole chunks of 64 elements, as
// even as they can be.
struct PartRange {
  std::int64_t begin, end;
};
PartRange part_of_piece(std::int64_t count, int rank, int size);

class Group {
 public:
  using Ticket = std::uint64_t;
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // "rank 2 (worker 2, hostB)"
  virtual std::string describe(int rank) const = 0;

  // Exchanges start in the same order on every rank. `start` returns at once, and the pieces stay
  // untouched until `wait` of its ticket has returned. Both are called by one thread at a time.
  // `wait` throws Unavailable, DeadlineExceeded or Aborted with the culprit's name; all later calls
  // throw the same.
  virtual Ticket start(const Exchange& exchange) = 0;
  virtual void wait(Ticket ticket) = 0;
  void run(const Exchange& exchange) { wait(start(exchange)); }

  // `send` copies the elements and returns at once; `receive` returns when they are there. From any
  // thread, also while an exchange is under way. They throw as `wait` does; what keeps a message
  // from its receiver shows up in later calls.
  virtual void send(const PeerMessage& message) = 0;
  virtual void receive(const PeerMessage& message) = 0;

  // Texts of all ranks, by rank; for what happens once (fingerprints, the chief's state), not in
  // steps.
  virtual std::vector<std::string> gather_texts(std::string_view name, std::string text) = 0;

  // From any thread: makes every present and later call throw Aborted with this reason, here and on
  // all ranks.
  virtual void abort(std::string_view reason) = 0;
  // What this process does, for the others' error messages if it keeps them waiting: "backward of
  // step 812".
  virtual void note_progress(std::string_view phase, std::int64_t step) = 0;
};

}  // namespace tandem::op

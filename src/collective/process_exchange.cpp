#include "collective/process_exchange.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "collective/element_sum.h"

namespace tandem::collective {
namespace {

using op::Exchange;
using op::ExchangeKind;
using op::Piece;
using Request = Transport::Request;
using Status = Transport::Status;

constexpr size_t kBlockBytes = size_t{256} << 10;
constexpr size_t kMostWholeBytes = size_t{16} << 10;  // Larger sums go in parts.
constexpr size_t kMostWholeTraffic = size_t{64} << 10;
constexpr size_t kMostBlocks = 8000;  // A part has no more: tags have room for so many.

/// A message's tag:
///   63..32 the group's seed and the signature | 31..22 the sender | 21..14 the exchange | 13 the
///   phase | 12..0 the block
struct ExchangeNumber {
  uint64_t number = 0;
  uint32_t signature = 0;
};

uint64_t tag_of(const ExchangeContext& context, int sender, const ExchangeNumber& exchange,
                int phase, size_t block) {
  return (context.tag_seed ^ exchange.signature) << 32 | static_cast<uint64_t>(sender) << 22 |
         (exchange.number & 0xff) << 14 | static_cast<uint64_t>(phase) << 13 | block;
}

/// A message on its way, between two looks at it.
class MovingMessage {
 public:
  void start(Request request) {
    request_ = request;
    status_ = request == nullptr ? Status::done : Status::pending;
  }
  Status look(Transport& transport) {
    if (status_ == Status::pending) status_ = transport.test(request_);
    return status_;
  }
  bool is_pending() const { return status_ == Status::pending; }
  bool is_done() const { return status_ == Status::done; }
  void cancel(Transport& transport) const {
    if (is_pending()) transport.cancel(request_);
  }

 private:
  Request request_ = nullptr;
  Status status_ = Status::done;
};

/// Gives up on messages. Sends fail when the connections are cut.
void cancel_all(Transport& transport, std::span<MovingMessage* const> messages) {
  for (const MovingMessage* message : messages) message->cancel(transport);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (MovingMessage* message : messages) {
    while (message->look(transport) == Status::pending &&
           std::chrono::steady_clock::now() < deadline) {
      transport.progress();
    }
  }
}

/// Elements that lie together, in one piece.
struct ElementRange {
  char* data;
  int64_t count;
  DType dtype;

  size_t bytes() const { return static_cast<size_t>(count) * size_of(dtype); }
};

constexpr size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/// In messages each range begins where its elements may lie. Calls visit(range, offset) for each;
/// returns the bytes of the message.
template <class Visit>
size_t lay_out(std::span<const ElementRange> ranges, const Visit& visit) {
  size_t end = 0;
  for (const ElementRange& range : ranges) {
    const size_t offset = round_up(end, sizeof(double));
    visit(range, offset);
    end = offset + range.bytes();
  }
  return end;
}

void pack(std::span<const ElementRange> ranges, char* to) {
  lay_out(ranges, [&](const ElementRange& range, size_t offset) {
    std::memcpy(to + offset, range.data, range.bytes());
  });
}

void unpack(std::span<const ElementRange> ranges, const char* from) {
  lay_out(ranges, [&](const ElementRange& range, size_t offset) {
    std::memcpy(range.data, from + offset, range.bytes());
  });
}

/// Sums packed values of all ranks into the ranges. A null value stands for what the ranges hold.
void sum_packed(std::span<const ElementRange> ranges, std::span<const char* const> by_rank,
                std::vector<const void*>& values) {
  values.resize(by_rank.size());
  lay_out(ranges, [&](const ElementRange& range, size_t offset) {
    for (size_t r = 0; r < by_rank.size(); ++r) {
      values[r] = by_rank[r] == nullptr ? range.data : by_rank[r] + offset;
    }
    sum_elements(range.dtype, values, range.data, range.count);
  });
}

/// A sum of few bytes.
class WholeSum final : public ProcessExchange {
 public:
  WholeSum(const ExchangeContext& context, const Exchange& exchange)
      : context_(context), messages_(2 * static_cast<size_t>(context.size)) {
    for (const Piece& piece : exchange.pieces) {
      ranges_.push_back({static_cast<char*>(piece.data), piece.count, piece.dtype});
    }
    bytes_ = lay_out(ranges_, [](const ElementRange&, size_t) {});
    stride_ = round_up(bytes_, 64);
    memory_.resize(stride_ * static_cast<size_t>(context.size));
    for (int r = 0; r < context.size; ++r) by_rank_.push_back(message_of(r));
  }

  void begin(uint64_t count, uint32_t signature) override {
    const ExchangeNumber number{count, signature};
    done_ = false;
    pack(ranges_, message_of(context_.rank));
    for (int peer = 0; peer < context_.size; ++peer) {
      if (peer == context_.rank) continue;
      incoming(peer).start(context_.transport.receive(tag_of(context_, peer, number, 0, 0),
                                                      message_of(peer), bytes_));
    }
    for (int i = 1; i < context_.size; ++i) {
      const int peer = (context_.rank + i) % context_.size;
      outgoing(peer).start(context_.transport.send(
          peer, tag_of(context_, context_.rank, number, 0, 0), message_of(context_.rank), bytes_));
    }
    left_ = messages_.size();
  }

  bool advance() override {
    size_t left = 0;
    for (MovingMessage& message : messages_)
      left += message.look(context_.transport) == Status::done ? 0 : 1;
    const bool moved = left < left_;
    left_ = left;
    if (left_ > 0) return moved;
    sum_packed(ranges_, by_rank_, values_);
    done_ = true;
    return true;
  }

  bool is_done() const override { return done_; }

  std::vector<int> awaited() const override {
    std::vector<int> ranks;
    for (int r = 0; r < context_.size; ++r) {
      const auto i = static_cast<size_t>(r);
      if (!messages_[2 * i].is_done() || !messages_[2 * i + 1].is_done()) ranks.push_back(r);
    }
    return ranks;
  }

  void cancel() override {
    std::vector<MovingMessage*> all;
    for (MovingMessage& message : messages_) all.push_back(&message);
    cancel_all(context_.transport, all);
  }

 private:
  char* message_of(int rank) { return memory_.data() + stride_ * static_cast<size_t>(rank); }
  MovingMessage& incoming(int rank) { return messages_[2 * static_cast<size_t>(rank)]; }
  MovingMessage& outgoing(int rank) { return messages_[2 * static_cast<size_t>(rank) + 1]; }

  ExchangeContext context_;
  std::vector<ElementRange> ranges_;
  size_t bytes_ = 0;
  size_t stride_ = 0;
  std::vector<char> memory_;  // The messages of all ranks.
  std::vector<const char*> by_rank_;
  std::vector<const void*> values_;
  std::vector<MovingMessage> messages_;
  size_t left_ = 0;
  bool done_ = false;
};

/// A part of the pieces that travels as one message.
struct MessageBlock {
  std::vector<ElementRange> ranges;
  size_t bytes = 0;

  bool lies_together() const { return ranges.size() == 1; }
};

/// The blocks of a rank's part.
std::vector<MessageBlock> blocks_of_part(const Exchange& exchange, int rank, int size) {
  size_t total = 0;
  for (const Piece& piece : exchange.pieces) {
    const auto [begin, end] = op::part_of_piece(piece.count, rank, size);
    total += static_cast<size_t>(end - begin) * size_of(piece.dtype);
  }
  const size_t most = std::max(kBlockBytes, round_up(total / kMostBlocks + 1, 64));
  std::vector<MessageBlock> blocks;
  for (const Piece& piece : exchange.pieces) {
    auto [at, end] = op::part_of_piece(piece.count, rank, size);
    const auto element = static_cast<int64_t>(size_of(piece.dtype));
    while (at < end) {
      if (blocks.empty() || blocks.back().bytes + sizeof(double) > most) blocks.emplace_back();
      MessageBlock& block = blocks.back();
      block.bytes = round_up(block.bytes, sizeof(double));
      const int64_t room = static_cast<int64_t>(most - block.bytes) / element;
      const int64_t count = std::min(room, end - at);
      block.ranges.push_back({static_cast<char*>(piece.data) + at * element, count, piece.dtype});
      block.bytes += block.ranges.back().bytes();
      at += count;
    }
  }
  return blocks;
}

/// An exchange by parts.
class PartsExchange final : public ProcessExchange {
 public:
  PartsExchange(const ExchangeContext& context, const Exchange& exchange)
      : context_(context), kind_(exchange.kind), root_(exchange.root) {
    window_ = static_cast<size_t>(std::clamp(32 / std::max(1, context.size - 1), 4, 16));
    by_rank_.resize(static_cast<size_t>(context.size));
    for (int r = 0; r < context.size; ++r) {
      PartState part;
      part.rank = r;
      part.blocks = blocks_of_part(exchange, r, context.size);
      part.states.resize(part.blocks.size());
      parts_.push_back(std::move(part));
    }
  }

  void begin(uint64_t number, uint32_t signature) override {
    number_ = {number, signature};
    for (PartState& part : parts_) {
      part.begun = part.finished = 0;
      for (BlockState& state : part.states) state.phase = Phase::contributing;
    }
    advance();
  }

  ~PartsExchange() override {
    for (PartState& part : parts_) {
      for (BlockState& state : part.states) release(state);
    }
  }

  bool advance() override {
    bool moved = false;
    for (PartState& part : parts_) {
      while (part.begun < part.blocks.size() && part.begun < part.finished + window_) {
        begin_block(part, part.begun++);
        moved = true;
      }
      for (size_t b = part.finished; b < part.begun; ++b) moved = advance(part, b) || moved;
      while (part.finished < part.begun && part.states[part.finished].phase == Phase::finished) {
        ++part.finished;
      }
    }
    return moved;
  }

  bool is_done() const override {
    return std::ranges::all_of(
        parts_, [](const PartState& part) { return part.finished == part.blocks.size(); });
  }

  std::vector<int> awaited() const override {
    std::vector<bool> late(static_cast<size_t>(context_.size));
    for (const PartState& part : parts_) {
      for (size_t b = part.finished; b < part.begun; ++b) {
        for (const auto& [peer, message] : part.states[b].messages) {
          if (!message.is_done()) late[static_cast<size_t>(peer)] = true;
        }
      }
    }
    std::vector<int> ranks;
    for (int r = 0; r < context_.size; ++r) {
      if (late[static_cast<size_t>(r)]) ranks.push_back(r);
    }
    return ranks;
  }

  void cancel() override {
    std::vector<MovingMessage*> all;
    for (PartState& part : parts_) {
      for (BlockState& state : part.states) {
        for (auto& [peer, message] : state.messages) all.push_back(&message);
      }
    }
    cancel_all(context_.transport, all);
  }

 private:
  enum class Phase { contributing, spreading, finished };

  struct PeerMessage {
    int peer;
    MovingMessage message;
  };

  struct BlockState {
    Phase phase = Phase::contributing;
    std::vector<PeerMessage> messages;  // Those of the phase.
    std::unique_ptr<MessageMemory::Bytes> memory;
  };

  struct PartState {
    int rank = 0;
    std::vector<MessageBlock> blocks;
    std::vector<BlockState> states;
    size_t begun = 0;
    size_t finished = 0;  // All blocks before this one are.
  };

  bool sums() const { return kind_ == ExchangeKind::sum || kind_ == ExchangeKind::sum_parts; }
  bool spreads() const { return kind_ != ExchangeKind::sum_parts; }
  bool contributes(int rank) const {
    return sums() || (kind_ == ExchangeKind::broadcast && rank == root_);
  }
  /// The root has all that it broadcasts.
  bool collects(int rank) const { return kind_ != ExchangeKind::broadcast || rank != root_; }

  void release(BlockState& state) {
    if (state.memory != nullptr) context_.memory.give_back(std::move(state.memory));
  }

  char* memory_for(BlockState& state, size_t bytes) {
    if (state.memory == nullptr) state.memory = context_.memory.take(bytes);
    return state.memory->data();
  }

  void send(BlockState& state, int peer, int phase, size_t b, const char* data, size_t bytes) {
    state.messages.push_back({peer, {}});
    const uint64_t tag = tag_of(context_, context_.rank, number_, phase, b);
    state.messages.back().message.start(context_.transport.send(peer, tag, data, bytes));
  }

  void receive(BlockState& state, int peer, int phase, size_t b, char* data, size_t bytes) {
    state.messages.push_back({peer, {}});
    const uint64_t tag = tag_of(context_, peer, number_, phase, b);
    state.messages.back().message.start(context_.transport.receive(tag, data, bytes));
  }

  /// From one rank's contribution to the next one's.
  static size_t stride_of(size_t bytes) { return round_up(bytes, 64); }

  /// Where a block's bytes lie, or are gathered to.
  char* packed(PartState& part, size_t b, bool with_values) {
    const MessageBlock& block = part.blocks[b];
    if (block.lies_together()) return block.ranges[0].data;
    char* to = memory_for(part.states[b], block.bytes);
    if (with_values) pack(block.ranges, to);
    return to;
  }

  void begin_block(PartState& part, size_t b) {
    const size_t bytes = part.blocks[b].bytes;
    BlockState& state = part.states[b];
    if (part.rank != context_.rank) {
      if (contributes(context_.rank)) send(state, part.rank, 0, b, packed(part, b, true), bytes);
    } else if (sums()) {
      const auto peers = static_cast<size_t>(std::max(1, context_.size - 1));
      char* to = memory_for(state, stride_of(bytes) * peers);
      for (int peer = 0; peer < context_.size; ++peer) {
        if (peer == context_.rank) continue;
        receive(state, peer, 0, b, to, bytes);
        to += stride_of(bytes);
      }
    } else if (kind_ == ExchangeKind::broadcast && context_.rank != root_) {
      receive(state, root_, 0, b, packed(part, b, false), bytes);
    }
  }

  bool advance(PartState& part, size_t b) {
    BlockState& state = part.states[b];
    if (state.phase == Phase::finished) return false;
    // All are looked at: a transport may have something to do for each.
    bool is_over = true;
    for (auto& [peer, message] : state.messages) {
      is_over = message.look(context_.transport) == Status::done && is_over;
    }
    if (!is_over) return false;
    if (state.phase == Phase::contributing) {
      end_contributing(part, b);
    } else {
      end_spreading(part, b);
    }
    return true;
  }

  void end_contributing(PartState& part, size_t b) {
    const MessageBlock& block = part.blocks[b];
    BlockState& state = part.states[b];
    const bool mine = part.rank == context_.rank;
    if (mine && sums()) {
      by_rank_[static_cast<size_t>(context_.rank)] = nullptr;
      const char* from = state.memory->data();
      for (int r = 0; r < context_.size; ++r) {
        if (r == context_.rank) continue;
        by_rank_[static_cast<size_t>(r)] = from;
        from += stride_of(block.bytes);
      }
      sum_packed(block.ranges, by_rank_, values_);
    } else if (mine && !block.lies_together() && !state.messages.empty()) {
      unpack(block.ranges, state.memory->data());
    }
    state.messages.clear();
    state.phase = Phase::spreading;
    if (!spreads()) {
      end_spreading(part, b);
    } else if (mine) {
      const char* from = packed(part, b, true);
      for (int i = 1; i < context_.size; ++i) {
        const int peer = (context_.rank + i) % context_.size;
        if (collects(peer)) send(state, peer, 1, b, from, block.bytes);
      }
    } else if (collects(context_.rank)) {
      receive(state, part.rank, 1, b, packed(part, b, false), block.bytes);
    }
  }

  void end_spreading(PartState& part, size_t b) {
    BlockState& state = part.states[b];
    const bool arrived = part.rank != context_.rank && !state.messages.empty();
    if (arrived && !part.blocks[b].lies_together()) {
      unpack(part.blocks[b].ranges, state.memory->data());
    }
    state.messages.clear();
    state.phase = Phase::finished;
    release(state);
  }

  ExchangeContext context_;
  ExchangeKind kind_;
  int root_;
  ExchangeNumber number_;
  size_t window_ = 0;
  std::vector<const char*> by_rank_;
  std::vector<PartState> parts_;
  std::vector<const void*> values_;
};

/// The tag of piece `index` of a message between two ranks. Its upper half, a hash of the message's
/// size, is no exchange's but by chance.
uint64_t tag_of(const ExchangeContext& context, int sender, const op::PeerMessage& message,
                size_t index) {
  constexpr uint32_t kBetweenTwo = 0x9e3779b9;
  uint32_t hash = kBetweenTwo;
  for (const Piece& piece : message.pieces) {
    const auto bytes = static_cast<uint64_t>(piece.count) * size_of(piece.dtype);
    hash = (hash ^ static_cast<uint32_t>(bytes ^ bytes >> 32)) * 16777619u;
  }
  hash = (hash ^ static_cast<uint32_t>(index)) * 16777619u;
  constexpr uint32_t kKeys = 1 << 22;
  return (context.tag_seed ^ hash) << 32 | static_cast<uint64_t>(sender) << 22 |
         message.key % kKeys;
}

}  // namespace

struct RankMessage::Moving {
  std::vector<MovingMessage> pieces;
  size_t left = 0;
};

RankMessage::RankMessage(const ExchangeContext& context, const op::PeerMessage& message, Kind kind)
    : context_(context),
      kind_(kind),
      peer_(message.peer),
      name_(message.name),
      moving_(std::make_unique<Moving>()) {
  size_t bytes = 0;
  for (const Piece& piece : message.pieces) {
    bytes += static_cast<size_t>(piece.count) * size_of(piece.dtype);
  }
  if (kind == Kind::sent) copy_ = context_.memory.take(bytes);
  size_t at = 0;
  for (size_t i = 0; i < message.pieces.size(); ++i) {
    const Piece& piece = message.pieces[i];
    const size_t own = static_cast<size_t>(piece.count) * size_of(piece.dtype);
    MovingMessage& moving = moving_->pieces.emplace_back();
    if (kind == Kind::sent) {
      if (own > 0) std::memcpy(copy_->data() + at, piece.data, own);
      moving.start(context_.transport.send(peer_, tag_of(context_, context_.rank, message, i),
                                           copy_->data() + at, own));
    } else {
      moving.start(
          context_.transport.receive(tag_of(context_, peer_, message, i), piece.data, own));
    }
    at += own;
  }
  moving_->left = moving_->pieces.size();
}

RankMessage::~RankMessage() {
  if (copy_ != nullptr && is_done()) context_.memory.give_back(std::move(copy_));
}

bool RankMessage::advance() {
  size_t left = 0;
  for (MovingMessage& piece : moving_->pieces) {
    left += piece.look(context_.transport) == Status::done ? 0 : 1;
  }
  const bool moved = left < moving_->left;
  moving_->left = left;
  return moved;
}

bool RankMessage::is_done() const { return moving_->left == 0; }

void RankMessage::cancel() {
  std::vector<MovingMessage*> all;
  for (MovingMessage& piece : moving_->pieces) all.push_back(&piece);
  cancel_all(context_.transport, all);
}

std::unique_ptr<MessageMemory::Bytes> MessageMemory::take(size_t bytes) {
  if (free_.empty()) return std::make_unique<Bytes>(bytes);
  auto found = std::ranges::find_if(free_, [&](const auto& b) { return b->size() >= bytes; });
  if (found == free_.end()) found = free_.end() - 1;
  auto taken = std::move(*found);
  free_.erase(found);
  if (taken->size() < bytes) taken = std::make_unique<Bytes>(bytes);
  return taken;
}

void MessageMemory::give_back(std::unique_ptr<Bytes> bytes) {
  constexpr size_t kMostKept = 64;
  if (bytes != nullptr && free_.size() < kMostKept) free_.push_back(std::move(bytes));
}

std::unique_ptr<ProcessExchange> make_exchange(const ExchangeContext& context,
                                               const Exchange& exchange) {
  const size_t bytes = bytes_of(exchange);
  const size_t traffic = bytes * static_cast<size_t>(context.size - 1);
  if (exchange.kind == ExchangeKind::sum && bytes <= kMostWholeBytes &&
      traffic <= kMostWholeTraffic) {
    return std::make_unique<WholeSum>(context, exchange);
  }
  return std::make_unique<PartsExchange>(context, exchange);
}

size_t bytes_of(const Exchange& exchange) {
  size_t bytes = 0;
  for (const Piece& piece : exchange.pieces) {
    bytes += static_cast<size_t>(piece.count) * size_of(piece.dtype);
  }
  return bytes;
}

const char* name_of(ExchangeKind kind) {
  switch (kind) {
    case ExchangeKind::sum:
      return "all-reduce";
    case ExchangeKind::sum_parts:
      return "reduce-scatter";
    case ExchangeKind::gather_parts:
      return "all-gather";
    case ExchangeKind::broadcast:
      return "broadcast";
  }
  return "";
}

}  // namespace tandem::collective

#include "collective/axis_group.h"

#include <algorithm>

#include "collective/element_sum.h"

namespace tandem::collective {
namespace {

/// Sums of no more bytes than this are sent whole by everybody to everybody: one latency.
constexpr size_t kSmallBytes = 16 << 10;

size_t bytes_of(const op::Piece& piece) {
  return static_cast<size_t>(piece.count) * size_of(piece.dtype);
}

/// The bytes of a piece and of what aligns the next one.
size_t room_for(const op::Piece& piece) {
  constexpr size_t kAlignment = 64;
  return (bytes_of(piece) + kAlignment - 1) / kAlignment * kAlignment;
}

template <class Size>
size_t total(std::span<const op::Piece> pieces, const Size& size) {
  size_t bytes = 0;
  for (const op::Piece& piece : pieces) bytes += size(piece);
  return bytes;
}

/// What belongs to a member of each piece, as far as that is anything.
std::vector<op::Piece> parts_of(std::span<const op::Piece> pieces, int member, int size) {
  std::vector<op::Piece> parts;
  for (const op::Piece& piece : pieces) {
    const op::PartRange part = op::part_of_piece(piece.count, member, size);
    if (part.begin == part.end) continue;
    char* const data =
        static_cast<char*>(piece.data) + static_cast<size_t>(part.begin) * size_of(piece.dtype);
    parts.push_back({data, part.end - part.begin, piece.dtype});
  }
  return parts;
}

/// Those that have elements.
std::vector<op::Piece> not_empty(std::span<const op::Piece> pieces) {
  return parts_of(pieces, 0, 1);
}

}  // namespace

AxisGroup::AxisGroup(std::shared_ptr<op::Group> all, std::vector<int> ranks, std::uint32_t key)
    : all_(std::move(all)),
      ranks_(std::move(ranks)),
      key_(key),
      rank_(static_cast<int>(std::ranges::find(ranks_, all_->rank()) - ranks_.begin())) {}

op::Group::Ticket AxisGroup::start(const op::Exchange& exchange) {
  if (exchange.kind == op::ExchangeKind::gather_parts) {
    send_parts(exchange);
    gathering_.push_back(
        {{exchange.pieces.begin(), exchange.pieces.end()}, std::string(exchange.name)});
    return gathered_ + gathering_.size();
  }
  // Members receive in the order in which others have sent.
  wait(gathered_ + gathering_.size());
  switch (exchange.kind) {
    case op::ExchangeKind::sum:
      if (total(exchange.pieces, bytes_of) <= kSmallBytes) {
        sum_whole(exchange);
      } else {
        sum_parts(exchange);
        send_parts(exchange);
        receive_parts(exchange.pieces, exchange.name);
      }
      break;
    case op::ExchangeKind::sum_parts:
      sum_parts(exchange);
      break;
    case op::ExchangeKind::broadcast:
      broadcast(exchange);
      break;
    case op::ExchangeKind::gather_parts:
      break;  // See above.
  }
  return 0;
}

void AxisGroup::wait(Ticket ticket) {
  while (gathered_ < ticket && !gathering_.empty()) {
    const Gathering first = std::move(gathering_.front());
    gathering_.pop_front();
    ++gathered_;
    receive_parts(first.pieces, first.name);
  }
}

void AxisGroup::send(const op::PeerMessage& message) {
  op::PeerMessage mapped = message;
  mapped.peer = rank_of(message.peer);
  all_->send(mapped);
}

void AxisGroup::receive(const op::PeerMessage& message) {
  op::PeerMessage mapped = message;
  mapped.peer = rank_of(message.peer);
  all_->receive(mapped);
}

void AxisGroup::send_to(int member, const Pieces& pieces, std::string_view name) {
  if (pieces.empty()) return;
  send({.peer = member, .key = key_, .pieces = pieces, .name = name});
}

void AxisGroup::receive_from(int member, const Pieces& pieces, std::string_view name) {
  if (pieces.empty()) return;
  receive({.peer = member, .key = key_, .pieces = pieces, .name = name});
}

/// Adds what the others send of the same pieces to `own`, in the order of the tree.
void AxisGroup::sum_into(const Pieces& own, std::string_view name) {
  const size_t bytes = total(own, room_for);
  arrived_.resize(std::max(arrived_.size(), bytes * ranks_.size()));
  std::vector<Pieces> by_member(ranks_.size(), own);
  for (int member = 0; member < size(); ++member) {
    if (member == rank_) continue;
    Pieces& pieces = by_member[static_cast<size_t>(member)];
    char* at = arrived_.data() + static_cast<size_t>(member) * bytes;
    for (op::Piece& piece : pieces) {
      piece.data = at;
      at += room_for(piece);
    }
    receive_from(member, pieces, name);
  }
  std::vector<const void*> values(ranks_.size());
  for (size_t i = 0; i < own.size(); ++i) {
    for (size_t member = 0; member < values.size(); ++member) {
      values[member] = by_member[member][i].data;
    }
    sum_elements(own[i].dtype, values, own[i].data, own[i].count);
  }
}

void AxisGroup::sum_whole(const op::Exchange& exchange) {
  const Pieces own = not_empty(exchange.pieces);
  for (int member = 0; member < size(); ++member) {
    if (member != rank_) send_to(member, own, exchange.name);
  }
  sum_into(own, exchange.name);
}

void AxisGroup::sum_parts(const op::Exchange& exchange) {
  for (int member = 0; member < size(); ++member) {
    if (member != rank_) {
      send_to(member, parts_of(exchange.pieces, member, size()), exchange.name);
    }
  }
  sum_into(parts_of(exchange.pieces, rank_, size()), exchange.name);
}

void AxisGroup::send_parts(const op::Exchange& exchange) {
  const Pieces own = parts_of(exchange.pieces, rank_, size());
  for (int member = 0; member < size(); ++member) {
    if (member != rank_) send_to(member, own, exchange.name);
  }
}

void AxisGroup::receive_parts(std::span<const op::Piece> pieces, std::string_view name) {
  for (int member = 0; member < size(); ++member) {
    if (member != rank_) receive_from(member, parts_of(pieces, member, size()), name);
  }
}

void AxisGroup::broadcast(const op::Exchange& exchange) {
  const Pieces pieces = not_empty(exchange.pieces);
  if (rank_ != exchange.root) return receive_from(exchange.root, pieces, exchange.name);
  for (int member = 0; member < size(); ++member) {
    if (member != rank_) send_to(member, pieces, exchange.name);
  }
}

std::vector<std::string> AxisGroup::gather_texts(std::string_view name, std::string text) {
  wait(gathered_ + gathering_.size());
  std::vector<std::string> texts(ranks_.size());
  texts[static_cast<size_t>(rank_)] = std::move(text);
  for (int root = 0; root < size(); ++root) {
    std::string& own = texts[static_cast<size_t>(root)];
    auto length = static_cast<std::int64_t>(own.size());
    const op::Piece of_length{&length, 1, DType::int64};
    broadcast({.pieces = {&of_length, 1}, .root = root, .name = name});
    own.resize(static_cast<size_t>(length));
    const op::Piece of_text{own.data(), length, DType::uint8};
    broadcast({.pieces = {&of_text, 1}, .root = root, .name = name});
  }
  return texts;
}

}  // namespace tandem::collective

/// Some of the processes of a group, as those along one axis of a mesh: a group of its own, whose
/// exchanges are messages between its members.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "op/group.h"

namespace tandem::collective {

class AxisGroup final : public op::Group {
 public:
  /// `ranks` are those of its members in `all`, in order, this process among them. Groups that have
  /// two members in common have different keys.
  AxisGroup(std::shared_ptr<op::Group> all, std::vector<int> ranks, std::uint32_t key);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  std::string describe(int rank) const override { return all_->describe(rank_of(rank)); }

  /// Sends at once. What goes to all, as parts that are joined, is taken by wait(), or before the
  /// next sum; all else is done here, and wait() has nothing left to do.
  Ticket start(const op::Exchange& exchange) override;
  void wait(Ticket ticket) override;

  void send(const op::PeerMessage& message) override;
  void receive(const op::PeerMessage& message) override;
  std::vector<std::string> gather_texts(std::string_view name, std::string text) override;

  void abort(std::string_view reason) override { all_->abort(reason); }
  void note_progress(std::string_view phase, std::int64_t step) override {
    all_->note_progress(phase, step);
  }

 private:
  using Pieces = std::vector<op::Piece>;

  int rank_of(int member) const { return ranks_[static_cast<size_t>(member)]; }
  void send_to(int member, const Pieces& pieces, std::string_view name);
  void receive_from(int member, const Pieces& pieces, std::string_view name);
  void sum_into(const Pieces& own, std::string_view name);
  void sum_whole(const op::Exchange& exchange);
  void sum_parts(const op::Exchange& exchange);
  void send_parts(const op::Exchange& exchange);
  void receive_parts(std::span<const op::Piece> pieces, std::string_view name);
  void broadcast(const op::Exchange& exchange);

  const std::shared_ptr<op::Group> all_;
  const std::vector<int> ranks_;
  const std::uint32_t key_;
  const int rank_;
  std::vector<char> arrived_;  // What the other members have sent of a sum.
  /// Parts that were sent, and of which those of others have not been taken.
  struct Gathering {
    Pieces pieces;
    std::string name;
  };
  std::deque<Gathering> gathering_;
  Ticket gathered_ = 0;  // So many gatherings have ended.
};

}  // namespace tandem::collective

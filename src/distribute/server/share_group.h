/// The workers that share a step as a group of processes, as the programs of the step see it: what
/// they sum goes through the first parameter server (step_meeting.h). They do nothing else
/// together.
#pragma once

#include "distribute/server/server_link.h"
#include "distribute/server/ticket_table.h"
#include "op/group.h"

namespace tandem::distribute {

class ShareGroup final : public op::Group {
 public:
  explicit ShareGroup(int shares) : shares_(shares) {}

  /// What is summed from now on is of this ticket; `server` is there until it is done.
  void enter(ServerLink& server, const WorkTicket& ticket);
  /// The ticket that was entered last is void: the servers have gone back, or another worker has
  /// failed.
  bool is_void() const { return is_void_; }

  int rank() const override { return ticket_.share; }
  int size() const override { return shares_; }
  std::string describe(int rank) const override;
  /// Returns when the sums are there. Throws Aborted where the ticket is void.
  Ticket start(const op::Exchange& exchange) override;
  void wait(Ticket) override {}
  void send(const op::PeerMessage& message) override;
  void receive(const op::PeerMessage& message) override;
  std::vector<std::string> gather_texts(std::string_view name, std::string text) override;
  void abort(std::string_view) override {}
  void note_progress(std::string_view, std::int64_t) override {}

 private:
  const int shares_;
  ServerLink* server_ = nullptr;
  WorkTicket ticket_{};
  int64_t meetings_ = 0;  // The ticket's, so far.
  bool is_void_ = false;
};

}  // namespace tandem::distribute

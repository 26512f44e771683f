/// A parameter server as a worker sees it: in the same process, or elsewhere. A worker asks all of
/// its servers before it waits for the first.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "distribute/range/range_server.h"
#include "distribute/server/ticket_table.h"

namespace tandem::distribute {

class ServerLink {
 public:
  virtual ~ServerLink();

  virtual const std::vector<RangePiece>& pieces() const = 0;

  /// Where a worker wants the values of each piece.
  using Places = std::span<void* const>;

  /// `next` are the rows that are read after it, for each piece, where that is known: see
  /// start_pull. Values that come with the answer may be written to `to` from now on.
  virtual void start_push(const PushStamp& stamp, const Contribution& given, const RowLists& next,
                          Places to) = 0;
  virtual PushAnswer finish_push() = 0;
  /// Values that came with the answer are not to be used: they are too old, or not there any more.
  virtual void forget_values() {}

  /// What it tells for the norms of gradients before `step`: see RangeServer.
  virtual void start_norms(int64_t step) = 0;
  virtual RangeServer::NormPart finish_norms() = 0;
  /// One that has the same pieces, in this process.
  virtual const RangeServer& mirror() const = 0;

  /// The sums of these values and of those that the other shares of the step give: see
  /// StepMeeting. Nothing where the step is void. Throws DeadlineExceeded where others do not come.
  virtual std::optional<std::string> sum_over_shares(const MeetingNumber& meeting, int share,
                                                     std::string values) = 0;

  /// Asks for the values as of the ticket's step, where workers train in step, after those squares
  /// of all servers. `rows` are those that are read of each piece, null: all; the lists live until
  /// finish_pull.
  virtual void start_pull(const WorkTicket& ticket, const RowLists& rows, Places to,
                          const RangeServer::Squares& squares = {}) = 0;
  /// All pieces are where they are wanted; returns their version. Nothing where the ticket that
  /// they are for is void: the servers have gone back to older values, or have another chief.
  virtual std::optional<int64_t> finish_pull() = 0;
};

using ServerLinks = std::vector<std::unique_ptr<ServerLink>>;

/// A server of this process.
class DirectLink final : public ServerLink {
 public:
  explicit DirectLink(RangeServer& server) : server_(server) {}

  const std::vector<RangePiece>& pieces() const override { return server_.pieces(); }
  void start_push(const PushStamp& stamp, const Contribution& given, const RowLists&,
                  Places) override {
    answer_ = server_.push(stamp, given);
  }
  PushAnswer finish_push() override { return answer_; }
  void start_norms(int64_t step) override { step_ = step; }
  RangeServer::NormPart finish_norms() override { return server_.norm_part(step_); }
  const RangeServer& mirror() const override { return server_; }
  std::optional<std::string> sum_over_shares(const MeetingNumber& meeting, int share,
                                             std::string values) override;
  void start_pull(const WorkTicket& ticket, const RowLists& rows, Places to,
                  const RangeServer::Squares& squares) override {
    step_ = ticket.step();
    rows_ = rows;
    to_ = to;
    squares_ = squares;
  }
  std::optional<int64_t> finish_pull() override {
    return server_.pull(step_, to_, rows_, squares_);
  }

 private:
  RangeServer& server_;
  PushAnswer answer_;
  int64_t step_ = 0;
  RowLists rows_;
  Places to_;
  RangeServer::Squares squares_;
};

}  // namespace tandem::distribute

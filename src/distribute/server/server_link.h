/// A parameter server as a worker sees it: in the same process, or elsewhere. A worker asks all of
/// its servers before it waits for the first.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "distribute/server/range_server.h"

namespace tandem::distribute {

class ServerLink {
 public:
  virtual ~ServerLink();

  virtual const std::vector<RangeServer::Piece>& pieces() const = 0;

  /// `next` are the rows that are read after it, where that is known: see start_pull.
  virtual void start_push(const PushStamp& stamp, const RangeServer::Contribution& given,
                          const RangeServer::RowLists& next = {}) = 0;
  virtual PushAnswer finish_push() = 0;

  /// The server's squares before `step`: see RangeServer.
  virtual void start_squares(int64_t step) = 0;
  virtual RangeServer::Squares finish_squares() = 0;

  /// For the values as of `step`, where workers train in step, after those squares of all servers.
  /// `rows` are those that are read of each piece; the lists live until finish_pull.
  virtual void start_pull(int64_t step, const RangeServer::RowLists& rows,
                          const RangeServer::Squares& squares = {}) = 0;
  /// Copies all pieces to these addresses and returns their version. Nothing where the ticket that
  /// they are for is void: the servers have gone back to older values, or have another chief.
  virtual std::optional<int64_t> finish_pull(std::span<void* const> to) = 0;
};

using ServerLinks = std::vector<std::unique_ptr<ServerLink>>;

/// Those of all servers are the sums of theirs.
void add_squares(RangeServer::Squares& all, const RangeServer::Squares& own);

/// A server of this process.
class DirectLink final : public ServerLink {
 public:
  explicit DirectLink(RangeServer& server) : server_(server) {}

  const std::vector<RangeServer::Piece>& pieces() const override { return server_.pieces(); }
  void start_push(const PushStamp& stamp, const RangeServer::Contribution& given,
                  const RangeServer::RowLists&) override {
    answer_ = server_.push(stamp, given);
  }
  PushAnswer finish_push() override { return answer_; }
  void start_squares(int64_t step) override { step_ = step; }
  RangeServer::Squares finish_squares() override { return server_.squares(step_); }
  void start_pull(int64_t step, const RangeServer::RowLists& rows,
                  const RangeServer::Squares& squares) override {
    step_ = step;
    rows_ = rows;
    squares_ = squares;
  }
  std::optional<int64_t> finish_pull(std::span<void* const> to) override {
    return server_.pull(step_, to, rows_, squares_);
  }

 private:
  RangeServer& server_;
  PushAnswer answer_;
  int64_t step_ = 0;
  RangeServer::RowLists rows_;
  RangeServer::Squares squares_;
};

}  // namespace tandem::distribute

/// Processes for tests of what happens above a transport: a Group over plain sockets, a star with
/// rank 0 in its middle, and a way to run the body of a test in several processes.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "op/group.h"

namespace tandem::harness {

class SocketGroup final : public op::Group {
 public:
  /// `sockets` are connected: for rank 0 those to ranks 1, 2, .., for others the one to rank 0.
  /// `lines` are those for messages between two ranks, to each of the others in order.
  SocketGroup(int rank, int size, std::vector<int> sockets, const std::vector<int>& lines = {});
  ~SocketGroup() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string describe(int rank) const override;

  /// Exchanges at once: wait() has nothing left to do.
  Ticket start(const op::Exchange& exchange) override;
  void wait(Ticket) override { check(); }
  void send(const op::PeerMessage& message) override;
  void receive(const op::PeerMessage& message) override;
  std::vector<std::string> gather_texts(std::string_view name, std::string text) override;
  void abort(std::string_view reason) override;
  void note_progress(std::string_view, int64_t) override {}

  /// How many exchanges there have been, and what the names of the last ones were.
  int exchanges() const { return exchanges_; }
  const std::vector<std::string>& names() const { return names_; }

 private:
  struct Frame;
  class Line;
  Line& line_to(int rank) const;
  void watch_others();
  void check();
  [[noreturn]] void fail(const std::string& what);
  int socket_of(int rank) const;
  void send(int rank, const std::string& kind, const std::string& bytes);
  std::string receive(int rank, const std::string& kind);
  void wait_for(int rank);
  void exchange(const op::Exchange& exchange);

  const int rank_;
  const int size_;
  const std::vector<int> sockets_;
  std::vector<std::unique_ptr<Line>> lines_;  // By rank; none to this one.
  std::mutex watching_;
  std::mutex sending_;
  std::mutex failing_;
  std::string failure_;  // Why all calls throw.
  int exchanges_ = 0;
  std::vector<std::string> names_;
};

/// Runs `body` in `processes` new processes at once and fails where one of them fails. They are
/// copies of this test program that run this test alone. Code before it runs in them too.
void in_processes(int processes, const std::function<void(std::shared_ptr<SocketGroup>)>& body);

/// The same where one process is meant to end early: `exits` gets the exit codes, or minus the
/// number of the signal, and the output of each.
struct ProcessEnd {
  int code = 0;
  std::string output;
};
std::vector<ProcessEnd> ends_of_processes(
    int processes, const std::function<void(std::shared_ptr<SocketGroup>)>& body);

}  // namespace tandem::harness

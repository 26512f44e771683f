/// A task `ps`: it answers questions about its part of the variables. What it does not have yet
/// from the chief it does not answer; see server_cluster.h for the questions.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>

#include "distribute/range/range_server.h"
#include "distribute/server/server_cluster.h"

namespace tandem::distribute {

class ServerTask final : public cluster::ServiceHandler {
 public:
  /// From now on it serves a session; `server` is there until close(). A chief that means another
  /// incarnation of the task, which had other values, writes nothing.
  void open(RangeServer& server, int64_t session, uint64_t incarnation = 0);
  void close();

  void on_question(const cluster::Asker& asker, std::string_view question, Reply reply) override;
  void on_gone(const cluster::Asker&) override {}

  /// Whether a chief has said what it is to have: what it has now may be something else.
  bool is_written() const { return chief_ != 0; }

  /// What went wrong with a question, such as an update that failed; empty where nothing did.
  std::string error() const;

 private:
  std::optional<cluster::ServiceMessage> answer(std::string_view question, const Reply& reply);
  void sum(MessageReader& reader, const Reply& reply);
  void append_values(MessageWriter& answer, int64_t step, const RowLists& rows = {},
                     const RangeServer::Squares& squares = {}) const;
  std::string exchange(MessageReader& reader);
  bool is_of_former_chief(uint64_t chief) const { return chief < chief_; }
  std::string write(MessageReader& reader, uint64_t chief);
  cluster::ServiceMessage read(MessageReader& reader);
  std::string save(MessageReader& reader);
  std::string restore(MessageReader& reader, uint64_t chief);

  // Questions share it; who opens or closes waits for those that are being answered.
  mutable std::shared_mutex door_;
  RangeServer* server_ = nullptr;
  int64_t session_ = -1;
  uint64_t incarnation_ = 0;
  // Whose tickets it takes; 0 before a chief has written what it is to have.
  std::atomic<uint64_t> chief_{0};
  mutable std::mutex error_mutex_;
  std::string error_;
};

}  // namespace tandem::distribute

/// Where workers and servers come to the chief: they meet here at the beginning of a session, the
/// workers get tickets, and all hear how the session ended. The chief's own thread opens sessions,
/// adds tickets and waits for them; threads of the transport bring questions. See server_cluster.h
/// for these.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/interruptible.h"
#include "distribute/server/scheduled_steps.h"
#include "distribute/server/server_cluster.h"
#include "distribute/server/server_training.h"
#include "distribute/server/ticket_table.h"

namespace tandem::distribute {

class TicketDesk final : public cluster::ServiceHandler {
 public:
  /// The chief's incarnation tells it from one that was there before.
  TicketDesk(const ParameterServerOptions& options, int servers, uint64_t incarnation);
  ~TicketDesk() override;

  /// Begins the next session of the program; one that is open ends. Followers get the random
  /// numbers that this process has now.
  void open_session();
  int64_t session() const;
  /// Everybody hears that the session is over, and what came of it; `states` are those of all
  /// servers, for followers to have what the chief has.
  void end_session(const std::string& error, const std::string& result, ServerStates states);
  /// There will be no other session: who asks for one is told why.
  void leave(const std::string& error);
  /// Waits until all who are there have heard of it; or until they have left, where they may still
  /// ask for results.
  void wait_until_heard(bool have_left);

  /// A process that serves.
  struct ServingProcess {
    uint64_t incarnation = 0;      ///< 0: there is none yet.
    std::vector<uint64_t> sums{};  ///< Checksums of what it has.
  };
  /// Waits until all servers are there with what `facts` says, and throws where one has another
  /// program.
  std::vector<ServingProcess> wait_for_servers(const std::string& facts);
  /// The process that serves now.
  uint64_t incarnation_of(size_t server) const;

  /// Adds a step, once fewer than `most_open` tickets are.
  std::shared_ptr<StepOutcome> add(const BatchNumber& number, const op::RandomRun& random,
                                   int64_t most_open);
  void wait_for_all();
  void wait_for(const StepOutcome& outcome);
  bool all_done() const;
  int64_t whole_steps() const;
  /// The generation of the tickets that are handed out now; reopen() begins the next one.
  int64_t generation() const;

  /// The chief has written something to servers: what workers have read before is too old for the
  /// tickets that are added from now on.
  void note_write();

  /// The chief has the states of all servers after so many steps: followers may want them.
  void note_values(int64_t steps, ServerStates states);

  /// The chief has what came of so many steps: nobody does them again, whatever servers lose.
  void note_kept(int64_t steps);

  /// What the chief's thread does, while it waits, for a server that has come back.
  std::function<void(int server, const ServingProcess& process)> on_return;
  /// The same at once, for all that have come back.
  void receive_returned();
  /// Tickets for which `is_lost` are handed out again.
  int64_t reopen(const std::function<bool(int64_t ticket)>& is_lost);

  void on_question(const cluster::Asker& asker, std::string_view question, Reply reply) override;
  void on_gone(const cluster::Asker& asker) override;

 private:
  using Clock = std::chrono::steady_clock;
  /// A worker that has asked for a ticket.
  struct Waiting {
    int worker;
    int64_t goal;     // It has other things to do once so many steps are done; -1: never.
    bool wants_next;  // It is told what it will take after it, too.
    bool is_beside;   // It does another share of the step at the same time.
    bool has_waited;  // It was too far ahead of others.
    Clock::time_point since;
    Reply reply;
  };
  struct Server {
    ServingProcess process;
    bool is_new = false;  // It has not what it should have.
  };
  void answer(const cluster::Asker& asker, MessageReader& reader, const Reply& reply);
  /// What everybody is told who asks for a session that is not the present one; empty for that.
  std::optional<cluster::ServiceMessage> answer_to_other(int64_t session);
  void note_failure(const cluster::Asker& asker, std::string_view why);
  std::string serving(const cluster::Asker& asker, MessageReader& reader);
  std::string join(const cluster::Asker& asker, MessageReader& reader);
  void take(const cluster::Asker& asker, MessageReader& reader, bool is_beside, const Reply& reply);
  std::string next(const cluster::Asker& asker, MessageReader& reader);
  bool is_known(const cluster::Asker& asker, uint64_t incarnation) const;
  void append_next(MessageWriter& answer, int worker, bool is_wanted);
  void note_done(int worker, const WorkTicket& ticket, MessageReader& results);
  cluster::ServiceMessage values(MessageReader& reader);
  cluster::ServiceMessage ended_states(const cluster::Asker& asker, int64_t session,
                                       MessageReader& reader);
  void answer_waiting();
  void lose(int worker, const std::string& why);
  void watch();
  void check_error() const;
  void wait_for_change(std::unique_lock<std::mutex>& lock, core::PacedLook& paced);
  void wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& ready);
  void receive_returned(std::unique_lock<std::mutex>& lock);

  const ParameterServerOptions options_;
  const int shares_;
  const uint64_t incarnation_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<TicketTable> tickets_;
  ScheduledSteps steps_;
  int64_t kept_steps_ = 0;       // None of so many is done again.
  ScheduledSteps former_steps_;  // The session's before, for those who are behind.
  int64_t valued_steps_ = -1;
  ServerStates values_;
  std::optional<std::string> facts_;  // The step's; nothing before the chief has it.
  std::vector<Server> servers_;
  bool is_begun_ = false;                 // All servers were there.
  std::map<int, uint64_t> streams_;       // The workers' streams.
  std::map<int, uint64_t> incarnations_;  // The last one of each worker.
  int64_t writes_ = 0;                    // How often the chief has written something,
  std::map<int, int64_t> told_writes_;    // and of how often each worker knows.
  std::map<uint64_t, int64_t> heard_;     // By stream, the last session whose end it knows.
  Clock::time_point last_taken_;          // When somebody has asked for states.
  std::list<Waiting> waiting_;
  std::map<int, std::string>
      left_idle_;  // Workers that left when all was done: what is said of it.
  std::string error_;
  std::string left_;  // Why there will be no other session.
  std::condition_variable stopping_;
  bool stops_ = false;
  std::thread watch_;
};

}  // namespace tandem::distribute

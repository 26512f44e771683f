/// The work of a training with parameter servers, and who does it. A ticket is a batch of an epoch,
/// or one worker's share of it where workers train in step. The chief hands tickets out, and a
/// ticket is done when all servers have what came of it:
///
///   add -> open -> take -> held by a worker -> finish -> done
///           ^                  |                           |
///           +---- leave -------+        <---- reopen ------+   a server lost what came of it
///
/// Who may take a ticket is decided by how far each worker is. A worker's clock counts the tickets
/// it has finished; it starts at the slowest one's. With a bound of k nobody who is more than k
/// ahead of the slowest gets one. Tickets of a step that is cut into shares are handed out when all
/// shares of the steps before are done. Where shares wait for each other within a step, and there
/// are fewer workers than shares, a worker does several of them at the same time.
///
/// Time comes from the caller, and nothing here waits or locks: the chief's thread owns it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "distribute/range/number_set.h"

namespace tandem::distribute {

struct WorkTicket {
  int64_t number = 0;  ///< Counts all tickets: those of one step follow each other.
  int64_t epoch = 0;
  int64_t batch = 0;
  int share = 0;  ///< Which part of a batch that `shares` workers share.
  int shares = 1;
  int64_t generation = 0;  ///< How often servers had lost something when it was handed out.

  /// The number of the batch over all epochs.
  int64_t step() const { return number / shares; }
  bool operator==(const WorkTicket&) const = default;
};

class TicketTable {
 public:
  using Time = std::chrono::nanoseconds;

  /// `staleness` is the bound, or `unbounded`; every batch is cut into `shares`.
  explicit TicketTable(int64_t staleness, int shares = 1);

  /// A worker takes part from now on. One that is there already, and comes again with another
  /// incarnation, has lost its tickets.
  void join(int worker, uint64_t incarnation, Time now = {});
  /// A worker is gone: others get its tickets, and nobody waits for it.
  void leave(int worker);
  /// A sign of life.
  void heard_of(int worker, Time now);
  /// Workers that nobody has heard of for `limit` leave; they are returned.
  std::vector<int> leave_silent(Time now, Time limit);
  bool is_there(int worker, uint64_t incarnation) const;

  /// A batch is to be done.
  void add(int64_t epoch, int64_t batch);
  /// The next ticket for a worker; none while it must wait for others, and where none is open.
  std::optional<WorkTicket> take(int worker);
  /// A share for a worker that does others of the step at the same time. Each worker that is there
  /// gets one first, then those that have the fewest.
  std::optional<WorkTicket> take_beside(int worker);
  /// The ticket that a worker takes next, unless somebody has nothing else to do before that; none
  /// where none is open, and where all workers share a step.
  std::optional<WorkTicket> reserve(int worker);
  /// All servers have what came of the ticket. It counts once, whoever does it. Where servers have
  /// lost something since it was handed out that is not known, and it is open again.
  void finish(int worker, const WorkTicket& ticket);
  /// The worker that holds the ticket has not done it: it is open again.
  void give_back(int worker, const WorkTicket& ticket);
  bool is_done(int64_t number) const { return done_.contains(number); }
  /// A server came back without some of what it had. Tickets that are done, and for which
  /// `is_lost`, are open again. Returns how many.
  int64_t reopen(const std::function<bool(int64_t number)>& is_lost);

  /// How often tickets were opened again.
  int64_t generation() const { return generation_; }
  bool all_done() const { return done_.size() == size(); }
  int64_t size() const { return static_cast<int64_t>(tickets_.size()); }
  int64_t done() const { return done_.size(); }
  /// The steps from the first on of which all shares are done.
  int64_t whole_steps() const { return done_.mark() / shares_; }
  /// The number of tickets that a worker has finished, and its lead over the slowest.
  int64_t clock(int worker) const { return workers_.at(worker).clock; }
  int64_t lead(int worker) const { return clock(worker) - slowest(); }
  /// Whether a worker is so far ahead that it must wait for others.
  bool must_wait(int worker) const;

  /// "worker 1 since 3.0 s: batch 7 of epoch 0", a line for each ticket that somebody holds.
  std::string held(Time now) const;

 private:
  struct Worker {
    uint64_t incarnation = 0;
    int64_t clock = 0;
    Time last_heard{};
  };
  struct Holding {
    int worker;
    Time since;
  };
  int64_t slowest() const;
  bool is_turn(const WorkTicket& ticket) const;
  std::optional<WorkTicket> take_from_another(int worker);
  std::optional<WorkTicket> take_first(int worker);
  int64_t held_by(int worker) const;

  const int64_t staleness_;
  const int shares_;
  int64_t generation_ = 0;
  std::vector<WorkTicket> tickets_;  // By number.
  std::set<int64_t> open_;
  std::map<int64_t, Holding> held_;
  std::map<int, int64_t> reserved_;  // By worker; these are held, too.
  NumberSet done_;
  std::map<int, Worker> workers_;
};

}  // namespace tandem::distribute

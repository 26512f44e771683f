#include "distribute/server/ticket_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "tandem/distribute/parameter_server.h"

namespace tandem::distribute {

TicketTable::TicketTable(int64_t staleness, int shares) : staleness_(staleness), shares_(shares) {}

int64_t TicketTable::slowest() const {
  const auto slowest = std::ranges::min_element(
      workers_, {}, [](const auto& worker) { return worker.second.clock; });
  return slowest == workers_.end() ? 0 : slowest->second.clock;
}

void TicketTable::join(int worker, uint64_t incarnation, Time now) {
  if (is_there(worker, incarnation)) return;
  leave(worker);
  const int64_t start = slowest();
  workers_[worker] = {incarnation, start, now};
}

bool TicketTable::is_there(int worker, uint64_t incarnation) const {
  const auto known = workers_.find(worker);
  return known != workers_.end() && known->second.incarnation == incarnation;
}

void TicketTable::leave(int worker) {
  workers_.erase(worker);
  reserved_.erase(worker);
  for (auto each = held_.begin(); each != held_.end();) {
    if (each->second.worker == worker) {
      open_.insert(each->first);
      each = held_.erase(each);
    } else {
      ++each;
    }
  }
}

void TicketTable::heard_of(int worker, Time now) {
  if (const auto known = workers_.find(worker); known != workers_.end()) {
    known->second.last_heard = now;
  }
}

std::vector<int> TicketTable::leave_silent(Time now, Time limit) {
  std::vector<int> silent;
  for (const auto& [worker, state] : workers_) {
    if (now - state.last_heard > limit) silent.push_back(worker);
  }
  for (int worker : silent) leave(worker);
  return silent;
}

void TicketTable::add(int64_t epoch, int64_t batch) {
  for (int share = 0; share < shares_; ++share) {
    const int64_t number = size();
    tickets_.push_back({number, epoch, batch, share, shares_, 0});
    open_.insert(number);
  }
}

/// Shares of a step are computed on what all steps before have made.
bool TicketTable::is_turn(const WorkTicket& ticket) const {
  return staleness_ != 0 || done_.mark() >= ticket.step() * shares_;
}

std::optional<WorkTicket> TicketTable::reserve(int worker) {
  if (staleness_ == 0 || open_.empty() || !workers_.contains(worker)) return std::nullopt;
  const auto [known, is_new] = reserved_.try_emplace(worker, *open_.begin());
  if (is_new) {
    open_.erase(open_.begin());
    held_[known->second] = {worker, workers_[worker].last_heard};
  }
  return tickets_[static_cast<size_t>(known->second)];
}

/// Who shares steps is never ahead of others.
bool TicketTable::must_wait(int worker) const {
  return staleness_ > 0 && workers_.contains(worker) && lead(worker) > staleness_;
}

/// The first ticket that is reserved for another worker. That one is busy, or has to wait, perhaps
/// for this worker: then both would wait for ever.
std::optional<WorkTicket> TicketTable::take_from_another(int worker) {
  const auto first =
      std::ranges::min_element(reserved_, {}, [](const auto& reserved) { return reserved.second; });
  if (first == reserved_.end()) return std::nullopt;
  WorkTicket& ticket = tickets_[static_cast<size_t>(first->second)];
  reserved_.erase(first);
  ticket.generation = generation_;
  held_[ticket.number] = {worker, workers_[worker].last_heard};
  return ticket;
}

std::optional<WorkTicket> TicketTable::take(int worker) {
  if (!workers_.contains(worker) || must_wait(worker)) return std::nullopt;
  if (const auto own = reserved_.find(worker); own != reserved_.end()) {
    WorkTicket& ticket = tickets_[static_cast<size_t>(own->second)];
    reserved_.erase(own);
    ticket.generation = generation_;
    return ticket;
  }
  return open_.empty() ? take_from_another(worker) : take_first(worker);
}

/// The first open ticket, if it is its turn.
std::optional<WorkTicket> TicketTable::take_first(int worker) {
  WorkTicket& ticket = tickets_[static_cast<size_t>(*open_.begin())];
  if (!is_turn(ticket)) return std::nullopt;
  ticket.generation = generation_;
  open_.erase(open_.begin());
  held_[ticket.number] = {worker, workers_[worker].last_heard};
  return ticket;
}

int64_t TicketTable::held_by(int worker) const {
  return std::ranges::count_if(held_,
                               [&](const auto& held) { return held.second.worker == worker; });
}

std::optional<WorkTicket> TicketTable::take_beside(int worker) {
  if (!workers_.contains(worker) || open_.empty()) return std::nullopt;
  const int64_t own = held_by(worker);
  const bool is_next = own > 0 && std::ranges::all_of(workers_, [&](const auto& other) {
                         return held_by(other.first) >= own;
                       });
  return is_next ? take_first(worker) : std::nullopt;
}

void TicketTable::finish(int worker, const WorkTicket& ticket) {
  const int64_t number = ticket.number;
  if (ticket.generation < generation_) return give_back(worker, ticket);
  if (!done_.insert(number)) return;
  open_.erase(number);
  held_.erase(number);
  if (const auto known = workers_.find(worker); known != workers_.end()) ++known->second.clock;
}

void TicketTable::give_back(int worker, const WorkTicket& ticket) {
  const auto holding = held_.find(ticket.number);
  if (holding == held_.end() || holding->second.worker != worker) return;
  held_.erase(holding);
  open_.insert(ticket.number);
}

int64_t TicketTable::reopen(const std::function<bool(int64_t number)>& is_lost) {
  ++generation_;
  NumberSet kept;
  int64_t reopened = 0;
  for (int64_t number = 0; number < size(); ++number) {
    if (!done_.contains(number)) continue;
    if (is_lost(number)) {
      open_.insert(number);
      ++reopened;
    } else {
      kept.insert(number);
    }
  }
  done_ = std::move(kept);
  return reopened;
}

std::string TicketTable::held(Time now) const {
  std::string text;
  for (const auto& [number, holding] : held_) {
    const WorkTicket& ticket = tickets_[static_cast<size_t>(number)];
    text += fmt::format("worker {} since {:.1f} s: batch {} of epoch {}\n", holding.worker,
                        std::chrono::duration<double>(now - holding.since).count(), ticket.batch,
                        ticket.epoch);
  }
  return text;
}

}  // namespace tandem::distribute

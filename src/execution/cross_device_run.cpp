#include "execution/cross_device_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/named_error.h"
#include "device/transfer.h"
#include "profile/span.h"
#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::graph {

/// Puts a part of the run on the queue. What went wrong in the parts before it is wrong here too,
/// also where another thread has been told of it in between.
template <class Work>
void CrossDeviceRun::ActiveParticipant::submit(Work work) {
  done = queue().submit([&] {
    queue().use(done);
    work();
  });
}

CrossDeviceRun::CrossDeviceRun(const Program& program, const Replicas& replicas,
                               CrossDevicePlan plan, std::vector<BoundReplica>& ranks)
    : program_(program),
      plan_(std::move(plan)),
      ranks_(ranks),
      sums_(plan_.supersteps.size()),
      library_sums_(plan_.supersteps.size()),
      exchanges_(program, ranks, plan_.replicas) {
  for (size_t s = 0; s < plan_.participants.size(); ++s) {
    const Participant& participant = plan_.participants[s];
    ActiveParticipant& active = active_.emplace_back();
    active.participant = participant;
    active.shares = &plan_.shares[s];
    active.name = ranks_[static_cast<size_t>(participant.ranks[0])].name;
    if (!participant.device->works_on_threads()) continue;
    has_teams_ = true;
    std::vector<devices::DevicePtr> devices;
    std::vector<std::string> names;
    std::vector<const BoundReplica*> subteams;
    for (int rank : participant.ranks) {
      subteams.push_back(&ranks_[static_cast<size_t>(rank)]);
      devices.push_back(subteams.back()->device);
      names.push_back(subteams.back()->name);
    }
    active.team = runtime::shared_team(devices, replicas.single_threaded, names);
    active.team_run = std::make_unique<TeamRun>(program_, std::move(subteams));
    active.team_run->set_shares(*active.shares);
  }
  for (size_t i = 0; i < plan_.supersteps.size(); ++i) {
    meets_ |= !plan_.supersteps[i].computes();
    for (const Sum& sum : plan_.supersteps[i].sums) {
      if (sum.is_by_library) library_sums_[i].emplace_back(program_, sum, plan_.replicas);
      for (auto& part : prepared_sums(sum, sum.pieces, 0)) sums_[i].push_back(std::move(part));
    }
    for (const auto& [participant, part] : sums_[i]) note_staging(participant, part);
  }
}

CrossDeviceRun::Sums CrossDeviceRun::prepared_sums(const Sum& sum,
                                                   const std::vector<Sum::Piece>& pieces,
                                                   int64_t rows) const {
  Sums parts;
  for (const Sum::Piece& piece : pieces) {
    const ActiveParticipant& active = active_[static_cast<size_t>(piece.participant)];
    PartialSum part(program_, sum, piece, active.participant, plan_.replicas, rows);
    if (!part.is_empty()) parts.emplace_back(piece.participant, std::move(part));
  }
  return parts;
}

void CrossDeviceRun::note_staging(int participant, const PartialSum& part) {
  ActiveParticipant& active = active_[static_cast<size_t>(participant)];
  active.staging_bytes = std::max(active.staging_bytes, part.staging_bytes());
}

/// The pieces of a sum of neighbours that have so many rows, from rank `first` on.
std::vector<Sum::Piece> CrossDeviceRun::pieces_of(const Sum& sum, int first, int64_t rows) const {
  int64_t elements = 0;
  for (ValueId input : program_.instructions()[sum.instruction].node.inputs) {
    elements += program_.graph().at(input).type.shape.resolved(rows).total_extent();
  }
  std::vector<int> ranks(static_cast<size_t>(sum.neighbours));
  std::iota(ranks.begin(), ranks.end(), first);
  return equal_pieces(plan_, elements, ranks);
}

/// The sums of a superstep, for as many rows as the replicas have now.
const CrossDeviceRun::Sums& CrossDeviceRun::sums_of(size_t superstep) {
  const auto& sums = plan_.supersteps[superstep].sums;
  if (sums.empty() || sums[0].neighbours == 0) return sums_[superstep];
  rows_.clear();
  for (int r = 0; r < plan_.replicas; r += sums[0].neighbours) {
    rows_.push_back(ranks_[static_cast<size_t>(r)].current->plan->rows);
  }
  std::map<std::vector<int64_t>, Sums>& by_rows = batch_sums_[superstep];
  if (const auto known = by_rows.find(rows_); known != by_rows.end()) return known->second;
  Sums& all = by_rows[rows_];
  for (size_t group = 0; group < rows_.size(); ++group) {
    const int first = static_cast<int>(group) * sums[0].neighbours;
    for (auto& part :
         prepared_sums(sums[0], pieces_of(sums[0], first, rows_[group]), rows_[group])) {
      note_staging(part.first, part.second);
      all.push_back(std::move(part));
    }
  }
  return all;
}

void* CrossDeviceRun::variable(int rank, ValueId value) {
  const BoundReplica& replica = ranks_[static_cast<size_t>(rank)];
  const StoreRange& range = program_.graph().at(value).range;
  if (range.block->is_in(replica.device->space())) return range.data(*replica.device, rank);
  ActiveParticipant& active =
      active_[static_cast<size_t>(plan_.participant_of[static_cast<size_t>(rank)])];
  std::shared_ptr<Buffer>& copy = active.copies[value];
  if (!copy) {
    const op::TensorType& type = program_.graph().at(value).type;
    copy = std::make_shared<Buffer>(replica.device, type.bytes(), type.dtype, type.shape);
  }
  return copy->data();
}

void CrossDeviceRun::reserve() {
  for (size_t i = 0; i < plan_.supersteps.size(); ++i) sums_of(i);
  for (ActiveParticipant& active : active_) {
    if (active.staging && active.staging->bytes() >= active.staging_bytes) continue;
    if (active.staging_bytes == 0) continue;
    try {
      active.staging =
          std::make_shared<Buffer>(active.participant.device, active.staging_bytes, DType::uint8,
                                   Shape{static_cast<int64_t>(active.staging_bytes)});
    } catch (const Error& error) {
      error.rethrow_within(active.name);
    }
  }
}

/// What sums of neighbours with so many rows need at a participant.
size_t CrossDeviceRun::staging_for(int participant, int64_t rows) const {
  size_t most = 0;
  for (const Superstep& superstep : plan_.supersteps) {
    if (superstep.sums.empty() || superstep.sums[0].neighbours == 0) continue;
    const Sum& sum = superstep.sums[0];
    for (int first = 0; first < plan_.replicas; first += sum.neighbours) {
      for (const Sum::Piece& piece : pieces_of(sum, first, rows)) {
        if (piece.participant != participant) continue;
        const Participant& own = plan_.participants[static_cast<size_t>(participant)];
        most = std::max(
            most, PartialSum::staging_bytes_of(program_, sum, piece, own, plan_.replicas, rows));
      }
    }
  }
  return most;
}

size_t CrossDeviceRun::extra_bytes(int rank, int64_t rows) const {
  const int participant = plan_.participant_of[static_cast<size_t>(rank)];
  const ActiveParticipant& active = active_[static_cast<size_t>(participant)];
  if (active.participant.ranks[0] != rank) return 0;
  const size_t staging = std::max(active.staging_bytes, staging_for(participant, rows));
  size_t bytes = staging == 0 ? 0 : devices::Allocator::rounded(staging);
  for (const Value& value : program_.graph().values) {
    if (value.source != Value::Source::range) continue;
    if (value.range.block->is_in(active.participant.device->space())) continue;
    bytes += devices::Allocator::rounded(value.type.bytes());
  }
  return bytes;
}

void CrossDeviceRun::run(const std::shared_ptr<const void>& owner,
                         std::vector<devices::Event>& ends) {
  try {
    for (ActiveParticipant& active : active_) active.done = active.exchanged = active.moved = {};
    for (BoundReplica& rank : ranks_) {
      if (rank.device->works_on_threads()) continue;
      active_of(rank.index).submit([&] { issue_step(rank); });
    }
    run_supersteps(owner);
    for (ActiveParticipant& active : active_) {
      if (active.team) continue;
      active.submit([&] {
        undo_on_fault(program_, ranks_[static_cast<size_t>(active.participant.ranks[0])]);
      });
    }
  } catch (...) {
    settle(owner, std::current_exception());
  }
  ends.clear();
  for (const ActiveParticipant& active : active_) {
    active.queue().hold(owner);
    ends.push_back(active.done);
    for (int rank : active.participant.ranks) {
      for (const auto& result : ranks_[static_cast<size_t>(rank)].current->results) {
        result->ready = active.done;
      }
    }
  }
}

void CrossDeviceRun::run_supersteps(const std::shared_ptr<const void>& owner) {
  if (repairs_first_) {
    move(owner, plan_.repairs);
    meet();
    repairs_first_ = false;
  }
  for (size_t i = 0; i < plan_.supersteps.size(); ++i) {
    const Superstep& superstep = plan_.supersteps[i];
    if (superstep.computes()) {
      compute(owner, superstep);
      if (has_teams_ && meets_) meet();
    } else if (superstep.exchange) {
      exchange(*superstep.exchange);
    } else if (superstep.awaits_moves) {
      await(&ActiveParticipant::moved);
    } else if (superstep.sums.empty() && superstep.early) {
      begin_moves(superstep.moves);
    } else if (superstep.sums.empty()) {
      if (!has_teams_) meet();
      move(owner, superstep.moves);
      meet();
    } else if (has_teams_) {
      sum_with_teams(i);
      meet();
    } else {
      begin_sums(i);
      if (!superstep.early) await(&ActiveParticipant::exchanged);
    }
  }
  if (meets_ && !has_teams_) meet();  // What went wrong at one goes wrong at all.
}

void CrossDeviceRun::compute(const std::shared_ptr<const void>& owner, const Superstep& superstep) {
  for (ActiveParticipant& active : active_) {
    if (active.team) continue;
    const auto work = [&] { issue(active, superstep.begin, superstep.end); };
    const bool is_alone = active.participant.ranks.size() == 1;
    BoundReplica& first = ranks_[static_cast<size_t>(active.participant.ranks[0])];
    active.submit([&] {
      is_alone ? issue_stretch(program_, first, {superstep.begin, superstep.end}, work) : work();
    });
  }
  for (ActiveParticipant& active : active_) {
    if (active.team) run_team(owner, active, superstep);
  }
}

/// Issues in the order in which one thread of a team would play several replicas: what stands
/// between two barriers of all replicas for one of them, then for the next. The first does what is
/// done once.
void CrossDeviceRun::issue(const ActiveParticipant& active, size_t begin, size_t end) {
  const auto& instructions = program_.instructions();
  const std::vector<Share>& shares = *active.shares;
  while (begin < end) {
    size_t stop = begin + 1;
    while (stop < end && instructions[stop].barrier != BarrierScope::team) ++stop;
    for (int rank : active.participant.ranks) {
      const BoundReplica& replica = ranks_[static_cast<size_t>(rank)];
      for (size_t i = begin; i < stop; ++i) {
        const bool once = instructions[i].whole_team && rank != active.participant.ranks[0];
        if (shares[i].of == 0 || once) continue;
        issue_instruction(program_, replica, i, replica.name, shares[i]);
      }
    }
    begin = stop;
  }
}

void CrossDeviceRun::run_team(const std::shared_ptr<const void>& owner, ActiveParticipant& active,
                              const Superstep& superstep) {
  const std::vector<Share>& shares = *active.shares;
  const bool idle = std::ranges::all_of(shares.begin() + static_cast<ptrdiff_t>(superstep.begin),
                                        shares.begin() + static_cast<ptrdiff_t>(superstep.end),
                                        [](const Share& share) { return share.of == 0; });
  if (idle) return;
  active.team_run->set_stretch(superstep.begin, superstep.end);
  active.team_run->bind();
  try {
    active.team->run({owner, active.team_run.get()},
                     {.writes_variables = program_.writes_variables()});
  } catch (const DeadlineExceeded&) {
    throw;  // Names who is late.
  } catch (...) {
    // A team of several subteams has named the one.
    std::rethrow_exception(
        core::named_error(active.participant.ranks.size() > 1 ? "" : active.name));
  }
}

/// CPUs work at once, and the caller's thread has waited for all.
void CrossDeviceRun::sum_with_teams(size_t index) {
  const profile::Span reducing("all_reduce", profile::Activity::reduce);
  // CPUs work at once, so they come last.
  for (const bool on_threads : {false, true}) {
    for (const auto& [participant, part] : sums_of(index)) {
      ActiveParticipant& active = active_[static_cast<size_t>(participant)];
      devices::Device& device = *active.participant.device;
      if (device.works_on_threads() != on_threads) continue;
      active.submit([&] {
        part.run(ranks_, active.staging ? active.staging->data() : nullptr, active.queue());
      });
    }
  }
}

/// On queues of their own, behind what all participants were asked to compute so far. What these
/// are asked from now on does not wait.
void CrossDeviceRun::begin_sums(size_t index) {
  const Sums& sums = sums_of(index);
  if (sums.empty() && library_sums_[index].empty()) return;
  for (ActiveParticipant& active : active_) active.submit([] {});
  begin_library_sums(index);
  for (const auto& [participant, part] : sums) {
    ActiveParticipant& active = active_[static_cast<size_t>(participant)];
    devices::Queue& queue = active.exchange_queue();
    active.exchanged = queue.submit([&] {
      for (const ActiveParticipant& other : active_) queue.wait(other.done);
      part.run(ranks_, active.staging ? active.staging->data() : nullptr, queue);
    });
  }
}

/// A library's sums wait for all ranks by themselves. Each participant is a rank.
void CrossDeviceRun::begin_library_sums(size_t index) {
  if (library_sums_[index].empty()) return;
  if (!group_ || group_->is_aborted()) {
    std::vector<devices::DevicePtr> devices;
    for (const ActiveParticipant& active : active_) devices.push_back(active.participant.device);
    group_ = collective::open_device_group(devices);
  }
  computed_.resize(active_.size());
  summed_.resize(active_.size());
  for (size_t i = 0; i < active_.size(); ++i) computed_[i] = active_[i].done;
  for (LibrarySum& sum : library_sums_[index]) sum.run(*group_, ranks_, computed_, summed_);
  for (size_t i = 0; i < active_.size(); ++i) active_[i].exchanged = std::move(summed_[i]);
}

/// On the queues for exchanges of those that they are for, behind what all participants were asked
/// to compute so far: the memory that they go to has been used for the last time then.
void CrossDeviceRun::begin_moves(const std::vector<Move>& moves) {
  for (ActiveParticipant& active : active_) active.submit([] {});
  for (ActiveParticipant& active : active_) {
    devices::Queue& queue = active.exchange_queue();
    active.moved = queue.submit([&] {
      for (const ActiveParticipant& other : active_) queue.wait(other.done);
      for (const Move& move : moves) {
        for (int rank : move.to) {
          if (&active_of(rank) == &active) issue_early(move, rank, queue);
        }
      }
    });
  }
}

/// What goes wrong says whose join of which variable it is.
void CrossDeviceRun::issue_early(const Move& move, int rank, devices::Queue& queue) {
  const Graph& graph = program_.graph();
  try {
    issue_move(move, rank, graph, ranks_, queue);
  } catch (const DeadlineExceeded&) {
    throw;  // Names who is late.
  } catch (...) {
    const Value& part = graph.at(graph.storage_of(move.from_value));
    std::string what = ranks_[static_cast<size_t>(rank)].name;
    if (part.source == Value::Source::range) {
      what += fmt::format(": the join of {}", part.range.name());
    }
    std::rethrow_exception(core::named_error(what));
  }
}

/// Nobody goes on before all that has begun beside the computing is there, and nobody reads the
/// others' memory any more.
void CrossDeviceRun::await(devices::Event ActiveParticipant::*what) {
  for (ActiveParticipant& active : active_) {
    active.submit([&] {
      for (const ActiveParticipant& other : active_) active.queue().wait(other.*what);
    });
  }
  for (ActiveParticipant& active : active_) active.*what = {};
}

void CrossDeviceRun::move(const std::shared_ptr<const void>& owner,
                          const std::vector<Move>& moves) {
  for (const bool on_threads : {false, true}) {
    for (const Move& move : moves) {
      const auto& source = source_of(move, program_.graph(), ranks_);
      if (source->works_on_threads() != on_threads) continue;
      const devices::Event from = move.from < 0 ? devices::Event() : active_of(move.from).done;
      for (int rank : move.to) {
        active_of(rank).submit(
            [&] { make_move(move, rank, program_.graph(), ranks_, owner, from); });
      }
    }
  }
}

/// What the devices read next is there, and those that an exchange reads have done all before it.
void CrossDeviceRun::exchange(size_t instruction) {
  if (has_teams_ || exchanges_.reads_devices(instruction)) wait();
  const Node& node = program_.instructions()[instruction].node;
  const profile::Span reducing(node.op().name.c_str(), profile::Activity::reduce);
  exchanges_.run(instruction);
}

/// Nobody goes on before all have come this far.
void CrossDeviceRun::meet() {
  if (has_teams_) return wait();
  for (ActiveParticipant& active : active_) {
    active.submit([] {});
    active.arrived = active.done;
  }
  for (ActiveParticipant& active : active_) {
    active.submit([&] {
      for (const ActiveParticipant& other : active_) {
        if (&other != &active) active.queue().wait(other.arrived);
      }
    });
  }
}

void CrossDeviceRun::wait() {
  const profile::Span waiting("barrier", profile::Activity::wait);
  for (ActiveParticipant& active : active_) {
    active.submit([] {});
    active.done.wait(config::wait_deadline());
    active.done = {};
  }
}

/// After a failure: nothing of the run may still be at work when the next begins, and variables are
/// the same everywhere. Where a queue does not get that far in time, it is a DeadlineExceeded.
void CrossDeviceRun::settle(const std::shared_ptr<const void>& owner, std::exception_ptr error) {
  std::string first;
  for (const ActiveParticipant& active : active_) {
    active.queue().hold(owner);
    active.exchange_queue().hold(owner);
  }
  try {
    std::rethrow_exception(error);
  } catch (const DeadlineExceeded&) {
    throw;  // Somebody is still at work: the owner gives this execution up.
  } catch (const std::exception& failure) {
    first = failure.what();
  }
  for (ActiveParticipant& active : active_) {
    active.done = active.exchanged = active.moved = {};
    for (devices::Queue* queue : {&active.exchange_queue(), &active.queue()}) {
      try {
        queue->record().wait(config::wait_deadline());
      } catch (const DeadlineExceeded& late) {
        throw DeadlineExceeded(fmt::format("{}; then {}: {}", first, active.name, late.what()));
      } catch (const std::exception&) {
        // The same failure, as this queue has it.
      }
    }
  }
  move(owner, plan_.repairs);
  meet();
  std::rethrow_exception(error);
}

}  // namespace tandem::graph

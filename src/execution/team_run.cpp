#include "execution/team_run.h"

#include <fmt/format.h>

#include <optional>

namespace tandem::graph {
namespace {

constexpr const char* kStep = "step";
constexpr const char* kBarrier = "barrier";

/// A meeting of the threads of one replica.
class SquadMeeting final : public op::Meeting {
 public:
  SquadMeeting(core::Host& host, const core::Lot& lot) : host_(host), lot_(lot) {}

  void meet() const override {
    const profile::Span waiting(kBarrier, profile::Kind::wait);
    host_.squad_barrier(lot_);
    host_.leave_if_failed();
  }

 private:
  core::Host& host_;
  const core::Lot& lot_;
};

int threads_of(const std::vector<const BoundReplica*>& squads) {
  int threads = 0;
  for (const BoundReplica* replica : squads) threads += replica->threads;
  return threads;
}

}  // namespace

TeamRun::TeamRun(const Program& program, std::vector<const BoundReplica*> squads)
    : program_(program),
      squads_(std::move(squads)),
      team_size_(threads_of(squads_)),
      peers_(squads_.size()) {
  set_stretch(0, program_.instructions().size());
}

void TeamRun::set_stretch(size_t begin, size_t end) {
  begin_ = begin;
  segment_ends_.clear();
  for (size_t i = begin + 1; i < end; ++i) {
    if (program_.instructions()[i].barrier == Barrier::team) segment_ends_.push_back(i);
  }
  segment_ends_.push_back(end);
}

void TeamRun::bind() {
  for (size_t r = 0; r < squads_.size(); ++r) peers_[r] = squads_[r]->current->slots.data();
}

void TeamRun::play(core::Host& host) {
  if (profile::is_recording()) {
    profile::name_row(fmt::format("thread {} of {}", host.index(), squads_[0]->device->name()));
  }
  // This thread's part of the step; the caller's thread records the whole.
  std::optional<profile::Span> part;
  if (host.index() > 0) part.emplace(kStep, profile::Kind::part);
  size_t begin = begin_;
  for (size_t end : segment_ends_) {
    if (begin > begin_) {
      const profile::Span waiting(kBarrier, profile::Kind::wait);
      host.team_barrier();
    }
    for (const core::Lot& lot : host.lots()) play_segment(host, lot, begin, end);
    begin = end;
  }
}

void TeamRun::play_segment(core::Host& host, const core::Lot& lot, size_t begin, size_t end) {
  const BoundReplica& replica = *squads_[static_cast<size_t>(lot.squad)];
  const Plan& plan = *replica.current->plan;
  const auto& instructions = program_.instructions();
  const op::InstructionHook* hook = op::instruction_hook();
  const SquadMeeting meeting(host, lot);
  host.playing(lot);
  if (profile::is_recording()) profile::set_replica(replica.step.replica);
  for (size_t i = begin; i < end; ++i) {
    const Instruction& instruction = instructions[i];
    if (instruction.barrier == Barrier::squad) meeting.meet();
    const Share share = shares_ == nullptr ? Share{} : (*shares_)[i];
    if (share.of == 0) continue;
    host.doing(instruction.node.op().name.c_str());
    if (hook != nullptr) (*hook)(replica.step.replica, instruction.node.op().name);
    host.leave_if_failed();
    op::Launch launch = launch_of(program_, replica, i);
    // The parts of one rank's threads, taken together, are that rank's part of `of`.
    const int threads = instruction.whole_team ? team_size_ : lot.size;
    const int first = share.rank * threads + (instruction.whole_team ? lot.global : lot.rank);
    launch.parts = share.of * threads;
    launch.peers = peers_.data();
    launch.meeting = &meeting;
    const op::Executable& executable = *plan.executables[i];
    const profile::Span computing =
        span_of(instruction, plan.costs[i], static_cast<double>(lot.count) / launch.parts);
    executable.play(launch, {first, lot.stride, lot.count});
    if (executable.phases() > 1) meeting.meet();  // The next instruction may use the workspaces.
  }
}

}  // namespace tandem::graph

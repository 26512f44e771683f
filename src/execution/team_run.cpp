#include "execution/team_run.h"

#include <fmt/format.h>

#include <optional>

#include "profile/span.h"

namespace tandem::graph {
namespace {

constexpr const char* kStep = "step";
constexpr const char* kBarrier = "barrier";

/// A meeting of the threads of one replica.
class SubteamMeeting final : public op::Meeting {
 public:
  SubteamMeeting(core::TeamThread& thread, const core::Members& members)
      : thread_(thread), members_(members) {}

  void meet() const override {
    const profile::Span waiting(kBarrier, profile::Activity::wait);
    thread_.subteam_barrier(members_);
    thread_.leave_if_failed();
  }

 private:
  core::TeamThread& thread_;
  const core::Members& members_;
};

/// For the profile: the time that a thread spends on its share of an instruction.
profile::Span span_of(const Instruction& instruction, const op::Cost& cost, double share) {
  const op::OpDef& op = instruction.node.op();
  return {op.name.c_str(),
          op.is_collective ? profile::Activity::reduce : profile::Activity::compute,
          cost.flops * share, cost.bytes * share};
}

int threads_of(const std::vector<const BoundReplica*>& subteams) {
  int threads = 0;
  for (const BoundReplica* replica : subteams) threads += replica->threads;
  return threads;
}

}  // namespace

TeamRun::TeamRun(const Program& program, std::vector<const BoundReplica*> subteams)
    : program_(program),
      subteams_(std::move(subteams)),
      team_size_(threads_of(subteams_)),
      peers_(subteams_.size()) {
  set_stretch(0, program_.instructions().size());
}

void TeamRun::set_stretch(size_t begin, size_t end) {
  begin_ = begin;
  stretch_ends_.clear();
  for (size_t i = begin + 1; i < end; ++i) {
    if (program_.instructions()[i].barrier == BarrierScope::team) stretch_ends_.push_back(i);
  }
  stretch_ends_.push_back(end);
}

void TeamRun::bind() {
  for (size_t r = 0; r < subteams_.size(); ++r) peers_[r] = subteams_[r]->current->addresses.data();
}

void TeamRun::play(core::TeamThread& thread) {
  if (profile::is_profiling()) {
    profile::name_row(fmt::format("thread {} of {}", thread.index(), subteams_[0]->device->name()));
  }
  // This thread's part of the step; the caller's thread records the whole.
  std::optional<profile::Span> part;
  if (thread.index() > 0) part.emplace(kStep, profile::Activity::step_share);
  size_t begin = begin_;
  for (size_t end : stretch_ends_) {
    if (begin > begin_) {
      const profile::Span waiting(kBarrier, profile::Activity::wait);
      thread.team_barrier();
    }
    for (const core::Members& members : thread.members()) play_stretch(thread, members, begin, end);
    begin = end;
  }
}

void TeamRun::play_stretch(core::TeamThread& thread, const core::Members& members, size_t begin,
                           size_t end) {
  const BoundReplica& replica = *subteams_[static_cast<size_t>(members.subteam)];
  const Plan& plan = *replica.current->plan;
  const auto& instructions = program_.instructions();
  const op::InstructionHook* hook = op::instruction_hook();
  const SubteamMeeting meeting(thread, members);
  thread.playing(members);
  if (profile::is_profiling()) profile::set_replica(replica.index);
  for (size_t i = begin; i < end; ++i) {
    const Instruction& instruction = instructions[i];
    if (instruction.barrier == BarrierScope::subteam) meeting.meet();
    const Share share = shares_ == nullptr ? Share{} : (*shares_)[i];
    if (share.of == 0) continue;
    thread.doing(instruction.node.op().name.c_str());
    if (hook != nullptr) (*hook)(replica.index, instruction.node.op().name);
    thread.leave_if_failed();
    op::Launch launch = launch_of(program_, replica, i);
    // The parts of one rank's threads, taken together, are that rank's part of `of`.
    int threads = instruction.whole_team ? team_size_ : members.size;
    int rank = instruction.whole_team ? members.global : members.rank;
    if (instruction.parts > 0) {
      rank += replica.index / instruction.parts * threads;
      threads *= program_.replicas() / instruction.parts;
    }
    const int first = share.rank * threads + rank;
    launch.parts = share.of * threads;
    launch.peers = peers_.data();
    launch.meeting = &meeting;
    const op::Executable& executable = *plan.executables[i];
    const profile::Span computing =
        span_of(instruction, plan.costs[i], static_cast<double>(members.count) / launch.parts);
    executable.play(launch, {first, members.stride, members.count});
    if (executable.phases() > 1) meeting.meet();  // The next instruction may use the workspaces.
  }
}

}  // namespace tandem::graph

#include "execution/spread.h"

#include <fmt/format.h>

#include <algorithm>

#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::graph {
namespace {

/// Puts work on a device's queue; on a CPU it is done at once.
template <class Work>
void submit_to(devices::Device& device, const std::shared_ptr<Failure>& failure,
               const std::string& name, Work work) {
  device.queue().submit([failure, name, work] {
    if (failure->happened()) return;
    try {
      work();
    } catch (...) {
      failure->keep(named_error(name));
      std::rethrow_exception(failure->error());
    }
  });
}

}  // namespace

Spread::Spread(const Program& program, const Replicas& replicas, SpreadPlan plan,
               std::vector<BoundReplica>& ranks)
    : program_(program), plan_(std::move(plan)), ranks_(ranks), sums_(plan_.steps.size()) {
  for (size_t s = 0; s < plan_.sites.size(); ++s) {
    const Site& site = plan_.sites[s];
    Post& post = posts_.emplace_back();
    post.site = site;
    post.shares = &plan_.shares[s];
    post.name = ranks_[static_cast<size_t>(site.ranks[0])].name;
    if (!site.device->queue().immediate()) continue;
    std::vector<devices::DevicePtr> devices;
    std::vector<std::string> names;
    std::vector<const BoundReplica*> squads;
    for (int rank : site.ranks) {
      squads.push_back(&ranks_[static_cast<size_t>(rank)]);
      devices.push_back(squads.back()->device);
      names.push_back(squads.back()->name);
    }
    post.team = runtime::team_slot(devices, replicas.single_threaded, names);
    post.team_run = std::make_unique<TeamRun>(program_, std::move(squads));
    post.team_run->set_shares(*post.shares);
  }
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    meets_ |= !plan_.steps[i].computes();
    for (const Sum& sum : plan_.steps[i].sums) {
      for (const Sum::Part& part : sum.parts) {
        Post& post = posts_[static_cast<size_t>(part.site)];
        sums_[i].emplace_back(part.site,
                              PartialSum(program_, sum, part, post.site, plan_.replicas));
        post.staging_bytes = std::max(post.staging_bytes, sums_[i].back().second.staging_bytes());
      }
    }
  }
}

void* Spread::variable(int rank, int value) {
  const BoundReplica& replica = ranks_[static_cast<size_t>(rank)];
  const StoreRange& range = program_.graph().at(value).range;
  if (range.block->is_in(replica.device->space())) return range.data(*replica.device, rank);
  Post& post = posts_[static_cast<size_t>(plan_.site_of[static_cast<size_t>(rank)])];
  std::shared_ptr<Buffer>& copy = post.copies[value];
  if (!copy) {
    const op::TensorType& type = program_.graph().at(value).type;
    copy = std::make_shared<Buffer>(replica.device, type.bytes(), type.dtype, type.shape);
  }
  return copy->data();
}

void Spread::reserve() {
  for (Post& post : posts_) {
    if (post.staging || post.staging_bytes == 0) continue;
    try {
      post.staging = std::make_shared<Buffer>(post.site.device, post.staging_bytes, DType::uint8,
                                              Shape{static_cast<int64_t>(post.staging_bytes)});
    } catch (const Error& error) {
      error.rethrow_within(post.name);
    }
  }
}

size_t Spread::extra_bytes(int rank) const {
  const Post& post = posts_[static_cast<size_t>(plan_.site_of[static_cast<size_t>(rank)])];
  if (post.site.ranks[0] != rank) return 0;
  size_t bytes = post.staging_bytes == 0 ? 0 : devices::Allocator::rounded(post.staging_bytes);
  for (const Value& value : program_.graph().values) {
    if (value.source != Value::Source::range) continue;
    if (value.range.block->is_in(post.site.device->space())) continue;
    bytes += devices::Allocator::rounded(value.type.bytes());
  }
  return bytes;
}

void Spread::run(const std::shared_ptr<const void>& owner) {
  Run run{owner, std::make_shared<Failure>(), {}};
  for (const BoundReplica& rank : ranks_) {
    const bool late = !rank.device->queue().immediate();
    run.queued.push_back(
        late ? std::make_shared<QueueRun>(owner, program_, rank, rank.name, run.failure) : nullptr);
  }
  try {
    run_steps(run);
  } catch (...) {
    run.failure->keep(std::current_exception());
    settle(run);
    std::rethrow_exception(run.failure->error());
  }
  for (const BoundReplica& rank : ranks_) {
    const Post& post =
        posts_[static_cast<size_t>(plan_.site_of[static_cast<size_t>(rank.step.replica)])];
    for (const auto& result : rank.current->results) result->ready = post.done;
  }
}

void Spread::run_steps(const Run& run) {
  if (repairs_first_) {
    move(run, plan_.repairs);
    wait(run);
    repairs_first_ = false;
  }
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    const SpreadStep& step = plan_.steps[i];
    if (step.computes()) {
      compute(run, step);
    } else if (!step.sums.empty()) {
      sum(run, i);
    } else {
      move(run, step.moves);
    }
    if (meets_) wait(run);
  }
}

void Spread::compute(const Run& run, const SpreadStep& step) {
  for (Post& post : posts_) {
    if (post.team) continue;
    submit(run, post, step.begin, step.end);
    post.done = post.site.device->queue().record();
  }
  for (Post& post : posts_) {
    if (post.team) run_team(run, post, step);
  }
}

/// In the order in which one thread of a team would play several replicas: what stands between two
/// barriers of all replicas for one of them, then for the next. The first does what is done once.
void Spread::submit(const Run& run, const Post& post, size_t begin, size_t end) {
  const auto& instructions = program_.instructions();
  const std::vector<Share>& shares = *post.shares;
  while (begin < end) {
    size_t stop = begin + 1;
    while (stop < end && instructions[stop].barrier != Barrier::team) ++stop;
    for (int rank : post.site.ranks) {
      for (size_t i = begin; i < stop; ++i) {
        const bool once = instructions[i].whole_team && rank != post.site.ranks[0];
        if (shares[i].of == 0 || once) continue;
        run.queued[static_cast<size_t>(rank)]->submit(i, shares[i]);
      }
    }
    begin = stop;
  }
}

void Spread::run_team(const Run& run, Post& post, const SpreadStep& step) {
  const std::vector<Share>& shares = *post.shares;
  const bool idle = std::ranges::all_of(shares.begin() + static_cast<ptrdiff_t>(step.begin),
                                        shares.begin() + static_cast<ptrdiff_t>(step.end),
                                        [](const Share& share) { return share.of == 0; });
  if (idle) return;
  post.team_run->set_stretch(step.begin, step.end);
  post.team_run->bind();
  try {
    post.team->run({run.owner, post.team_run.get()},
                   {.writes_variables = program_.writes_variables()});
  } catch (const DeadlineExceeded&) {
    throw;  // Names who is late.
  } catch (...) {
    // A team of several squads has named the one.
    std::rethrow_exception(named_error(post.site.ranks.size() > 1 ? "" : post.name));
  }
}

void Spread::sum(const Run& run, size_t index) {
  const profile::Span reducing("all_reduce", profile::Kind::reduce);
  // CPUs work at once, so they come last.
  for (const bool late : {true, false}) {
    for (const auto& [site, part] : sums_[index]) {
      Post& post = posts_[static_cast<size_t>(site)];
      devices::Device& device = *post.site.device;
      if (device.queue().immediate() == late) continue;
      submit_to(device, run.failure, post.name,
                [owner = run.owner, &part = part, &ranks = ranks_, staging = post.staging] {
                  part.run(ranks, staging ? staging->data() : nullptr);
                });
      post.done = device.queue().record();
    }
  }
}

void Spread::move(const Run& run, const std::vector<Move>& moves) {
  for (const bool late : {true, false}) {
    for (const Move& move : moves) {
      const devices::DevicePtr& device = source_of(move, program_.graph(), ranks_);
      if (device->queue().immediate() == late) continue;
      const std::string name =
          move.from < 0 ? device->name() : ranks_[static_cast<size_t>(move.from)].name;
      submit_to(*device, run.failure, name,
                [owner = run.owner, &move, &program = program_, &ranks = ranks_] {
                  make_move(move, program.graph(), ranks);
                });
      if (move.from < 0) {
        device->queue().record().wait(config::wait_deadline());
      } else {
        const int site = plan_.site_of[static_cast<size_t>(move.from)];
        posts_[static_cast<size_t>(site)].done = device->queue().record();
      }
    }
  }
}

void Spread::wait(const Run& run) {
  const profile::Span waiting("barrier", profile::Kind::wait);
  for (Post& post : posts_) {
    try {
      post.done.wait(config::wait_deadline());
      post.done = {};
    } catch (...) {
      if (run.failure->happened()) std::rethrow_exception(run.failure->error());
      std::rethrow_exception(named_error(post.name));
    }
  }
}

/// After a failure: nothing of the run may still be at work when the next begins, and variables are
/// the same everywhere. Where a queue does not get that far in time, it is a DeadlineExceeded.
void Spread::settle(const Run& run) {
  std::string first;
  bool expired = false;
  try {
    std::rethrow_exception(run.failure->error());
  } catch (const DeadlineExceeded&) {
    expired = true;
  } catch (const std::exception& error) {
    first = error.what();
  }
  for (Post& post : posts_) {
    post.done = {};
    if (post.team || expired) continue;
    try {
      post.site.device->queue().record().wait(config::wait_deadline());
    } catch (const DeadlineExceeded& error) {
      throw DeadlineExceeded(fmt::format("{}; then {}: {}", first, post.name, error.what()));
    } catch (const std::exception&) {
      // The same failure, as this queue has it.
    }
  }
  if (expired) return;  // Somebody is still at work: the owner gives this execution up.
  const Run repair{run.owner, std::make_shared<Failure>(), {}};
  move(repair, plan_.repairs);
  wait(repair);
}

}  // namespace tandem::graph

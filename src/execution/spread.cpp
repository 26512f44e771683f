#include "execution/spread.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/named_error.h"
#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::graph {
Spread::Spread(const Program& program, const Replicas& replicas, SpreadPlan plan,
               std::vector<BoundReplica>& ranks)
    : program_(program), plan_(std::move(plan)), ranks_(ranks), sums_(plan_.steps.size()) {
  for (size_t s = 0; s < plan_.sites.size(); ++s) {
    const Site& site = plan_.sites[s];
    Post& post = posts_.emplace_back();
    post.site = site;
    post.shares = &plan_.shares[s];
    post.name = ranks_[static_cast<size_t>(site.ranks[0])].name;
    if (!site.device->works_on_threads()) continue;
    has_teams_ = true;
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

std::vector<devices::Event> Spread::run(const std::shared_ptr<const void>& owner) {
  try {
    for (BoundReplica& rank : ranks_) {
      if (!rank.device->works_on_threads()) issue_step(rank);
    }
    run_steps(owner);
  } catch (...) {
    settle(owner, std::current_exception());
  }
  std::vector<devices::Event> ends;
  for (const Post& post : posts_) {
    post.site.device->queue().hold(owner);
    ends.push_back(post.done);
    for (int rank : post.site.ranks) {
      for (const auto& result : ranks_[static_cast<size_t>(rank)].current->results) {
        result->ready = post.done;
      }
    }
  }
  return ends;
}

void Spread::run_steps(const std::shared_ptr<const void>& owner) {
  if (repairs_first_) {
    move(owner, plan_.repairs);
    meet();
    repairs_first_ = false;
  }
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    const SpreadStep& step = plan_.steps[i];
    if (step.computes()) {
      compute(owner, step);
    } else if (!step.sums.empty()) {
      sum(i);
    } else {
      move(owner, step.moves);
    }
    if (meets_) meet();
  }
}

void Spread::compute(const std::shared_ptr<const void>& owner, const SpreadStep& step) {
  for (Post& post : posts_) {
    if (post.team) continue;
    post.site.device->queue().submit([&] { issue(post, step.begin, step.end); });
    post.done = post.site.device->queue().record();
  }
  for (Post& post : posts_) {
    if (post.team) run_team(owner, post, step);
  }
}

/// In the order in which one thread of a team would play several replicas: what stands between two
/// barriers of all replicas for one of them, then for the next. The first does what is done once.
void Spread::issue(const Post& post, size_t begin, size_t end) {
  const auto& instructions = program_.instructions();
  const std::vector<Share>& shares = *post.shares;
  while (begin < end) {
    size_t stop = begin + 1;
    while (stop < end && instructions[stop].barrier != Barrier::team) ++stop;
    for (int rank : post.site.ranks) {
      const BoundReplica& replica = ranks_[static_cast<size_t>(rank)];
      for (size_t i = begin; i < stop; ++i) {
        const bool once = instructions[i].whole_team && rank != post.site.ranks[0];
        if (shares[i].of == 0 || once) continue;
        issue_instruction(program_, replica, i, replica.name, shares[i]);
      }
    }
    begin = stop;
  }
}

void Spread::run_team(const std::shared_ptr<const void>& owner, Post& post,
                      const SpreadStep& step) {
  const std::vector<Share>& shares = *post.shares;
  const bool idle = std::ranges::all_of(shares.begin() + static_cast<ptrdiff_t>(step.begin),
                                        shares.begin() + static_cast<ptrdiff_t>(step.end),
                                        [](const Share& share) { return share.of == 0; });
  if (idle) return;
  post.team_run->set_stretch(step.begin, step.end);
  post.team_run->bind();
  try {
    post.team->run({owner, post.team_run.get()}, {.writes_variables = program_.writes_variables()});
  } catch (const DeadlineExceeded&) {
    throw;  // Names who is late.
  } catch (...) {
    // A team of several squads has named the one.
    std::rethrow_exception(core::named_error(post.site.ranks.size() > 1 ? "" : post.name));
  }
}

void Spread::sum(size_t index) {
  const profile::Span reducing("all_reduce", profile::Kind::reduce);
  // CPUs work at once, so they come last.
  for (const bool on_threads : {false, true}) {
    for (const auto& [site, part] : sums_[index]) {
      Post& post = posts_[static_cast<size_t>(site)];
      devices::Device& device = *post.site.device;
      if (device.works_on_threads() != on_threads) continue;
      device.queue().submit(
          [&] { part.run(ranks_, post.staging ? post.staging->data() : nullptr); });
      post.done = device.queue().record();
    }
  }
}

void Spread::move(const std::shared_ptr<const void>& owner, const std::vector<Move>& moves) {
  for (const bool on_threads : {false, true}) {
    for (const Move& move : moves) {
      const auto& source = source_of(move, program_.graph(), ranks_);
      if (source->works_on_threads() != on_threads) continue;
      make_move(move, program_.graph(), ranks_, owner);
      for (int rank : move.to) post_of(rank).done = post_of(rank).site.device->queue().record();
    }
  }
}

/// Nobody goes on before all have come this far.
void Spread::meet() {
  if (has_teams_) return wait();
  std::vector<devices::Event> arrived;
  for (const Post& post : posts_) arrived.push_back(post.site.device->queue().record());
  for (size_t i = 0; i < posts_.size(); ++i) {
    devices::Queue& queue = posts_[i].site.device->queue();
    for (size_t other = 0; other < posts_.size(); ++other) {
      if (other != i) queue.wait(arrived[other]);
    }
    posts_[i].done = queue.record();
  }
}

void Spread::wait() {
  const profile::Span waiting("barrier", profile::Kind::wait);
  for (Post& post : posts_) {
    post.site.device->queue().record().wait(config::wait_deadline());
    post.done = {};
  }
}

/// After a failure: nothing of the run may still be at work when the next begins, and variables are
/// the same everywhere. Where a queue does not get that far in time, it is a DeadlineExceeded.
void Spread::settle(const std::shared_ptr<const void>& owner, std::exception_ptr error) {
  std::string first;
  for (const Post& post : posts_) post.site.device->queue().hold(owner);
  try {
    std::rethrow_exception(error);
  } catch (const DeadlineExceeded&) {
    throw;  // Somebody is still at work: the owner gives this execution up.
  } catch (const std::exception& failure) {
    first = failure.what();
  }
  for (Post& post : posts_) {
    post.done = {};
    try {
      post.site.device->queue().record().wait(config::wait_deadline());
    } catch (const DeadlineExceeded& late) {
      throw DeadlineExceeded(fmt::format("{}; then {}: {}", first, post.name, late.what()));
    } catch (const std::exception&) {
      // The same failure, as this queue has it.
    }
  }
  move(owner, plan_.repairs);
  meet();
  std::rethrow_exception(error);
}

}  // namespace tandem::graph

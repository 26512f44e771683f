// One rank of a cluster, for tests that start several of them and hurt them.
//   cluster_member [--steps N] [--count N] [--transport tcp] [--timeout MS] [--join-timeout MS]
//                  [--pause MS] [--at STEP --act ACT [--who RANK]]
// Joins the cluster that the environment describes, sums N times, and prints "done" with the last
// sum; on an error it prints the kind and the text, and returns 1. At step STEP a rank, the last
// one if none is named, may ACT: "throw", "leave", "exit", "dawdle" (in its input), "differ".
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cluster/join.h"
#include "tandem/cluster.h"

namespace tandem {
namespace {

struct MemberPlan {
  int64_t steps = 100;
  int64_t count = 2500;
  int64_t pause_ms = 0;
  int64_t at = -1;
  std::string act;
  int who = -1;
  cluster::JoinOptions join;
};

MemberPlan parse(int count, char** words) {
  MemberPlan plan;
  plan.join.transport = "tcp";
  plan.join.join_timeout = std::chrono::seconds(60);
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string name = words[i];
    const char* value = words[i + 1];
    if (name == "--steps") plan.steps = std::atoll(value);
    if (name == "--count") plan.count = std::atoll(value);
    if (name == "--pause") plan.pause_ms = std::atoll(value);
    if (name == "--transport") plan.join.transport = value;
    if (name == "--timeout") plan.join.timeout = std::chrono::milliseconds(std::atoll(value));
    if (name == "--join-timeout")
      plan.join.join_timeout = std::chrono::milliseconds(std::atoll(value));
    if (name == "--at") plan.at = std::atoll(value);
    if (name == "--act") plan.act = value;
    if (name == "--who") plan.who = std::atoi(value);
  }
  return plan;
}

bool is_actor(const MemberPlan& plan, const op::Group& group) {
  return group.rank() == (plan.who < 0 ? group.size() - 1 : plan.who);
}

/// False if the rank shall end.
bool act(const MemberPlan& plan, op::Group& group, int64_t step) {
  if (step != plan.at || !is_actor(plan, group)) return true;
  if (plan.act == "exit") std::exit(3);
  if (plan.act == "throw") throw InvalidArgument("fit: the loss is nan");
  if (plan.act == "dawdle") {
    group.note_progress("data.next", step);
    std::this_thread::sleep_for(std::chrono::seconds(30));
  }
  return plan.act != "leave";
}

void run(const MemberPlan& plan) {
  const auto cluster = cluster::cluster_from_environment();
  if (!cluster) throw FailedPrecondition("no cluster is configured");
  const auto group = cluster::join(*cluster, plan.join);
  const auto texts = group->gather_texts("start", "rank " + std::to_string(group->rank()));
  if (texts.back() != "rank " + std::to_string(group->size() - 1)) throw DataLoss("wrong texts");
  std::printf("joined %d of %d\n", group->rank(), group->size());
  std::fflush(stdout);
  std::vector<float> values(static_cast<size_t>(plan.count));
  const std::vector<op::Piece> pieces = {{values.data(), plan.count, DType::float32}};
  const int n = group->size();
  try {
    for (int64_t step = 0; step < plan.steps; ++step) {
      if (!act(plan, *group, step)) return;
      group->note_progress("backward", step);
      for (auto& v : values) v = static_cast<float>(group->rank() + step % 3);
      const bool other = plan.act == "differ" && step == plan.at && is_actor(plan, *group);
      group->run({.kind = op::ExchangeKind::sum,
                  .pieces = pieces,
                  .name = other ? "dense/bias" : "dense/kernel"});
      for (const float v : values) {
        if (v != static_cast<float>(n * (n - 1) / 2) + static_cast<float>(n * (step % 3)))
          throw DataLoss("wrong sum");
      }
      if (plan.pause_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(plan.pause_ms));
    }
  } catch (const InvalidArgument& error) {
    group->abort(std::string(error.kind()) + ": " + error.what());
    throw;
  }
  std::printf("done %g\n", values.empty() ? 0.0 : static_cast<double>(values[0]));
}

}  // namespace
}  // namespace tandem

int main(int count, char** words) {
  try {
    tandem::run(tandem::parse(count, words));
  } catch (const tandem::Error& error) {
    std::printf("%s: %s\n", error.kind(), error.what());
    return 1;
  } catch (const std::exception& error) {
    std::printf("exception: %s\n", error.what());
    return 1;
  }
  return 0;
}

#include "function/compile_segment.h"

#include <algorithm>

#include "graph/function_placement.h"

namespace tandem::graph {
namespace {

bool have_exchange_queues(const Replicas& replicas) {
  const auto has_queues = [](const devices::DevicePtr& d) { return !d->works_on_threads(); };
  return std::ranges::all_of(replicas.devices, has_queues) &&
         (!replicas.central || has_queues(replicas.central));
}

Runners runners_of(const Replicas& replicas) {
  Runners runners{replicas.local(), replicas.count(), replicas.group, replicas.agreement};
  runners.first = replicas.first;
  runners.single_threaded = replicas.single_threaded;
  runners.is_hosted = !std::ranges::all_of(
      replicas.devices, [](const devices::DevicePtr& each) { return each->works_on_threads(); });
  runners.have_exchange_queues = have_exchange_queues(replicas);
  runners.bucket_bytes = replicas.bucket_bytes;
  runners.along_model = replicas.along_model;
  runners.along_data = replicas.along_data;
  return runners;
}

}  // namespace

CompiledSegment compile_segment(Graph graph, ReplicasPtr replicas, Executions::Calls calls) {
  for (const devices::DevicePtr& device : replicas->devices) check_kernels(graph, *device);
  if (replicas->central) check_kernels(graph, *replicas->central);
  CompiledSegment segment;
  segment.program = std::make_shared<Program>(std::move(graph), runners_of(*replicas));
  segment.replicas = std::move(replicas);
  segment.executions = std::make_shared<Executions>(segment.program, segment.replicas, calls);
  return segment;
}

std::vector<CompiledSegment> compile_segments(std::vector<Segment> segments,
                                              Executions::Calls calls) {
  std::vector<CompiledSegment> compiled;
  for (Segment& segment : segments) {
    auto one_replica = std::make_shared<Replicas>(Replicas{.devices = {segment.device}});
    compiled.push_back(compile_segment(std::move(segment.graph), std::move(one_replica), calls));
    compiled.back().inputs = std::move(segment.inputs);
  }
  return compiled;
}

}  // namespace tandem::graph

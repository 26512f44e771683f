#include "graph/trace.h"

#include <gtest/gtest.h>

#include "collective/collective.h"
#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::graph {
namespace {

using harness::throws;
using Names = std::vector<std::string>;
using Source = Value::Source;
using TraceTest = harness::FreshDevices;

/// A batch of rows of four floats.
const op::TensorType kBatch{DType::float32, {-1, 4}};

Names ops(const Graph& graph) {
  Names names;
  for (const Node& node : graph.nodes) names.push_back(node.op().name);
  return names;
}

TEST_F(TraceTest, CallsBecomeNodesInTheirOrder) {
  const Graph graph = Trace::of([](const Tensors& a) { return Tensors{relu(a[0]) + a[1]}; },
                                {kBatch, {DType::float32, {4}}});
  ASSERT_EQ(ops(graph), (Names{"relu", "add"}));
  EXPECT_EQ(graph.nodes[0].inputs, (ValueIds{graph.arguments[0]}));
  EXPECT_EQ(graph.nodes[1].inputs, (ValueIds{graph.nodes[0].outputs[0], graph.arguments[1]}));
  EXPECT_EQ(graph.results, graph.nodes[1].outputs);
  EXPECT_EQ(graph.at(graph.results[0]).type, kBatch);
  EXPECT_EQ(graph.at(graph.arguments[1]).source, Source::argument);
}

TEST_F(TraceTest, NothingRunsWhileTracing) {
  const Variable v(Tensor(1.0f));
  Trace::of(
      [&](const Tensors&) {
        v.assign(Tensor(2.0f));
        return Tensors{};
      },
      {});
  EXPECT_EQ(v.value().item<float>(), 1.0f);
  EXPECT_EQ(Trace::current(), nullptr);
}

TEST_F(TraceTest, AVariableReadTwiceIsOneValueUntilItIsAssigned) {
  const Variable v(fill({4}, 1.0));
  const Graph graph = Trace::of(
      [&](const Tensors& a) {
        const Tensor twice = v.value() + v.value();
        v.assign(twice);
        return Tensors{a[0] + v};
      },
      {kBatch});
  ASSERT_EQ(ops(graph), (Names{"read_variable", "add", "assign", "read_variable", "add"}));
  EXPECT_EQ(graph.nodes[1].inputs[0], graph.nodes[1].inputs[1]);
  EXPECT_EQ(graph.nodes[0].ranges, graph.nodes[3].ranges);
}

TEST_F(TraceTest, ATensorOfTheOutsideIsOneConstant) {
  const Tensor c = fill({4}, 3.0);
  const Graph graph =
      Trace::of([&](const Tensors& a) { return Tensors{(a[0] + c) * c}; }, {kBatch});
  EXPECT_EQ(graph.nodes[0].inputs[1], graph.nodes[1].inputs[1]);
  EXPECT_EQ(graph.at(graph.nodes[0].inputs[1]).source, Source::constant);
  EXPECT_EQ(graph.at(graph.nodes[0].inputs[1]).constant.body(), c.body());
}

TEST_F(TraceTest, AGroupOfOneLeavesNoTraceOfDistribution) {
  const auto f = [](const Tensors& a) { return collective::all_reduce({reduce_sum(a[0])}); };
  EXPECT_EQ(ops(Trace::of(f, {kBatch}, 1)), (Names{"reduce"}));
  EXPECT_EQ(ops(Trace::of(f, {kBatch}, 2)), (Names{"reduce", "all_reduce"}));
}

TEST_F(TraceTest, ReplicasAgreeOnWhatToAssignAsTheVariableSays) {
  const auto traced = [](VariableAggregation aggregation) {
    const Variable v(fill({4}, 1.0), {.name = "v", .aggregation = aggregation});
    return ops(Trace::of(
        [&](const Tensors& a) {
          v.assign(reduce_sum(a[0], {.axes = {{0}}}));
          return Tensors{};
        },
        {kBatch}, 2));
  };
  using enum VariableAggregation;
  EXPECT_EQ(traced(sum), (Names{"reduce", "all_reduce", "assign"}));
  EXPECT_EQ(traced(mean), (Names{"reduce", "all_reduce", "fill", "mul", "assign"}));
  EXPECT_EQ(traced(only_first_replica), (Names{"reduce", "broadcast", "assign"}));
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { traced(none); }, {"assign", "'v'", "aggregation", "sum"}));
}

TEST_F(TraceTest, WhatAllReplicasHaveAlikeIsAssignedWithoutAggregation) {
  const Variable total(fill({4}, 1.0), {.name = "total"});
  const Variable steps(Tensor(1.f), {.name = "steps"});
  const auto f = [&](const Tensors& a) {
    const Tensor sum = collective::all_reduce({reduce_sum(a[0], {.axes = {{0}}})})[0];
    total.assign(total.value() * 0.5 + sum);
    steps.assign(steps.value() + 1.0);
    return Tensors{};
  };
  const Names made = ops(Trace::of(f, {kBatch}, 2));
  EXPECT_EQ(std::ranges::count(made, "assign"), 2);
  EXPECT_EQ(std::ranges::count(made, "broadcast"), 0);
}

TEST_F(TraceTest, ShapesThatDoNotFitAreRefusedWhileTracing) {
  EXPECT_TRUE(throws<InvalidArgument>(
      [] { Trace::of([](const Tensors& a) { return Tensors{a[0] + fill({3}, 1.0)}; }, {kBatch}); },
      {"add", "[None,4]", "[3]"}));
  EXPECT_EQ(Trace::current(), nullptr);
}

}  // namespace
}  // namespace tandem::graph

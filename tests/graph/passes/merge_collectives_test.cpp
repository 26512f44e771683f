#include <gtest/gtest.h>

#include <algorithm>

#include "collective/collective.h"
#include "graph/passes/passes.h"
#include "graph/trace.h"
#include "harness/fresh_devices.h"
#include "ops/optimizer.h"
#include "tandem/gradient_tape.h"
#include "tandem/ops.h"
#include "tandem/variable.h"

namespace tandem::graph {
namespace {

using Names = std::vector<std::string>;

class MergeCollectives : public harness::FreshDevices {
 protected:
  static Names ops(const Graph& graph) {
    Names names;
    for (const Node& node : graph.nodes) names.push_back(node.op().name);
    return names;
  }

  /// Three sums, of which the last depends on the first.
  static Graph three_sums() {
    return Trace::of(
        [](const Tensors& a) {
          const Tensor x = collective::all_reduce({reduce_sum(a[0])})[0];
          const Tensor y = collective::all_reduce({reduce_max(a[0])})[0];
          const Tensor z = collective::all_reduce({exp(x)})[0];
          return Tensors{x, y, z};
        },
        {{DType::float32, {-1, 4}}}, 4);
  }

  static Runners runners(int local, size_t bucket_bytes = 1 << 20) {
    Runners result{local, 4, nullptr};
    result.bucket_bytes = bucket_bytes;
    return result;
  }
};

TEST_F(MergeCollectives, SumsThatDoNotDependOnEachOtherAreOneExchange) {
  Graph graph = three_sums();
  merge_collectives(graph, runners(1));
  EXPECT_EQ(ops(graph), (Names{"reduce", "reduce_max", "exchange_sum", "exp", "exchange_sum"}));
  EXPECT_EQ(graph.nodes[2].inputs.size(), 2u);
}

TEST_F(MergeCollectives, ReplicasOfAProcessAreSummedFirstAndGetTheResult) {
  Graph graph = three_sums();
  merge_collectives(graph, runners(2));
  EXPECT_EQ(ops(graph),
            (Names{"reduce", "reduce_max", "reduce_local", "exchange_sum", "spread_local", "exp",
                   "reduce_local", "exchange_sum", "spread_local"}));
  EXPECT_EQ(graph.results[0], graph.nodes[4].outputs[0]);
}

TEST_F(MergeCollectives, LargeGradientsAreExchangedAndUpdatedInParts) {
  const Variable first(zeros({4}), {.name = "first"});
  const Variable second(zeros({4}), {.name = "second"});
  const Variable third(zeros({1}), {.name = "third"});
  const auto update = [&](const Tensors& a) {
    const Tensor g = reduce_sum(a[0], {.axes = {{0}}});
    const Tensor h = reduce_max(a[0], {.axes = {{0}}});
    const Tensor i = reshape(reduce_sum(a[0]), {1});
    ops::apply_update(
        {"sgd_update",
         {{"momentum", 0.0}, {"nesterov", false}, {"every", int64_t{1}}, {"weight_decay", 0.0}}},
        {.gradients = collective::all_reduce({h, g, i}),
         .variables = {second, first, third},
         .rate = Tensor(0.1),
         .step = Tensor(int64_t{0}),
         .condition = Tensor(true)});
    return Tensors{};
  };
  Graph graph = Trace::of(update, {{DType::float32, {-1, 4}}}, 4);
  merge_collectives(graph, runners(1, 8));
  Names names = ops(graph);
  std::erase_if(names, [](const std::string& name) {
    return name != "sgd_update" && !name.starts_with("exchange");
  });
  EXPECT_EQ(names, (Names{"exchange_start", "exchange_start", "exchange_sum", "exchange_finish",
                          "exchange_finish", "sgd_update", "sgd_update", "sgd_update",
                          "exchange_gather"}));
  EXPECT_EQ(graph.nodes.back().ranges.size(), 2u);
}

TEST_F(MergeCollectives, AReadBeforeAnAssignStaysBeforeIt) {
  const Variable v(Tensor(1.0f), {.name = "v", .aggregation = VariableAggregation::sum});
  Graph graph = Trace::of(
      [&](const Tensors& a) {
        const Tensor before = v.value() + 1.0;
        v.assign_add(reduce_sum(a[0]));
        return Tensors{before, v.value()};
      },
      {{DType::float32, {-1, 4}}}, 2);
  merge_collectives(graph, runners(1));
  const Names names = ops(graph);
  const auto at = [&](const char* name) { return std::ranges::find(names, name) - names.begin(); };
  EXPECT_LT(at("read_variable"), at("exchange_sum"));
  EXPECT_LT(at("exchange_sum"), at("assign_add"));
  EXPECT_EQ(names.back(), "read_variable");
}

TEST_F(MergeCollectives, WhatIsTheSameEverywhereIsNotTold) {
  const Variable first(Tensor(1.0f),
                       {.name = "v", .aggregation = VariableAggregation::only_first_replica});
  const Variable mean(Tensor(1.0f), {.name = "w", .aggregation = VariableAggregation::mean});
  const auto assigns = [&](const std::function<Tensor(const Tensor&)>& value) {
    Graph graph = Trace::of(
        [&](const Tensors& a) {
          first.assign(value(a[0]));
          mean.assign(value(a[0]));
          return Tensors{};
        },
        {{DType::float32, {-1, 4}}}, 4);
    make_smaller(graph);
    drop_needless_collectives(graph, 4);
    return ops(graph);
  };
  const Names same = assigns(
      [&](const Tensor& x) { return collective::all_reduce({reduce_sum(x)})[0] + mean.value(); });
  EXPECT_EQ(std::ranges::count(same, "broadcast"), 0);
  EXPECT_EQ(std::ranges::count(same, "all_reduce"), 2);  // The two sums themselves.
  const Names own = assigns([](const Tensor& x) { return reduce_sum(x); });
  EXPECT_EQ(std::ranges::count(own, "broadcast"), 1);
  EXPECT_EQ(std::ranges::count(own, "all_reduce"), 1);
}

TEST_F(MergeCollectives, ASumThatAllUseAlikeHasTheGradientOfOne) {
  const auto sums = [](collective::SumGradient rule) {
    const Graph graph = Trace::of(
        [&](const Tensors& a) {
          GradientTape tape;
          tape.watch(a[0]);
          const Tensor sum =
              collective::all_reduce({reduce_sum(a[0])}, collective::Axis::all, rule)[0];
          return Tensors{tape.gradient(sum, a[0])};
        },
        {{DType::float32, {-1, 4}}}, 2);
    return std::ranges::count(ops(graph), "all_reduce");
  };
  EXPECT_EQ(sums(collective::SumGradient::same), 1);
  EXPECT_EQ(sums(collective::SumGradient::sum), 2);
}

}  // namespace
}  // namespace tandem::graph

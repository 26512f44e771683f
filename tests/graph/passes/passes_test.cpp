#include "graph/passes/passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "collective/collective.h"
#include "graph/trace.h"
#include "harness/fresh_devices.h"
#include "ops/optimizer.h"
#include "tandem/ops.h"

namespace tandem::graph {
namespace {

using Names = std::vector<std::string>;
using Floats = std::vector<float>;
using Source = Value::Source;

/// A batch of rows of four floats.
const op::TensorType kBatch{DType::float32, {-1, 4}};

Tensor constant(const Floats& values) {
  return Tensor::from(values, {static_cast<int64_t>(values.size())});
}

class PassesTest : public harness::FreshDevices {
 protected:
  static Names ops(const Graph& graph) {
    Names names;
    for (const Node& node : graph.nodes) names.push_back(node.op().name);
    return names;
  }
  static const Value& result(const Graph& graph, size_t i = 0) {
    return graph.at(graph.results[i]);
  }
};

// ---- fold_constants ----

TEST_F(PassesTest, CallsOfConstantsAreMadeAtOnce) {
  const Tensor c = constant({1, 2, 3, 4});
  Graph graph = Trace::of([&](const Tensors& a) { return Tensors{a[0] + relu(c * c)}; }, {kBatch});
  EXPECT_EQ(ops(graph), (Names{"mul", "relu", "add"}));
  fold_constants(graph);
  ASSERT_EQ(ops(graph), (Names{"add"}));
  const Value& folded = graph.at(graph.nodes[0].inputs[1]);
  EXPECT_EQ(folded.source, Source::constant);
  EXPECT_EQ(folded.constant.to_vector<float>(), (Floats{1, 4, 9, 16}));
}

TEST_F(PassesTest, NumbersInAnExpressionBecomeConstants) {
  Graph graph = Trace::of([](const Tensors& a) { return Tensors{a[0] * 2.5}; }, {kBatch});
  EXPECT_EQ(ops(graph), (Names{"fill", "mul"}));
  fold_constants(graph);
  ASSERT_EQ(ops(graph), (Names{"mul"}));
  EXPECT_EQ(graph.at(graph.nodes[0].inputs[1]).constant.item<float>(), 2.5f);
}

TEST_F(PassesTest, WhatFollowsTheBatchOrTheRunIsNotFolded) {
  const Tensor c = constant({1, 2, 3, 4});
  const Variable v(c);
  Graph graph = Trace::of(
      [&](const Tensors& a) {
        v.assign(c);
        return Tensors{fill(a[0].shape(), 1.0), random_normal({4}), c + v, a[0] + c};
      },
      {kBatch});
  const Names before = ops(graph);
  fold_constants(graph);
  EXPECT_EQ(ops(graph), before);
}

// ---- simplify_algebra ----

TEST_F(PassesTest, NeutralNumbersAreBypassed) {
  Graph graph = Trace::of(
      [](const Tensors& a) { return Tensors{relu(((a[0] + 0.0) * 1.0 - 0.0))}; }, {kBatch});
  fold_constants(graph);
  simplify_algebra(graph);
  remove_dead_code(graph);
  ASSERT_EQ(ops(graph), (Names{"relu"}));
  EXPECT_EQ(graph.nodes[0].inputs[0], graph.arguments[0]);
}

TEST_F(PassesTest, ANeutralNumberThatGivesTheShapeStays) {
  Graph graph = Trace::of(
      [](const Tensors& a) {
        const Tensor total = reduce_sum(a[0]);
        return Tensors{total + fill({3}, 0.0)};
      },
      {kBatch});
  simplify_algebra(graph);
  remove_dead_code(graph);
  EXPECT_EQ(ops(graph), (Names{"reduce", "fill", "add"}));
}

TEST_F(PassesTest, RepeatingForALargerOperandIsLeftToIt) {
  Graph graph = Trace::of(
      [](const Tensors& a) {
        const Tensor total = reduce_sum(a[0], {.axes = {{0}}});
        return Tensors{a[0] * broadcast_to(total, a[0].shape()) * fill(a[0].shape(), 2.0)};
      },
      {kBatch});
  simplify_algebra(graph);
  remove_dead_code(graph);
  ASSERT_EQ(ops(graph), (Names{"reduce", "mul", "mul"}));
  EXPECT_EQ(graph.nodes[1].signature.inputs[1].shape, (Shape{4}));
  EXPECT_EQ(graph.at(graph.nodes[2].inputs[1]).constant.item<float>(), 2.0f);
}

TEST_F(PassesTest, ReshapesToTheSameShapeAreBypassed) {
  Graph graph = Trace::of(
      [](const Tensors& a) {
        return Tensors{relu(reshape(a[0], {-1, 4}))};
      },
      {kBatch});
  simplify_algebra(graph);
  remove_dead_code(graph);
  EXPECT_EQ(ops(graph), (Names{"relu"}));
}

TEST_F(PassesTest, NeutralNumbersAndWhatUndoesItselfAreBypassed) {
  const op::TensorType whole{DType::int32, {-1, 4}};
  Graph graph = Trace::of(
      [](const Tensors& a) {
        return Tensors{
            relu(a[0] / fill(a[0].shape(), 1.0)),
            relu(neg(neg(a[0]))),
            relu(transpose(transpose(a[0], {1, 0}), {1, 0})),
            relu(broadcast_to(a[0], a[0].shape())),
            square(a[1] * fill({}, 1, DType::int32) + fill({}, 0, DType::int32)),
        };
      },
      {kBatch, whole});
  simplify_algebra(graph);
  remove_dead_code(graph);
  EXPECT_EQ(ops(graph), (Names{"relu", "relu", "relu", "relu", "square"}));
}

TEST_F(PassesTest, TransposesThatDoNotUndoEachOtherStay) {
  Graph graph = Trace::of(
      [](const Tensors& a) {
        return Tensors{transpose(transpose(a[0], {1, 2, 0}), {1, 2, 0})};
      },
      {{DType::float32, {4, 4, 4}}});
  simplify_algebra(graph);
  EXPECT_EQ(ops(graph), (Names{"transpose", "transpose"}));
}

// ---- merge_equal_calls ----

TEST_F(PassesTest, EqualCallsAreMadeOnce) {
  Graph graph = Trace::of(
      [](const Tensors& a) {
        return Tensors{relu(a[0]) * relu(a[0]), relu(a[0] + a[0]) + relu(a[0] + a[0])};
      },
      {kBatch});
  merge_equal_calls(graph);
  EXPECT_EQ(ops(graph), (Names{"relu", "mul", "add", "relu", "add"}));
  EXPECT_EQ(graph.nodes[1].inputs[0], graph.nodes[1].inputs[1]);
}

TEST_F(PassesTest, EqualCallsWithEqualNumbersAreMadeOnce) {
  Graph graph = Trace::of(
      [](const Tensors& a) {
        return Tensors{reduce_sum(a[0] * 2.0), reduce_max(a[0] * 2.0), reduce_sum(a[0] * 3.0)};
      },
      {kBatch});
  optimize(graph);
  EXPECT_EQ(std::ranges::count(ops(graph), "mul"), 2);
}

TEST_F(PassesTest, RandomCallsAndOtherAttributesAreNotEqual) {
  Graph graph = Trace::of(
      [](const Tensors& a) {
        const Tensor sums = reduce_sum(a[0], {.axes = {{0}}}) + reduce_mean(a[0], {.axes = {{0}}});
        return Tensors{random_normal({4}) + random_normal({4}), sums};
      },
      {kBatch});
  const Names before = ops(graph);
  merge_equal_calls(graph);
  EXPECT_EQ(ops(graph), before);
}

TEST_F(PassesTest, AReadAfterAnAssignIsAnotherValue) {
  const Variable v(constant({1, 2, 3, 4}));
  Graph graph = Trace::of(
      [&](const Tensors& a) {
        const Tensor before = relu(v);
        v.assign(constant({5, 6, 7, 8}));
        return Tensors{before + relu(v) + a[0]};
      },
      {kBatch});
  merge_equal_calls(graph);
  EXPECT_EQ(std::ranges::count(ops(graph), "relu"), 2);
}

// ---- alias_reshapes ----

TEST_F(PassesTest, ReshapesBecomeViews) {
  Graph graph = Trace::of(
      [](const Tensors& a) {
        const Tensor flat = reshape(relu(a[0]), {-1});
        return Tensors{relu(reshape(flat, {-1, 2, 2}))};
      },
      {kBatch});
  alias_reshapes(graph);
  ASSERT_EQ(ops(graph), (Names{"relu", "relu"}));
  const ValueId view = graph.nodes[1].inputs[0];
  EXPECT_EQ(graph.at(view).source, Source::alias);
  EXPECT_EQ(graph.at(view).type.shape, (Shape{-1, 2, 2}));
  EXPECT_EQ(graph.storage_of(view), graph.nodes[0].outputs[0]);
}

// ---- elide_reads ----

TEST_F(PassesTest, AReadIsTheVariablesOwnMemory) {
  const Variable v(constant({1, 2, 3, 4}));
  Graph graph = Trace::of([&](const Tensors& a) { return Tensors{a[0] + v}; }, {kBatch});
  EXPECT_EQ(ops(graph), (Names{"read_variable", "add"}));
  elide_reads(graph);
  ASSERT_EQ(ops(graph), (Names{"add"}));
  const Value& memory = graph.at(graph.storage_of(graph.nodes[0].inputs[1]));
  EXPECT_EQ(memory.source, Source::range);
  EXPECT_EQ(memory.range, v.body()->range);
}

TEST_F(PassesTest, AReadBeforeTheLastUseThatAnAssignPrecedesStays) {
  const Variable v(constant({1, 2, 3, 4}));
  Graph graph = Trace::of(
      [&](const Tensors& a) {
        const Tensor before = v.value();
        v.assign(constant({5, 6, 7, 8}));
        return Tensors{a[0] + before};
      },
      {kBatch});
  elide_reads(graph);
  EXPECT_EQ(ops(graph), (Names{"read_variable", "assign", "add"}));
}

TEST_F(PassesTest, AReadWhoseViewIsUsedAfterAnAssignStays) {
  const Variable v(constant({1, 2, 3, 4}));
  Graph graph = Trace::of(
      [&](const Tensors& a) {
        const Tensor view = reshape(v, {2, 2});
        v.assign_add(constant({5, 6, 7, 8}));
        return Tensors{reduce_sum(a[0]) + view};
      },
      {kBatch});
  alias_reshapes(graph);
  elide_reads(graph);
  EXPECT_EQ(ops(graph), (Names{"read_variable", "assign_add", "reduce", "add"}));
}

TEST_F(PassesTest, AReadWhoseLastUseComesBeforeTheAssignIsElided) {
  const Variable v(constant({1, 2, 3, 4}));
  Graph graph = Trace::of(
      [&](const Tensors& a) {
        const Tensor sum = a[0] + v;
        v.assign(constant({5, 6, 7, 8}));
        return Tensors{sum};
      },
      {kBatch});
  elide_reads(graph);
  EXPECT_EQ(ops(graph), (Names{"add", "assign"}));
}

TEST_F(PassesTest, AReadThatIsReturnedStaysOnlyIfTheVariableChangesAfterIt) {
  const Variable v(constant({1, 2, 3, 4}));
  Graph graph = Trace::of(
      [&](const Tensors&) {
        const Tensor before = v.value();
        v.assign(constant({5, 6, 7, 8}));
        return Tensors{before, v.value()};
      },
      {});
  elide_reads(graph);
  EXPECT_EQ(ops(graph), (Names{"read_variable", "assign"}));
  EXPECT_EQ(result(graph, 0).source, Source::node);
  EXPECT_EQ(result(graph, 1).source, Source::alias);
}

TEST_F(PassesTest, AnAssignOfAnotherVariableChangesNothing) {
  const Variable v(constant({1, 2, 3, 4}));
  const Variable other(constant({1, 2, 3, 4}));
  Graph graph = Trace::of(
      [&](const Tensors& a) {
        const Tensor before = v.value();
        other.assign(constant({5, 6, 7, 8}));
        return Tensors{a[0] + before};
      },
      {kBatch});
  elide_reads(graph);
  EXPECT_EQ(ops(graph), (Names{"assign", "add"}));
}

// ---- copy_shared_results ----

TEST_F(PassesTest, AResultWithACallOfItsOwnIsNotCopied) {
  Graph graph = Trace::of([](const Tensors& a) { return Tensors{relu(a[0])}; }, {kBatch});
  copy_shared_results(graph);
  EXPECT_EQ(ops(graph), (Names{"relu"}));
}

TEST_F(PassesTest, ArgumentsConstantsAndValuesReturnedTwiceAreCopied) {
  const Tensor c = constant({1, 2});
  Graph graph = Trace::of(
      [&](const Tensors& a) {
        const Tensor y = relu(a[0]);
        return Tensors{y, y, a[0], c};
      },
      {kBatch});
  copy_shared_results(graph);
  EXPECT_EQ(ops(graph), (Names{"relu", "reshape", "reshape", "reshape"}));
  for (size_t i = 0; i < graph.results.size(); ++i) {
    EXPECT_EQ(result(graph, i).source, Source::node) << i;
    EXPECT_EQ(std::ranges::count(graph.results, graph.results[i]), 1) << i;
  }
  EXPECT_EQ(result(graph, 2).type, kBatch);
  EXPECT_EQ(result(graph, 3).type.shape, (Shape{2}));
}

TEST_F(PassesTest, VariablesAndViewsAreCopied) {
  const Variable v(constant({1, 2, 3, 4}));
  Graph graph = Trace::of(
      [&](const Tensors& a) {
        return Tensors{v.value(), reshape(relu(a[0]), {-1})};
      },
      {kBatch});
  alias_reshapes(graph);
  elide_reads(graph);
  EXPECT_EQ(ops(graph), (Names{"relu"}));
  copy_shared_results(graph);
  EXPECT_EQ(ops(graph), (Names{"relu", "reshape", "reshape"}));
  EXPECT_EQ(result(graph, 1).type.shape, (Shape{-4}));
}

// ---- shard_updates ----

const ops::UpdateRule kSgd = {
    "sgd_update",
    {{"momentum", 0.0}, {"nesterov", false}, {"weight_decay", 0.0}, {"every", int64_t{1}}}};

/// A step of SGD with the sum of a gradient over two replicas.
Graph update_graph(const std::function<Tensors(const Tensor& sum)>& results) {
  const Variable weights(constant({1, 2, 3, 4}));
  return Trace::of(
      [&](const Tensors& a) {
        const Tensors sum = collective::all_reduce({reduce_sum(a[0], {.axes = {{0}}})});
        ops::apply_update(kSgd, {.gradients = sum,
                                 .variables = {weights},
                                 .rate = Tensor(0.1),
                                 .step = Tensor(int64_t{0}),
                                 .condition = Tensor(true)});
        return results(sum[0]);
      },
      {kBatch}, 2);
}

TEST_F(PassesTest, ASumThatOnlyAnUpdateUsesIsScattered) {
  Graph graph = update_graph([](const Tensor&) { return Tensors{}; });
  EXPECT_EQ(ops(graph), (Names{"reduce", "all_reduce", "sgd_update"}));
  shard_updates(graph);
  EXPECT_EQ(ops(graph), (Names{"reduce", "reduce_scatter", "sgd_update"}));
}

TEST_F(PassesTest, ASumThatIsReturnedStaysWhole) {
  Graph graph = update_graph([](const Tensor& sum) { return Tensors{reshape(sum, {2, 2})}; });
  alias_reshapes(graph);
  shard_updates(graph);
  EXPECT_EQ(ops(graph), (Names{"reduce", "all_reduce", "sgd_update"}));
}

TEST_F(PassesTest, ASumThatAnotherCallUsesStaysWhole) {
  Graph graph = update_graph([](const Tensor& sum) { return Tensors{relu(sum)}; });
  shard_updates(graph);
  EXPECT_EQ(ops(graph), (Names{"reduce", "all_reduce", "sgd_update", "relu"}));
}

// ---- remove_dead_code ----

TEST_F(PassesTest, CallsThatNobodyUsesAreRemoved) {
  Graph graph = Trace::of(
      [](const Tensors& a) {
        const Tensor unused = relu(a[0] * a[0]);
        relu(unused);
        return Tensors{a[0] + a[0]};
      },
      {kBatch});
  EXPECT_EQ(graph.nodes.size(), 4u);
  remove_dead_code(graph);
  EXPECT_EQ(ops(graph), (Names{"add"}));
}

TEST_F(PassesTest, WhatAnAssignNeedsIsKeptInOrder) {
  const Variable v(constant({1, 2, 3, 4}));
  Graph graph = Trace::of(
      [&](const Tensors& a) {
        const Tensor sum = reduce_sum(relu(a[0]), {.axes = {{0}}});
        a[0] * a[0];
        v.assign(sum);
        return Tensors{};
      },
      {kBatch});
  remove_dead_code(graph);
  EXPECT_EQ(ops(graph), (Names{"relu", "reduce", "assign"}));
}

TEST_F(PassesTest, WhatAViewThatIsReturnedNeedsIsKept) {
  Graph graph =
      Trace::of([](const Tensors& a) { return Tensors{reshape(relu(a[0]), {-1})}; }, {kBatch});
  alias_reshapes(graph);
  remove_dead_code(graph);
  EXPECT_EQ(ops(graph), (Names{"relu"}));
}

TEST_F(PassesTest, CollectivesAreKeptSinceOtherReplicasWaitForThem) {
  Graph graph = Trace::of(
      [](const Tensors& a) {
        collective::all_reduce({reduce_sum(a[0])});
        return Tensors{};
      },
      {kBatch}, 2);
  remove_dead_code(graph);
  EXPECT_EQ(ops(graph), (Names{"reduce", "all_reduce"}));
}

// ---- free_early ----

const op::TensorType kLargeBatch{DType::float32, {-1, 1024}};

TEST_F(PassesTest, AResultIsMadeJustBeforeItIsNeeded) {
  Graph graph = Trace::of(
      [](const Tensors& a) {
        const Tensor early = exp(a[0]);
        const Tensor other = tanh(sin(a[0]));
        return Tensors{other + early};
      },
      {kLargeBatch});
  free_early(graph);
  EXPECT_EQ(ops(graph), (Names{"sin", "tanh", "exp", "add"}));
}

TEST_F(PassesTest, ACallThatFreesItsInputsIsNotDelayed) {
  Graph graph = Trace::of(
      [](const Tensors& a) {
        const Tensor sum = reduce_sum(exp(a[0]));  // Nobody else uses the exponentials.
        const Tensor other = reduce_sum(tanh(sin(a[0])));
        return Tensors{other + sum};
      },
      {kLargeBatch});
  const Names before = ops(graph);
  free_early(graph);
  EXPECT_EQ(ops(graph), before);
}

TEST_F(PassesTest, NoCallMovesPastAnAssign) {
  const Variable v(ones({1024}));
  Graph graph = Trace::of(
      [&](const Tensors& a) {
        const Tensor old = a[0] * v.value();
        v.assign(v.value() * 2.0);
        return Tensors{tanh(a[0]) + old};
      },
      {kLargeBatch});
  const Names before = ops(graph);
  free_early(graph);
  EXPECT_EQ(ops(graph), before);
}

}  // namespace
}  // namespace tandem::graph

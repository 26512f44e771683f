#include "graph/program.h"

#include <gtest/gtest.h>

#include <map>

#include "collective/collective.h"
#include "graph/passes/passes.h"
#include "graph/trace.h"
#include "harness/fresh_devices.h"
#include "ops/optimizer.h"
#include "tandem/ops.h"

namespace tandem::graph {
namespace {

using Source = Value::Source;
using ProgramTest = harness::FreshDevices;

/// A batch of rows of four floats.
const op::TensorType kBatch{DType::float32, {-1, 4}};

/// The buffer of the first output of each node.
std::vector<int> buffers(const Graph& graph) {
  const MemoryAssignment memory = assign_memory(graph);
  std::vector<int> buffers;
  for (const Node& node : graph.nodes) {
    buffers.push_back(memory.buffer_of[node.outputs[0]]);
  }
  return buffers;
}

TEST_F(ProgramTest, OnlyWhatIsComputedOnTheWayLiesInTheArena) {
  const Tensor c = fill({4}, 2.0);
  const Variable v(c);
  Graph graph = Trace::of([&](const Tensors& a) { return Tensors{relu(a[0] + c) * v}; }, {kBatch});
  elide_reads(graph);
  const MemoryAssignment memory = assign_memory(graph);
  for (ValueId value : graph.values.ids()) {
    const bool inside = graph.at(value).source == Source::node && value != graph.results[0];
    EXPECT_EQ(memory.buffer_of[value] >= 0, inside) << index_of(value);
  }
}

TEST_F(ProgramTest, AnElementwiseResultLiesWhereItsInputLay) {
  const Graph graph = Trace::of(
      [](const Tensors& a) { return Tensors{reduce_sum(relu(relu(a[0]) + a[0]))}; }, {kBatch});
  const std::vector<int> at = buffers(graph);  // relu, add, relu, reduce
  EXPECT_GE(at[0], 0);
  EXPECT_EQ(at[1], at[0]);
  EXPECT_EQ(at[2], at[0]);
}

TEST_F(ProgramTest, AnInputThatIsUsedAgainKeepsItsMemory) {
  const Graph graph = Trace::of(
      [](const Tensors& a) {
        const Tensor x = relu(a[0]);
        const Tensor y = relu(x);
        return Tensors{reduce_sum(x * y)};
      },
      {kBatch});
  const std::vector<int> at = buffers(graph);  // relu, relu, mul, reduce
  EXPECT_NE(at[1], at[0]);
}

TEST_F(ProgramTest, AnInputThatIsUsedAgainThroughAViewKeepsItsMemory) {
  Graph graph = Trace::of(
      [](const Tensors& a) {
        const Tensor x = relu(a[0]);
        const Tensor view = reshape(x, {-1});
        const Tensor y = relu(x);
        return Tensors{reduce_sum(view), reduce_sum(y)};
      },
      {kBatch});
  alias_reshapes(graph);
  const std::vector<int> at = buffers(graph);  // relu, relu, reduce, reduce
  EXPECT_NE(at[1], at[0]);
}

TEST_F(ProgramTest, AnInputThatIsRepeatedIsNotOverwritten) {
  const Graph graph = Trace::of(
      [](const Tensors& a) {
        const Tensor row = relu(reduce_sum(a[0], {.axes = {{0}}}));
        return Tensors{reduce_sum(row + a[0])};
      },
      {kBatch});
  const std::vector<int> at = buffers(graph);  // reduce, relu, add, reduce
  EXPECT_NE(at[2], at[1]);
}

/// Products of a batch with three matrices in turn; the last is the result.
Graph product_graph(int64_t width) {
  const Tensor w = fill({width, width}, 1.0);
  return Trace::of(
      [&](const Tensors& a) { return Tensors{matmul(matmul(matmul(matmul(a[0], w), w), w), w)}; },
      {{DType::float32, {-1, width}}});
}

TEST_F(ProgramTest, LargeValuesThatNeverLiveTogetherShareABuffer) {
  const std::vector<int> at = buffers(product_graph(512));
  EXPECT_NE(at[0], at[1]);
  EXPECT_EQ(at[2], at[0]);
  EXPECT_EQ(at[3], -1);
}

TEST_F(ProgramTest, SmallValuesGetABufferEach) {
  const std::vector<int> at = buffers(product_graph(4));
  EXPECT_NE(at[0], at[1]);
  EXPECT_NE(at[1], at[2]);
  EXPECT_NE(at[0], at[2]);
}

TEST_F(ProgramTest, ValuesThatLiveTogetherNeverShareABuffer) {
  const Tensor w = fill({512, 512}, 0.1);
  const Variable v(fill({512, 512}, 0.1));
  const Graph graph = Trace::of(
      [&](const Tensors& a) {
        const Tensor h1 = relu(matmul(a[0], v));
        const Tensor h2 = relu(matmul(h1, w) + h1);
        const Tensor h3 = matmul(h2, v) * matmul(h1, w) - h2;
        const Tensor step = matmul(h1, h3, {.transpose_a = true});
        v.assign_sub(step);
        return Tensors{reduce_sum(h3 * a[0]), h2};
      },
      {{DType::float32, {-1, 512}}});
  const MemoryAssignment memory = assign_memory(graph);

  std::map<ValueId, std::pair<int, int>> life;  // By value: where it is written and last read.
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const int now = static_cast<int>(i);
    for (ValueId output : graph.nodes[i].outputs) life[output] = {now, now};
    for (ValueId input : graph.nodes[i].inputs) {
      if (life.contains(input)) life[input].second = now;
    }
  }
  size_t shared = 0;
  for (const ValueIds& values : memory.values) {
    for (size_t i = 1; i < values.size(); ++i) {
      const int before = life[values[i - 1]].second;
      const int after = life[values[i]].first;
      const bool takes_over = graph.nodes[static_cast<size_t>(after)].op().in_place;
      EXPECT_TRUE(before < after || (before == after && takes_over))
          << index_of(values[i - 1]) << " is still read when " << index_of(values[i])
          << " is written";
      ++shared;
    }
  }
  EXPECT_GE(shared, 3u);
}

/// "relu | reduce" where a barrier stands between the two, "||" for one of all replicas.
std::string barriers(const Program& program) {
  std::string text;
  for (const Instruction& instruction : program.instructions()) {
    if (instruction.barrier == BarrierScope::subteam) text += "| ";
    if (instruction.barrier == BarrierScope::team) text += "|| ";
    text += instruction.node.op().name + " ";
  }
  text.pop_back();
  return text;
}

template <class F>
std::string barriers(const F& f, int replicas = 1, const op::TensorType& argument = kBatch) {
  return barriers(Program(Trace::of(f, {argument}, replicas), replicas));
}

TEST_F(ProgramTest, CallsByRowsNeedNoBarrier) {
  const Tensor w = fill({4, 4}, 1.0);
  const auto f = [&](const Tensors& a) {
    return Tensors{reduce_sum(relu(matmul(relu(a[0]), w) + a[0]), {.axes = {{1}}})};
  };
  EXPECT_EQ(barriers(f), "relu fused_matmul reduce");
  EXPECT_EQ(barriers(f, 2), "relu fused_matmul reduce");
}

TEST_F(ProgramTest, ASumOverRowsWaitsForAllOfThem) {
  const auto f = [](const Tensors& a) { return Tensors{reduce_sum(relu(a[0]), {.axes = {{0}}})}; };
  EXPECT_EQ(barriers(f), "relu | reduce");
  EXPECT_EQ(barriers(f, 2), "relu | reduce");
}

TEST_F(ProgramTest, AnInputThatEachThreadReadsAsAWholeIsWaitedForAlsoWhereTheSplitsAreAlike) {
  const op::TensorType square{DType::float32, {16, 16}};
  const auto of = [&](Tensor (*f)(const Tensor& x, const Tensor& y)) {
    return barriers([&](const Tensors& a) { return Tensors{f(relu(a[0]), a[0])}; }, 1, square);
  };
  EXPECT_EQ(of([](const Tensor& x, const Tensor& y) { return matmul(x, y); }), "relu matmul");
  EXPECT_EQ(of([](const Tensor& x, const Tensor& y) { return matmul(y, x); }), "relu | matmul");
  EXPECT_EQ(
      of([](const Tensor& x, const Tensor& y) { return matmul(x, y, {.transpose_a = true}); }),
      "relu | matmul");
  EXPECT_EQ(of([](const Tensor& x, const Tensor&) { return reduce_sum(x, {.axes = {{0}}}); }),
            "relu | reduce");
  EXPECT_EQ(of([](const Tensor& x, const Tensor&) { return reduce_sum(x, {.axes = {{1}}}); }),
            "relu reduce");
}

TEST_F(ProgramTest, SmallCallsOneAfterAnotherAreOneThreadsAndNeedNoBarrier) {
  const Variable v(fill({2}, 0.0)), w(fill({2}, 0.0));
  const auto f = [&](const Tensors& a) {
    const Tensor sums = reduce_sum(a[0], {.axes = {{0}}});
    const Tensor norm = reduce_sum(sums);
    v.assign_add(stack({norm, reduce_max(sums)}, 0));
    w.assign_add(v.value());
    return Tensors{relu(a[0] * norm)};
  };
  EXPECT_EQ(barriers(f), "reduce | reduce reduce_max concat assign_add assign_add | fused");
}

TEST_F(ProgramTest, SmallCallsOfReplicasOnSharedVariablesKeepTheirBarriers) {
  const Variable v(fill({2}, 0.0), {.aggregation = VariableAggregation::only_first_replica});
  const auto f = [&](const Tensors&) {
    v.assign_add(fill({2}, 1.0));
    return Tensors{v.value() * 2.0};
  };
  EXPECT_EQ(barriers(f), "assign_add mul");
  EXPECT_EQ(barriers(f, 2), "assign_add || mul");
}

TEST_F(ProgramTest, OneBarrierServesAllThatWasWrittenBefore) {
  const auto f = [](const Tensors& a) {
    const Tensor x = relu(a[0]);
    const Tensor y = a[0] * a[0];
    const Tensor product = matmul(x, y, {.transpose_a = true});
    const Tensor sum = reduce_sum(x, {.axes = {{0}}});
    return Tensors{product, sum};
  };
  EXPECT_EQ(barriers(f), "relu mul | matmul reduce");
}

TEST_F(ProgramTest, ArgumentsAreThereFromTheStart) {
  EXPECT_EQ(barriers([](const Tensors& a) { return Tensors{reduce_sum(a[0])}; }), "reduce");
}

TEST_F(ProgramTest, AVariableIsWrittenOnceAllHaveReadIt) {
  const Variable v(fill({4, 4}, 1.0));
  const Tensor next = fill({4, 4}, 2.0);
  const auto f = [&](const Tensors& a) {
    const Tensor product = matmul(a[0], v);
    v.assign(next);
    return Tensors{product};
  };
  EXPECT_EQ(barriers(f), "matmul | assign");
}

TEST_F(ProgramTest, AVariableIsReadOnceAllHaveWrittenIt) {
  const Variable v(fill({4, 4}, 1.0));
  const Tensor next = fill({4, 4}, 2.0);
  const auto f = [&](const Tensors& a) {
    v.assign(next);
    return Tensors{matmul(a[0], v)};
  };
  EXPECT_EQ(barriers(f), "assign | matmul");
}

/// A step of SGD, with momentum where there are slots.
void update(const Variables& variables, const std::vector<Variables>& slots = {}) {
  const op::Attrs attrs = {{"momentum", slots.empty() ? 0.0 : 0.9},
                           {"nesterov", false},
                           {"weight_decay", 0.0},
                           {"every", int64_t{1}}};
  Tensors gradients;
  for (const Variable& variable : variables) gradients.push_back(fill(variable.shape(), 2.0));
  ops::apply_update({"sgd_update", attrs}, {.gradients = gradients,
                                            .variables = variables,
                                            .slots = slots,
                                            .rate = Tensor(0.1),
                                            .step = Tensor(int64_t{0}),
                                            .condition = Tensor(true)});
}

TEST_F(ProgramTest, UpdatesOfTheSameVariablesNeedABarrierUnlessTheyTakeThemInTheSameOrder) {
  const Variable v(fill({100}, 1.0)), w(fill({300}, 1.0));
  EXPECT_EQ(barriers([&](const Tensors&) {
              update({v, w});
              update({v, w});
              return Tensors{};
            }),
            "sgd_update sgd_update");
  EXPECT_EQ(barriers([&](const Tensors&) {
              update({v, w});
              update({w, v});
              return Tensors{};
            }),
            "sgd_update | sgd_update");
}

TEST_F(ProgramTest, SlotsDoNotCountWhereAVariableBeginsInAnUpdate) {
  const Variable s(fill({50}, 1.0)), t(fill({50}, 1.0)), v(fill({100}, 1.0)), w(fill({300}, 1.0));
  const Variables like_s = {Variable(fill({50}, 0.0))}, like_t = {Variable(fill({50}, 0.0))},
                  like_v = {Variable(fill({100}, 0.0))}, like_w = {Variable(fill({300}, 0.0))};
  EXPECT_EQ(barriers([&](const Tensors&) {
              update({v, w});
              update({v, w}, {like_v, like_w});
              return Tensors{};
            }),
            "sgd_update sgd_update");
  // The elements before w are 100, and then 50 with a slot of 50.
  EXPECT_EQ(barriers([&](const Tensors&) {
              update({v, w});
              update({s, w, t}, {like_s, like_w, like_t});
              return Tensors{};
            }),
            "sgd_update | sgd_update");
}

TEST_F(ProgramTest, ReplicasMeetBeforeACollectiveAndBeforeItsOperandsChangeAgain) {
  const auto f = [](const Tensors& a) {
    const Tensor sum = collective::all_reduce({reduce_sum(relu(a[0]), {.axes = {{0}}})})[0];
    return Tensors{relu(sum)};
  };
  EXPECT_EQ(barriers(f, 2), "relu | reduce || all_reduce || relu");
}

TEST_F(ProgramTest, ReplicasMeetBeforeAndAfterTheUpdateOfASharedVariable) {
  const Variable v(fill({4}, 2.0), {.aggregation = VariableAggregation::sum});
  const auto f = [&](const Tensors& a) {
    const Tensor y = a[0] + v;
    v.assign(reduce_sum(a[0], {.axes = {{0}}}));
    return Tensors{y, a[0] * v};
  };
  const Program program(Trace::of(f, {kBatch}, 2), 2);
  EXPECT_EQ(barriers(program), "add reduce || all_reduce || assign || mul");
}

TEST_F(ProgramTest, ASharedVariableIsUpdatedByTheThreadsOfAllReplicas) {
  const Variable v(fill({4}, 2.0), {.aggregation = VariableAggregation::sum});
  const auto f = [&](const Tensors& a) {
    v.assign(reduce_sum(a[0], {.axes = {{0}}}));
    return Tensors{};
  };
  for (int replicas : {1, 2}) {
    const Program program(Trace::of(f, {kBatch}, replicas), replicas);
    const Instruction& assign = program.instructions().back();
    ASSERT_EQ(assign.node.op().name, "assign");
    EXPECT_EQ(assign.whole_team, replicas == 2);
  }
}

}  // namespace
}  // namespace tandem::graph

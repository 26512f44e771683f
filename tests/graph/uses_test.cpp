#include "graph/uses.h"

#include <gtest/gtest.h>

#include "graph/passes/passes.h"
#include "graph/trace.h"
#include "harness/fresh_devices.h"
#include "tandem/tandem.h"

namespace tandem::graph {
namespace {

const op::TensorType kBatch{DType::float32, {-1, 4}};

class UsesTest : public harness::FreshDevices {
 protected:
  using Calls = std::vector<size_t>;

  static Calls calls(const Uses& uses, ValueId value) {
    Calls calls;
    for (const Use& use : uses.of(value)) calls.push_back(use.call);
    return calls;
  }
};

TEST_F(UsesTest, EachOperandIsAUseAndResultsComeLast) {
  const Graph graph = Trace::of(
      [](const Tensors& a) {
        const Tensor y = relu(a[0]);
        return Tensors{y, y * y, neg(a[0])};
      },
      {kBatch});
  const Uses uses(graph);
  const ValueId y = graph.nodes[0].outputs[0];
  EXPECT_EQ(calls(uses, graph.arguments[0]), (Calls{0, 2}));
  EXPECT_EQ(calls(uses, y), (Calls{1, 1, Use::kResult}));
  EXPECT_TRUE(uses.is_used_by(y, 1));
  EXPECT_FALSE(uses.is_used_by(y, 2));
  EXPECT_FALSE(uses.is_used_from(graph.arguments[0], 3));
  EXPECT_TRUE(uses.is_used_from(y, 3));
}

TEST_F(UsesTest, AUseOfAViewIsOneOfItsMemory) {
  Graph graph = Trace::of(
      [](const Tensors& a) {
        const Tensor y = relu(a[0]);
        return Tensors{relu(reshape(y, {-1, 2, 2}))};
      },
      {kBatch});
  alias_reshapes(graph);
  const Uses uses(graph);
  const ValueId y = graph.nodes[0].outputs[0];
  const ValueId view = graph.nodes[1].inputs[0];
  EXPECT_NE(view, y);
  EXPECT_EQ(calls(uses, y), (Calls{1}));
  EXPECT_EQ(uses.of(y)[0].value, view);
  EXPECT_EQ(calls(uses, view), (Calls{1}));
}

TEST_F(UsesTest, AVariableIsUsedByThoseWhoReadIt) {
  const Variable v(fill({4}, 1.0));
  Graph graph = Trace::of(
      [&](const Tensors& a) {
        v.assign(fill({4}, 2.0));
        return Tensors{a[0] + v};
      },
      {kBatch});
  const auto range = [&] {
    for (const Node& node : graph.nodes) {
      if (node.op().name == "assign") return node.ranges[0];
    }
    return kNoValue;
  };
  const auto readers = [&] {
    std::vector<std::string> names;
    const Uses uses(graph);
    for (const Use& use : uses.of(range())) names.push_back(graph.nodes[use.call].op().name);
    return names;
  };
  EXPECT_EQ(readers(), (std::vector<std::string>{"read_variable"}));
  elide_reads(graph);
  EXPECT_EQ(readers(), (std::vector<std::string>{"add"}));
}

}  // namespace
}  // namespace tandem::graph

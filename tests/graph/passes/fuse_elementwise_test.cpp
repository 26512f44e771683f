#include <gtest/gtest.h>

#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/trace.h"
#include "harness/fresh_devices.h"
#include "harness/op_check.h"
#include "op/expression.h"
#include "op/registry.h"
#include "tandem/ops.h"

namespace tandem::graph {
namespace {

using Names = std::vector<std::string>;
const op::TensorType kBatch{DType::float32, {-1, 4}};

class FusionTest : public harness::FreshDevices {
 protected:
  static Graph fused(const TensorFn& f, const op::TensorTypes& arguments = {kBatch}) {
    Graph graph = Trace::of(f, arguments);
    fold_constants(graph);
    alias_reshapes(graph);
    fuse_elementwise(graph);
    return graph;
  }
  static Names ops(const Graph& graph) {
    Names names;
    for (const Node& node : graph.nodes) names.push_back(node.op().name);
    return names;
  }
  static std::string expression(const Node& node) {
    return node.signature.attrs.get<op::ExpressionPtr>("expression")->str();
  }
};

TEST_F(FusionTest, AChainBecomesOneCall) {
  const Graph graph = fused([](const Tensors& a) { return Tensors{relu(a[0] * 2.0 + 1.0)}; });
  ASSERT_EQ(ops(graph), (Names{"fused"}));
  EXPECT_EQ(expression(graph.nodes[0]), "relu(add(mul(in0, in1), in2))");
}

TEST_F(FusionTest, ATreeBecomesOneCallWithItsSharedPartsOnce) {
  const Graph graph = fused([](const Tensors& a) {
    const Tensor e = exp(a[0]);
    return Tensors{(e - 1.0) / (e + 1.0)};
  });
  ASSERT_EQ(ops(graph), (Names{"fused"}));
  const auto& made = *graph.nodes[0].signature.attrs.get<op::ExpressionPtr>("expression");
  EXPECT_EQ(made.calls.size(), 4u);
}

TEST_F(FusionTest, WhatOthersNeedIsAnOutputToo) {
  const Graph graph = fused([](const Tensors& a) {
    const Tensor h = relu(a[0] + 1.0);
    return Tensors{h * h, reduce_sum(h)};
  });
  ASSERT_EQ(ops(graph), (Names{"fused", "reduce"}));
  EXPECT_EQ(graph.nodes[0].outputs.size(), 2u);
}

TEST_F(FusionTest, ACallBetweenKeepsItsPlace) {
  const Graph graph = fused([](const Tensors& a) {
    const Tensor h = relu(a[0] + 1.0);
    const Tensor total = reduce_sum(h);
    return Tensors{neg(h * total)};
  });
  EXPECT_EQ(ops(graph), (Names{"fused", "reduce", "fused"}));
}

TEST_F(FusionTest, OtherShapesAndTypesStayApart) {
  const Graph graph = fused([](const Tensors& a) {
    const Tensor row = exp(reduce_sum(a[0], {.axes = {{0}}}));
    return Tensors{relu(a[0] * row)};
  });
  EXPECT_EQ(ops(graph), (Names{"reduce", "exp", "fused"}));
  const Graph whole = fused([](const Tensors& a) { return Tensors{a[0] + a[0] * a[0]}; },
                            {{DType::int32, {-1, 4}}});
  EXPECT_EQ(ops(whole), (Names{"mul", "add"}));
}

TEST_F(FusionTest, AViewOfAnotherShapeEndsAGroup) {
  const Graph graph = fused([](const Tensors& a) {
    const Tensor h = relu(a[0] + 1.0);
    return Tensors{neg(reshape(h, {-1, 2, 2})) * 2.0};
  });
  EXPECT_EQ(ops(graph), (Names{"fused", "fused"}));
}

/// What the view shows must be in memory before it is read.
TEST_F(FusionTest, AViewOfAMemberIsNotReadByItsOwnGroup) {
  const auto f = [](const Tensors& a) {
    const Tensor y = relu(a[0]);
    const Tensor other = exp(a[0]);
    return Tensors{y + reshape(y, {3}), other * y - reshape(y, {3})};
  };
  const Graph graph = fused(f, {{DType::float32, {1, 3}}});
  for (const Node& node : graph.nodes) {
    for (ValueId input : node.inputs) {
      for (ValueId output : node.outputs) EXPECT_NE(graph.storage_of(input), output);
    }
  }
  const FlatFunction compiled(f);
  const Tensor x = Tensor::from(std::vector<float>{1, -2, 3}, {1, 3});
  for (int run = 0; run < 2; ++run) {
    const Tensors results = compiled(Tensors{x * Tensor(1.0f + static_cast<float>(run))});
    const Tensors wanted = f({x * Tensor(1.0f + static_cast<float>(run))});
    EXPECT_EQ(results[0].to_vector<float>(), wanted[0].to_vector<float>());
    EXPECT_EQ(results[1].to_vector<float>(), wanted[1].to_vector<float>());
  }
}

TEST_F(FusionTest, EveryPointwiseOpCanBeAStep) {
  const auto& registry = op::Registry::instance();
  for (const std::string& name : registry.op_names()) {
    const op::OpDef& def = registry.op(name);
    if (!def.pointwise || name.starts_with("logical")) continue;
    for (DType dtype : {DType::float32, DType::float64}) {
      // Found by the kernel of the op alone, which is made of the same functions.
      const op::Signature signature{&def, {{dtype, {2}}, {dtype, {2}}}, {{dtype, {2}}}, {}, {}};
      EXPECT_TRUE(registry.has_kernel(signature, *devices::host_device())) << name;
    }
  }
}

// ---- Values, in every way that the harness knows ----

TEST_F(FusionTest, BroadcastsWithinABlockAndBeyond) {
  for (const Shape& shape : {Shape{3, 5}, Shape{700, 3}, Shape{3, 1500}, Shape{2, 3, 7}}) {
    const int64_t width = shape[shape.rank() - 1];
    const Tensor x = harness::spread(shape, 1);
    const Tensor row = harness::spread({width}, 2);
    const Tensor column = harness::spread(shape.with(shape.rank() - 1, 1), 3);
    const auto f = [](const Tensors& t) { return relu(t[0] * t[1] + t[2]) * t[0] - 0.5; };
    std::vector<double> expected;
    const auto a = x.to_vector<double>();
    const auto b = row.to_vector<double>();
    const auto c = column.to_vector<double>();
    for (size_t i = 0; i < a.size(); ++i) {
      const double inner =
          a[i] * b[i % static_cast<size_t>(width)] + c[i / static_cast<size_t>(width)];
      expected.push_back(std::max(inner, 0.0) * a[i] - 0.5);
    }
    harness::check_op({.name = shape.str(),
                       .inputs = {x, row, column},
                       .f = f,
                       .expected = expected,
                       .shape = shape,
                       .differentiable = shape.count() < 50});
  }
}

TEST_F(FusionTest, NothingToComputeIsFine) {
  harness::check_op({.name = "empty",
                     .inputs = {harness::doubles({}, {0, 4})},
                     .f = [](const Tensors& t) { return relu(t[0] * 2.0) + t[0]; },
                     .expected = {},
                     .shape = {0, 4},
                     .differentiable = false});
}

}  // namespace
}  // namespace tandem::graph

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/passes/passes.h"
#include "graph/trace.h"
#include "harness/fresh_devices.h"
#include "harness/op_check.h"
#include "op/expression.h"
#include "tandem/tandem.h"

namespace tandem::graph {
namespace {

using Names = std::vector<std::string>;
const op::TensorType kX{DType::float32, {-1, 4}};
const op::TensorType kKernel{DType::float32, {4, 3}};
const op::TensorType kBias{DType::float32, {3}};

class EpilogueTest : public harness::FreshDevices {
 protected:
  static Graph fused(const TensorFn& f, const op::TensorTypes& arguments = {kX, kKernel, kBias}) {
    Graph graph = Trace::of(f, arguments);
    alias_reshapes(graph);
    fuse_epilogues(graph);
    return graph;
  }
  static Names ops(const Graph& graph) {
    Names names;
    for (const Node& node : graph.nodes) names.push_back(node.op().name);
    return names;
  }
  static std::string epilogue(const Node& node) {
    return node.signature.attrs.get<op::ExpressionPtr>("epilogue")->str();
  }
};

TEST_F(EpilogueTest, BiasAndFunctionBecomePartOfAProduct) {
  const Graph graph =
      fused([](const Tensors& a) { return Tensors{relu(matmul(a[0], a[1]) + a[2])}; });
  ASSERT_EQ(ops(graph), (Names{"fused_matmul"}));
  EXPECT_EQ(epilogue(graph.nodes[0]), "relu(add(in0, in1))");
  EXPECT_EQ(graph.nodes[0].inputs, graph.arguments);
  EXPECT_EQ(graph.nodes[0].outputs, graph.results);
}

TEST_F(EpilogueTest, AndOfAConvolution) {
  const Graph graph = fused(
      [](const Tensors& a) { return Tensors{tanh(a[2] + conv2d(a[0], a[1]))}; },
      {{DType::float32, {-1, 5, 5, 2}}, {DType::float32, {3, 3, 2, 6}}, {DType::float32, {6}}});
  ASSERT_EQ(ops(graph), (Names{"fused_conv2d"}));
  EXPECT_EQ(epilogue(graph.nodes[0]), "tanh(add(in0, in1))");
}

TEST_F(EpilogueTest, EitherAloneWillDo) {
  const Graph bias = fused([](const Tensors& a) { return Tensors{matmul(a[0], a[1]) + a[2]}; });
  ASSERT_EQ(ops(bias), (Names{"fused_matmul"}));
  EXPECT_EQ(epilogue(bias.nodes[0]), "add(in0, in1)");
  const Graph function = fused([](const Tensors& a) { return Tensors{relu(matmul(a[0], a[1]))}; });
  ASSERT_EQ(ops(function), (Names{"fused_matmul"}));
  EXPECT_EQ(epilogue(function.nodes[0]), "relu(in0)");
}

TEST_F(EpilogueTest, WhatOthersNeedIsComputedForThem) {
  const Graph product = fused([](const Tensors& a) {
    const Tensor p = matmul(a[0], a[1]);
    return Tensors{p + a[2], p};
  });
  EXPECT_EQ(ops(product), (Names{"matmul", "add"}));
  // gelu's gradient needs what gelu was given.
  const Graph sum = fused([](const Tensors& a) {
    const Tensor h = matmul(a[0], a[1]) + a[2];
    return Tensors{gelu(h), exp(h)};
  });
  EXPECT_EQ(ops(sum), (Names{"fused_matmul", "gelu", "exp"}));
  EXPECT_EQ(epilogue(sum.nodes[0]), "add(in0, in1)");
  const Graph view = fused([](const Tensors& a) {
    return Tensors{relu(reshape(matmul(a[0], a[1]), {-1, 3, 1}))};
  });
  EXPECT_EQ(ops(view), (Names{"matmul", "relu"}));
}

TEST_F(EpilogueTest, InTrainingReluBelongsToTheProduct) {
  const Graph graph = fused([](const Tensors& a) {
    GradientTape tape;
    tape.watch(a[1]);
    const Tensor h = relu(matmul(a[0], a[1]) + a[2]);
    return Tensors{tape.gradient(reduce_sum(h * h), Tensors{a[1]})[0]};
  });
  ASSERT_EQ(ops(graph)[0], "fused_matmul");
  EXPECT_EQ(epilogue(graph.nodes[0]), "relu(add(in0, in1))");
}

TEST_F(EpilogueTest, OtherSumsStayApart) {
  const Graph number = fused([](const Tensors& a) { return Tensors{matmul(a[0], a[1]) + a[2]}; },
                             {kX, kKernel, {DType::float32, {1}}});
  EXPECT_EQ(ops(number), (Names{"matmul", "add"}));
  const Graph twice = fused([](const Tensors& a) {
    const Tensor p = matmul(a[0], a[1]);
    return Tensors{p + p};
  });
  EXPECT_EQ(ops(twice), (Names{"matmul", "add"}));
}

const op::TensorType kCompanion{DType::float32, {-1, 3}};

TEST_F(EpilogueTest, ACompanionOfTheResultIsMetThereAndThen) {
  const op::TensorTypes arguments{kX, kKernel, kBias, kCompanion};
  const Graph residual = fused(
      [](const Tensors& a) { return Tensors{a[3] + (matmul(a[0], a[1]) + a[2])}; }, arguments);
  ASSERT_EQ(ops(residual), (Names{"fused_matmul"}));
  EXPECT_EQ(epilogue(residual.nodes[0]), "add(in2, add(in0, in1))");
  EXPECT_EQ(residual.nodes[0].inputs, residual.arguments);
  const Graph quotient =
      fused([](const Tensors& a) { return Tensors{relu(gelu(matmul(a[0], a[1]) + a[2]) / a[3])}; },
            arguments);
  ASSERT_EQ(ops(quotient), (Names{"fused_matmul"}));
  EXPECT_EQ(epilogue(quotient.nodes[0]), "relu(div(gelu(add(in0, in1)), in2))");
  const Graph alone =
      fused([](const Tensors& a) { return Tensors{a[3] - matmul(a[0], a[1])}; }, arguments);
  ASSERT_EQ(ops(alone), (Names{"fused_matmul"}));
  EXPECT_EQ(epilogue(alone.nodes[0]), "sub(in1, in0)");
}

TEST_F(EpilogueTest, OfTwoProductsTheLaterMeetsTheEarlier) {
  const Graph graph = fused(
      [](const Tensors& a) {
        const Tensor first = matmul(a[0], a[1]);
        const Tensor second = matmul(exp(a[0]), a[1]);
        return Tensors{first * second};
      },
      {kX, kKernel});
  EXPECT_EQ(ops(graph), (Names{"matmul", "exp", "fused_matmul"}));
  EXPECT_EQ(epilogue(graph.nodes[2]), "mul(in1, in0)");
}

TEST_F(EpilogueTest, WhatIsNoCompanionStaysApart) {
  // One that is made after the product, one that is repeated, one of a convolution.
  const Graph later = fused(
      [](const Tensors& a) {
        const Tensor product = matmul(a[0], a[1]);
        return Tensors{product + exp(a[2])};
      },
      {kX, kKernel, kCompanion});
  EXPECT_EQ(ops(later), (Names{"matmul", "exp", "add"}));
  const Graph repeated = fused([](const Tensors& a) { return Tensors{matmul(a[0], a[1]) * a[2]}; },
                               {kX, kKernel, {DType::float32, {-1, 1}}});
  EXPECT_EQ(ops(repeated), (Names{"matmul", "mul"}));
  const Graph image = fused([](const Tensors& a) { return Tensors{conv2d(a[0], a[1]) + a[2]}; },
                            {{DType::float32, {-1, 5, 5, 2}},
                             {DType::float32, {3, 3, 2, 6}},
                             {DType::float32, {-1, 3, 3, 6}}});
  EXPECT_EQ(ops(image), (Names{"conv2d", "add"}));
}

TEST_F(EpilogueTest, AVariableWrittenInBetweenIsReadBefore) {
  const Variable kernel(Tensor::from<float>({1, 2}, {2, 1}));
  const auto f = function([&](const Tensor& x, const Tensor& bias) {
    const Tensor product = matmul(x, kernel);
    kernel.assign(fill({2, 1}, 100.0));
    return relu(product + bias);
  });
  const Tensor y = f(Tensor::from<float>({1, 1}, {1, 2}), Tensor::from<float>({0.5}, {1}));
  EXPECT_EQ(y.item<float>(), 3.5F);
}

// ---- Values, in every way that the harness knows ----

/// relu(a b + bias) for a matrix or several, from the definition.
std::vector<double> dense(const Tensor& a, const Tensor& b, const Tensor& bias) {
  const auto x = a.to_vector<double>();
  const auto w = b.to_vector<double>();
  const auto add = bias.to_vector<double>();
  const size_t inner = static_cast<size_t>(b.shape()[0]);
  const size_t columns = static_cast<size_t>(b.shape()[1]);
  const size_t rows = static_cast<size_t>(a.shape().count()) / std::max<size_t>(inner, 1);
  std::vector<double> result;
  for (size_t i = 0; i < (inner == 0 ? static_cast<size_t>(a.shape()[0]) : rows); ++i) {
    for (size_t j = 0; j < columns; ++j) {
      double sum = add[j];
      for (size_t k = 0; k < inner; ++k) sum += x[i * inner + k] * w[k * columns + j];
      result.push_back(std::max(sum, 0.0));
    }
  }
  return result;
}

TEST_F(EpilogueTest, DenseLayersOfManyShapes) {
  struct Sizes {
    Shape x;
    int64_t columns;
  };
  for (const auto& [x_shape, columns] : std::vector<Sizes>{{{3, 5}, 4},
                                                           {{7, 2}, 1},
                                                           {{700, 3}, 10},
                                                           {{5, 2}, 1500},
                                                           {{2, 3, 4}, 5},
                                                           {{0, 3}, 4},
                                                           {{4, 0}, 3},
                                                           {{4, 3}, 0}}) {
    const Tensor x = harness::spread(x_shape, 1);
    const Tensor w = harness::spread({x_shape[x_shape.rank() - 1], columns}, 2);
    const Tensor bias = harness::spread({columns}, 3);
    const int64_t count = x_shape.count() + w.shape().count() + columns;
    harness::check_op({.name = x_shape.str() + " to " + std::to_string(columns),
                       .inputs = {x, w, bias},
                       .f = [](const Tensors& t) { return relu(matmul(t[0], t[1]) + t[2]); },
                       .expected = dense(x, w, bias),
                       .shape = x_shape.with(x_shape.rank() - 1, columns),
                       .differentiable = count < 60});
  }
}

// Every provider has its turn: few columns, few terms, large, and several matrices.
TEST_F(EpilogueTest, CompanionsOfManyShapes) {
  for (const auto& [x_shape, columns] : std::vector<std::pair<Shape, int64_t>>{{{3, 5}, 4},
                                                                               {{7, 2}, 40},
                                                                               {{130, 70}, 600},
                                                                               {{301, 80}, 130},
                                                                               {{2, 3, 4}, 5},
                                                                               {{0, 3}, 4}}) {
    const Tensor x = harness::spread(x_shape, 1);
    const Tensor w = harness::spread({x_shape[x_shape.rank() - 1], columns}, 2);
    const Tensor bias = harness::spread({columns}, 3);
    const Shape shape = x_shape.with(x_shape.rank() - 1, columns);
    const Tensor companion = harness::spread(shape, 4);
    std::vector<double> expected = dense(x, w, bias);
    const auto subtracted = companion.to_vector<double>();
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = subtracted[i] - expected[i];
    harness::check_op({.name = x_shape.str() + " to " + std::to_string(columns),
                       .inputs = {x, w, bias, companion},
                       .f = [](const Tensors& t) { return t[3] - relu(matmul(t[0], t[1]) + t[2]); },
                       .expected = expected,
                       .shape = shape,
                       .differentiable = shape.count() < 60,
                       .tolerance = 1e-11,
                       .float32_tolerance = 1e-4});
  }
}

TEST_F(EpilogueTest, EveryActivationOfAProduct) {
  using Activation = Tensor (*)(const Tensor&);
  const std::vector<std::pair<Activation, double (*)(double)>> activations = {
      {[](const Tensor& x) { return gelu(x); },
       [](double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }},
      {[](const Tensor& x) { return tanh(x); }, [](double x) { return std::tanh(x); }},
      {[](const Tensor& x) { return sigmoid(x); }, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {[](const Tensor& x) { return leaky_relu(x, 0.25); },
       [](double x) { return x < 0 ? 0.25 * x : x; }}};
  for (const auto& [activation, plain] : activations) {
    const Tensor x = harness::spread({5, 3}, 1);
    std::vector<double> expected;
    const auto values = x.to_vector<double>();
    for (size_t i = 0; i < 5; ++i) {
      expected.push_back(plain(values[3 * i] + 2 * values[3 * i + 1] - values[3 * i + 2] + 0.5));
    }
    harness::check_op(
        {.name = "activation",
         .inputs = {x, harness::doubles({1, 2, -1}, {3, 1}), harness::doubles({0.5}, {1})},
         .f = [activation =
                   activation](const Tensors& t) { return activation(matmul(t[0], t[1]) + t[2]); },
         .expected = expected,
         .shape = {5, 1}});
  }
}

TEST_F(EpilogueTest, WhatIsNotANumberStaysSo) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  harness::check_op({.name = "relu of NaN",
                     .inputs = {harness::doubles({nan, -1e300, 1}, {3, 1}),
                                harness::doubles({1, 1}, {1, 2}), harness::doubles({1, nan}, {2})},
                     .f = [](const Tensors& t) { return relu(matmul(t[0], t[1]) + t[2]); },
                     .expected = {nan, nan, 0, nan, 2, nan},
                     .shape = {3, 2},
                     .differentiable = false,
                     .float32_tolerance = 0});
}

/// The convolution of an image of ones with a filter of ones counts what the filter sees.
TEST_F(EpilogueTest, ConvolutionsOfEveryProvider) {
  struct ProductShape {
    int64_t in, out, groups, images;
  };
  for (const auto& [in, out, groups, images] : std::vector<ProductShape>{
           {8, 16, 1, 3}, {1, 8, 1, 70}, {4, 4, 4, 3}, {6, 4, 2, 3}, {0, 2, 1, 2}}) {
    const Tensor bias = harness::spread({out}, 3);
    const auto channels = static_cast<double>(in / groups);
    std::vector<double> expected;
    for (int64_t i = 0; i < images; ++i) {
      for (const double seen : {4., 6., 4., 6., 9., 6., 4., 6., 4.}) {
        for (const double b : bias.to_vector<double>()) {
          const double sum = (seen - 6) * channels + b;
          expected.push_back(std::max(sum, 0.0));
        }
      }
    }
    harness::check_op(
        {.name = std::to_string(in) + " to " + std::to_string(out) + " channels",
         .inputs = {fill({images, 3, 3, in}, 1, DType::float64),
                    fill({3, 3, in / groups, out}, 1, DType::float64), bias - 6 * channels},
         .f =
             [groups = groups](const Tensors& t) {
               const Conv2dOptions options{.padding = Padding::same, .groups = groups};
               return relu(conv2d(t[0], t[1], options) + t[2]);
             },
         .expected = expected,
         .shape = {images, 3, 3, out},
         .differentiable = false});
  }
}

}  // namespace
}  // namespace tandem::graph

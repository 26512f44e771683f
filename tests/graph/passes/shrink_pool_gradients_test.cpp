#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "graph/passes/passes.h"
#include "graph/trace.h"
#include "harness/fresh_devices.h"
#include "harness/op_check.h"
#include "tandem/tandem.h"

namespace tandem::graph {
namespace {

using Names = std::vector<std::string>;
const op::TensorType kImage{DType::float32, {-1, 6, 6, 4}};

class PoolGradientTest : public harness::FreshDevices {
 protected:
  static Graph shrunk(const TensorFn& f, const op::TensorTypes& arguments = {kImage}) {
    Graph graph = Trace::of(f, arguments);
    simplify_algebra(graph);
    merge_equal_calls(graph);
    shrink_pool_gradients(graph);
    remove_dead_code(graph);
    mark_sparse_gradients(graph);
    return graph;
  }
  static Names ops(const Graph& graph) {
    Names names;
    for (const Node& node : graph.nodes) names.push_back(node.op().name);
    return names;
  }
  static const Node& node(const Graph& graph, const std::string& op) {
    for (const Node& node : graph.nodes) {
      if (node.op().name == op) return node;
    }
    throw NotFound("no " + op);
  }
  /// The gradient of the squares of `y` by `x`.
  static Tensor gradient(const TensorFn& f, const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = f({x})[0];
    return tape.gradient(reduce_sum(y * y), Tensors{x})[0];
  }
};

TEST_F(PoolGradientTest, ReluComesBeforePooling) {
  const Graph graph = shrunk([](const Tensors& a) {
    return Tensors{
        gradient([](const Tensors& x) { return Tensors{max_pool2d(relu(x[0]))}; }, a[0])};
  });
  const Node& relu = node(graph, "relu_grad");
  EXPECT_EQ(relu.signature.outputs[0].shape, (Shape{-1, 3, 3, 4}));
  EXPECT_EQ(relu.signature.inputs[0].shape, (Shape{-1, 3, 3, 4}));
  EXPECT_EQ(graph.nodes.back().op().name, "max_pool2d_grad");
  EXPECT_EQ(graph.nodes.back().inputs[2], relu.outputs[0]);
  EXPECT_EQ(graph.nodes.back().outputs, graph.results);
}

TEST_F(PoolGradientTest, ASumOverTheImageIsASumOverWindows) {
  const Graph graph = shrunk(
      [](const Tensors& a) {
        const auto layer = [&](const Tensors& bias) {
          return Tensors{max_pool2d(relu(a[0] + bias[0]))};
        };
        return Tensors{gradient(layer, a[1])};
      },
      {kImage, {DType::float32, {4}}});
  EXPECT_EQ(std::ranges::count(ops(graph), "max_pool2d_grad"), 0);
  EXPECT_EQ(node(graph, "reduce").signature.inputs[0].shape, (Shape{-1, 3, 3, 4}));
}

TEST_F(PoolGradientTest, OtherSumsAndOtherFunctionsStay) {
  const Graph sum = shrunk([](const Tensors& a) {
    const auto pool = [](const Tensors& x) { return Tensors{max_pool2d(x[0])}; };
    return Tensors{reduce_sum(gradient(pool, a[0]), {.axes = {{0, 1}}})};
  });
  EXPECT_EQ(std::ranges::count(ops(sum), "max_pool2d_grad"), 1);
  const Graph mean = shrunk([](const Tensors& a) {
    const auto pool = [](const Tensors& x) { return Tensors{max_pool2d(x[0])}; };
    return Tensors{reduce_mean(gradient(pool, a[0]), {.axes = {{1, 2}}})};
  });
  EXPECT_EQ(std::ranges::count(ops(mean), "max_pool2d_grad"), 1);
  // Here pooling sees something else than relu gave.
  const Graph shifted = shrunk([](const Tensors& a) {
    const auto f = [](const Tensors& x) { return Tensors{max_pool2d(relu(x[0]) * 2.0)}; };
    return Tensors{gradient(f, a[0])};
  });
  EXPECT_EQ(node(shifted, "relu_grad").signature.outputs[0].shape, kImage.shape);
}

TEST_F(PoolGradientTest, APooledConvolutionKnowsHowSparseItsGradientIs) {
  const op::TensorType filter{DType::float32, {3, 3, 4, 8}};
  const auto density = [&](bool pooled) {
    const Graph graph = shrunk(
        [&](const Tensors& a) {
          const auto layer = [&](const Tensors& w) {
            const Tensor y = relu(conv2d(a[0], w[0], {.padding = Padding::same}));
            return Tensors{pooled ? max_pool2d(y) : y};
          };
          return Tensors{gradient(layer, a[1])};
        },
        {kImage, filter});
    return node(graph, "conv2d_backprop_filter").signature.attrs.get<double>("density");
  };
  EXPECT_EQ(density(true), 0.25);
  EXPECT_EQ(density(false), 1.0);
}

/// The gradient of what is pooled stays where somebody else uses it, as it is or in another shape.
TEST_F(PoolGradientTest, AGradientThatIsAlsoUsedAsAViewIsComputed) {
  const auto f = [](const Tensors& a) {
    GradientTape tape;
    tape.watch(a[0]);
    const Tensor h = relu(a[0]);
    const Tensor y = max_pool2d(h);
    const Tensors gradients = tape.gradient(reduce_sum(y * y), Tensors{h, a[0]});
    return Tensors{reshape(gradients[0], {-1, 6 * 6 * 4}), gradients[1]};
  };
  const Tensors x{harness::spread({2, 6, 6, 4}, 1)};
  const Tensors wanted = f(x);
  const Tensors got = FlatFunction(f)(x);
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(got[i].to_vector<double>(), wanted[i].to_vector<double>()) << i;
  }
}

/// Gradients of a convolution, its bias and its image through relu and pooling, compiled against
/// eager, which no pass touches.
TEST_F(PoolGradientTest, GradientsAreThoseOfSingleCalls) {
  struct PooledLayer {
    Shape image, filter;
    Conv2dOptions convolution{};
    Pool2dOptions pool{};
  };
  const std::vector<PooledLayer> layers = {
      {{5, 13, 13, 32}, {3, 3, 32, 16}},
      {{3, 9, 8, 16}, {3, 3, 16, 5}, {.padding = Padding::same}},
      {{2, 12, 12, 12}, {5, 3, 12, 9}, {.strides = {2, 1}, .padding = Padding::same}},
      {{2, 12, 12, 33}, {3, 1, 33, 4}, {.padding = Padding::same, .dilations = {2, 1}}},
      {{2, 9, 9, 16}, {3, 3, 16, 8}, {}, {.window = {3, 3}, .strides = {{2, 2}}}},
      {{2, 9, 9, 16}, {3, 3, 8, 8}, {.groups = 2}},
      {{0, 9, 9, 16}, {3, 3, 16, 8}}};
  for (const PooledLayer& layer : layers) {
    const auto f = [&](const Tensors& t) {
      GradientTape tape;
      for (const Tensor& tensor : t) tape.watch(tensor);
      const Tensor y = max_pool2d(relu(conv2d(t[0], t[1], layer.convolution) + t[2]), layer.pool);
      return tape.gradient(reduce_sum(y * y), t);
    };
    const Tensors inputs{harness::spread(layer.image, 1), harness::spread(layer.filter, 2),
                         harness::spread({layer.filter[3]}, 3)};
    const Tensors wanted = f(inputs);
    for (DType dtype : {DType::float64, DType::float32}) {
      Tensors arguments;
      for (const Tensor& input : inputs) arguments.push_back(cast(input, dtype));
      const Tensors got = FlatFunction(f)(arguments);
      for (size_t i = 0; i < wanted.size(); ++i) {
        const auto a = cast(got[i], DType::float64).to_vector<double>();
        const auto b = wanted[i].to_vector<double>();
        double largest = 1;
        for (const double value : b) largest = std::max(largest, std::abs(value));
        const double tolerance = largest * (dtype == DType::float64 ? 1e-13 : 1e-5);
        ASSERT_EQ(a.size(), b.size());
        for (size_t k = 0; k < a.size(); ++k) {
          ASSERT_NEAR(a[k], b[k], tolerance)
              << layer.image.str() << layer.filter.str() << ", input " << i << ", element " << k;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tandem::graph

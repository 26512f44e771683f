#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "graph/passes/passes.h"
#include "graph/trace.h"
#include "harness/fresh_devices.h"
#include "op/registry.h"
#include "tandem/tandem.h"

namespace tandem::graph {
namespace {

using OpsOfPasses = harness::FreshDevices;

std::set<std::string> ops_in(const Graph& graph) {
  std::set<std::string> names;
  for (const Node& node : graph.nodes) names.insert(node.op().name);
  return names;
}

/// The values and gradients of `f`, so that passes find both.
TensorFn trained(TensorFn f) {
  return [f = std::move(f)](const Tensors& x) {
    GradientTape tape;
    for (const Tensor& tensor : x) tape.watch(tensor);
    const Tensor y = f(x)[0];
    Tensors results = tape.gradient(reduce_sum(y * y), x);
    results.push_back(y);
    return results;
  };
}

TEST_F(OpsOfPasses, NothingElseIsMade) {
  const op::TensorType rows{DType::float32, {-1, 8}};
  const op::TensorType square{DType::float32, {8, 8}};
  const op::TensorType image{DType::float32, {-1, 6, 6, 4}};
  const op::TensorType filter{DType::float32, {3, 3, 4, 4}};
  const op::TensorType bias{DType::float32, {4}};
  const auto dense = [](Tensor (*f)(const Tensor&)) {
    return [f](const Tensors& x) { return Tensors{f(matmul(x[0], x[1]))}; };
  };
  struct Case {
    TensorFn f;
    op::TensorTypes arguments;
  };
  std::set<std::string> made;
  for (const auto& [f, arguments] : std::vector<Case>{
           {dense([](const Tensor& x) { return gelu(x); }), {rows, square}},
           {dense([](const Tensor& x) { return silu(x); }), {rows, square}},
           {[](const Tensors& x) { return Tensors{relu(matmul(x[0], x[1]) + x[2])}; },
            {rows, square, {DType::float32, {8}}}},
           {dense([](const Tensor& x) { return relu(x) * 2.0 + tanh(x); }), {rows, square}},
           {[](const Tensors& x) { return Tensors{max_pool2d(relu(conv2d(x[0], x[1]) + x[2]))}; },
            {image, filter, bias}},
           {[](const Tensors& x) { return Tensors{exp(x[0]) * tanh(x[0]) + 1.0}; }, {rows}}}) {
    Graph graph = Trace::of(trained(f), arguments);
    const std::set<std::string> before = ops_in(graph);
    optimize(graph);
    for (const std::string& name : ops_in(graph)) {
      if (!before.contains(name)) made.insert(name);
    }
  }
  const auto listed = ops_of_passes();
  for (const std::string& name : made) {
    EXPECT_NE(std::ranges::find(listed, name), listed.end()) << name;
  }
  for (const char* name : {"fused", "fused_matmul", "fused_conv2d", "gelu_with_slope"}) {
    EXPECT_TRUE(made.contains(name)) << name;
  }
}

TEST_F(OpsOfPasses, EveryBackendHasThem) {
  const op::Registry& registry = op::Registry::instance();
  const auto backends = registry.backends();
  EXPECT_NE(std::ranges::find(backends, "test"), backends.end());
  for (const std::string& backend : backends) {
    for (const char* name : ops_of_passes()) {
      if (registry.op(name).is_collective) continue;
      // Only replicas on CPUs take norms of parts.
      if (backend == "gpu" && std::string(name) == "square_sum_of_part") continue;
      for (DType dtype : {DType::float32, DType::float64}) {
        EXPECT_TRUE(registry.has_kernel(name, backend, dtype)) << name << " on " << backend;
      }
    }
  }
}

}  // namespace
}  // namespace tandem::graph

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "graph/passes/passes.h"
#include "graph/trace.h"
#include "harness/fresh_devices.h"
#include "tandem/tandem.h"

namespace tandem::graph {
namespace {

using Names = std::vector<std::string>;
const op::TensorType kRows{DType::float32, {-1, 40}};

class ShareSlopesTest : public harness::FreshDevices {
 protected:
  static Names shared(const TensorFn& f, const op::TensorTypes& arguments = {kRows}) {
    Graph graph = Trace::of(f, arguments);
    make_smaller(graph);
    alias_reshapes(graph);
    share_slopes(graph);
    remove_dead_code(graph);
    Names names;
    for (const Node& node : graph.nodes) names.push_back(node.op().name);
    return names;
  }

  static int64_t count(const Names& names, const std::string& name) {
    return std::ranges::count_if(names, [&](const std::string& other) { return other == name; });
  }

  /// f(sin(x)) and the gradient of the sum of its squares.
  template <class F>
  static Tensors trained(const F& f, const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = f(sin(x));
    return {y, tape.gradient(reduce_sum(y * y), Tensors{x})[0]};
  }
};

TEST_F(ShareSlopesTest, ValueAndSlopeAreOneCall) {
  const auto names = shared(
      [](const Tensors& a) { return trained([](const Tensor& x) { return gelu(x); }, a[0]); });
  EXPECT_EQ(count(names, "gelu_with_slope"), 1);
  EXPECT_EQ(count(names, "gelu"), 0);
  EXPECT_EQ(count(names, "gelu_grad"), 0);
}

TEST_F(ShareSlopesTest, WithoutAGradientNothingChanges) {
  EXPECT_EQ(shared([](const Tensors& a) { return Tensors{gelu(sin(a[0]))}; }),
            (Names{"sin", "gelu"}));
}

TEST_F(ShareSlopesTest, WhatIsKeptAnywayStays) {
  // An argument, a value that others use, and one that the function returns.
  const auto argument = shared([](const Tensors& a) {
    GradientTape tape;
    tape.watch(a[0]);
    const Tensor y = gelu(a[0]);
    return Tensors{y, tape.gradient(reduce_sum(y * y), a)[0]};
  });
  EXPECT_EQ(count(argument, "gelu_grad"), 1);
  const auto used = shared([](const Tensors& a) {
    return trained([](const Tensor& x) { return gelu(x) + cos(x); }, a[0]);
  });
  EXPECT_EQ(count(used, "gelu_grad"), 1);
  const auto returned = shared([](const Tensors& a) {
    Tensor kept;
    Tensors results = trained(
        [&](const Tensor& x) {
          kept = x;
          return gelu(x);
        },
        a[0]);
    results.push_back(kept);
    return results;
  });
  EXPECT_EQ(count(returned, "gelu_grad"), 1);
}

TEST_F(ShareSlopesTest, TheBitsAreThoseOfEagerCalls) {
  Tensor (*const activations[])(const Tensor&) = {
      [](const Tensor& x) { return gelu(x); },
      [](const Tensor& x) { return gelu(x, {.approximate = true}); },
      [](const Tensor& x) { return silu(x); }};
  const double inf = std::numeric_limits<double>::infinity();
  // A number of elements that no vector divides, to the far tails and beyond every limit.
  std::vector<double> values{-inf, inf, -1e30, 1e30, 0, -0.7517916};
  for (int i = -60; i < 61; ++i) values.push_back(i * 0.37);
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Tensor x = cast(Tensor::of(values), dtype);
    for (const auto activation : activations) {
      const auto step = [activation](const Tensor& at) {
        const Tensor moved = at + at;
        GradientTape tape;
        tape.watch(moved);
        const Tensor y = activation(moved);
        return Tensors{y, tape.gradient(reduce_sum(3 * y), Tensors{moved})[0]};
      };
      const auto compiled = function(step);
      const Tensors got = compiled(x);
      EXPECT_NE(compiled.explain().find("_with_slope"), std::string::npos);
      const Tensors expected = step(x);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(cast(got[i], DType::float64).to_vector<double>(),
                  cast(expected[i], DType::float64).to_vector<double>());
      }
    }
  }
}

}  // namespace
}  // namespace tandem::graph

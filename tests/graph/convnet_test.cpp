#include "harness/convnet.h"

#include <gtest/gtest.h>

#include "graph/passes/passes.h"
#include "harness/fresh_devices.h"

namespace tandem::harness {
namespace {

class ConvnetTest : public FreshDevices {};

/// The losses of a few steps on batches of several sizes, and then all weights.
template <class Step>
std::vector<double> trained(const Convnet<double>& model, const Step& step) {
  std::vector<double> numbers;
  for (const int64_t rows : {8, 3, 1, 8}) {
    numbers.push_back(step(images<double>(rows), classes(rows)).template item<double>());
  }
  for (const Variable& variable : model.variables) {
    const auto values = variable.value().to_vector<double>();
    numbers.insert(numbers.end(), values.begin(), values.end());
  }
  return numbers;
}

TEST_F(ConvnetTest, TrainsTheSameEagerCompiledAndUnfused) {
  const Convnet<double> eager;
  const auto wanted =
      trained(eager, [&](const Tensor& x, const Tensor& y) { return eager.train_step(x, y); });
  for (const bool fusion : {true, false}) {
    graph::set_fusion(fusion);
    const Convnet<double> model;
    const auto got = trained(model, model.compiled_step());
    graph::set_fusion(true);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], wanted[i], 1e-9) << (fusion ? "fused" : "unfused") << ", number " << i;
    }
  }
}

}  // namespace
}  // namespace tandem::harness

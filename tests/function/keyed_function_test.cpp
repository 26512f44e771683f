#include "tandem/function/keyed_function.h"

#include <gtest/gtest.h>

#include "harness/fresh_devices.h"
#include "harness/small_tensors.h"
#include "tandem/gradient_tape.h"
#include "tandem/ops.h"
#include "tandem/variable.h"

namespace tandem {
namespace {

using harness::vector;
using Floats = std::vector<float>;
using KeyedFunctionTest = harness::FreshDevices;

/// A function that scales by the number in its key, and counts how often it is recorded.
struct Scaled {
  int calls = 0;
  KeyedFunction f{[this](const Tensors& in, const std::string& key) {
    ++calls;
    return Tensors{in.at(0) * std::stof(key), in.at(0) + 1.0f};
  }};
};

TEST_F(KeyedFunctionTest, IsTracedOncePerKey) {
  Scaled scaled;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(scaled.f({vector({1, 2})}, "2").at(0).to_vector<float>(), (Floats{2, 4}));
    EXPECT_EQ(scaled.f({vector({1, 2})}, "5").at(0).to_vector<float>(), (Floats{5, 10}));
  }
  EXPECT_EQ(scaled.calls, 2);
  EXPECT_EQ(scaled.f.trace_count(), 2);
  EXPECT_EQ(scaled.f({vector({3, 4})}, "2").at(1).to_vector<float>(), (Floats{4, 5}));
  EXPECT_EQ(scaled.calls, 2);
}

TEST_F(KeyedFunctionTest, AKeyIsWhatItIsAndNotWhereItEnds) {
  std::vector<std::string> seen;
  const KeyedFunction f([&](const Tensors& in, const std::string& key) {
    seen.push_back(key);
    return in;
  });
  for (const char* key : {"", "a", "a;", "a;b", "a"}) f({vector({1})}, key);
  EXPECT_EQ(seen, (std::vector<std::string>{"", "a", "a;", "a;b"}));
  EXPECT_EQ(static_cast<const FlatFunction&>(f)(Tensors{vector({1})}).size(), 1u);
  EXPECT_EQ(seen.size(), 4u);  // No key is the empty one.
}

TEST_F(KeyedFunctionTest, TheKeyIsKnownWhereATapeRunsItOpByOp) {
  Scaled scaled;
  const Variable v(3.0f);
  GradientTape tape;
  const Tensor y = scaled.f({v.value()}, "4").at(0);
  EXPECT_EQ(tape.gradient(y, Variables{v}).at(0).item<float>(), 4.0f);
}

TEST_F(KeyedFunctionTest, CanBeTracedBeforeItRuns) {
  Scaled scaled;
  scaled.f.trace(Tensors{vector({1, 2})}, "7");
  EXPECT_EQ(scaled.calls, 1);
  EXPECT_EQ(scaled.f({vector({1, 2})}, "7").at(0).to_vector<float>(), (Floats{7, 14}));
  EXPECT_EQ(scaled.calls, 1);
}

}  // namespace
}  // namespace tandem

#include <gtest/gtest.h>

#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/error.h"
#include "tandem/function.h"
#include "tandem/gradient_tape.h"
#include "tandem/ops.h"

namespace tandem {
namespace {

using harness::throws;
using CustomGradientTest = harness::FreshDevices;

/// x with the gradient of 10 x.
Tensor times_ten_backward(const Tensor& x) {
  static const auto f = custom_gradient([](const Tensor& v) {
    return CustomGradient{v, [](const Tensor& g) { return Tensors{g * 10.0}; }};
  });
  return f(x);
}

TEST_F(CustomGradientTest, TheGivenGradientReplacesTheRealOne) {
  const Tensor x = Tensor::from<double>({1, 2}, {2});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = times_ten_backward(x * x);
  EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{1, 4}));
  EXPECT_EQ(tape.gradient(y, x).to_vector<double>(), (std::vector<double>{20, 40}));
}

TEST_F(CustomGradientTest, AnInputReturnedAsItIsStillCountsAsAnOutput) {
  const Tensor x(3.0);
  GradientTape tape;
  tape.watch(x);
  EXPECT_EQ(tape.gradient(times_ten_backward(x) + x, x).item<double>(), 11.0);
}

TEST_F(CustomGradientTest, OuterTapesDifferentiateTheGradientFunction) {
  const auto cube_as_square = custom_gradient([](const Tensor& v) {
    return CustomGradient{v * v, [v](const Tensor& g) { return Tensors{g * v * v * v}; }};
  });
  const Tensor x(2.0);
  GradientTape outer;
  outer.watch(x);
  Tensor first;
  {
    GradientTape inner;
    inner.watch(x);
    first = inner.gradient(cube_as_square(x), x);
  }
  EXPECT_EQ(first.item<double>(), 8.0);
  EXPECT_EQ(outer.gradient(first, x).item<double>(), 12.0);
}

TEST_F(CustomGradientTest, SeveralInputsAndOutputs) {
  const Tensor a(2.0);
  const Tensor b(5.0);
  GradientTape tape;
  tape.watch(a);
  tape.watch(b);
  const auto f = [](const Tensors& in) {
    return CustomGradients{{in[0] + in[1], in[0] * in[1]}, [](const Tensors& g) {
                             return Tensors{g[0] * 100.0 + g[1], Tensor()};
                           }};
  };
  const Tensors out = call_with_gradient(f, {a, b});
  const Tensors gradients = tape.gradient(out[1] * 3.0, Tensors{a, b});
  EXPECT_EQ(gradients[0].item<double>(), 3.0);  // Nothing came through the sum.
  EXPECT_FALSE(gradients[1].defined());
}

TEST_F(CustomGradientTest, VariablesThatAreReadHaveGradientsBesideTheInputs) {
  const Variable scale(2.0, {.name = "scale"});
  const Variable unused(7.0, {.name = "unused"});
  const auto f = [&](const Tensors& in) {
    CustomGradients result{{in[0] * scale.value() * scale.value()}, {}};
    result.gradient_with_variables = [&](const Tensors& g, const Variables& variables) {
      EXPECT_EQ(variables.size(), 1u);
      EXPECT_EQ(variables[0].name(), "scale");
      return Tensors{g[0] * 10.0, g[0] * 100.0};
    };
    return result;
  };
  const Tensor x(3.0);
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = call_with_gradient(f, {x})[0] + scale.value();
  EXPECT_EQ(y.item<double>(), 14.0);
  EXPECT_EQ(tape.gradient(y, x).item<double>(), 10.0);
  const Tensors gradients = tape.gradient(y, Variables{scale, unused});
  EXPECT_EQ(gradients[0].item<double>(), 101.0);
  EXPECT_FALSE(gradients[1].defined());
}
TEST_F(CustomGradientTest, WorksInsideTracedFunctions) {
  const auto step = function([](const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(times_ten_backward(x * x), x);
  });
  EXPECT_EQ(step(Tensor::from<double>({1, 2, 3}, {3})).to_vector<double>(),
            (std::vector<double>{20, 40, 60}));
}

TEST_F(CustomGradientTest, AVariableWhoseGradientWouldBeLostIsNamed) {
  const Variable w(Tensor(2.0), {.name = "w"});
  const auto f = custom_gradient([&](const Tensor& x) {
    return CustomGradient{x * w.value(), [](const Tensor& g) { return Tensors{g}; }};
  });
  EXPECT_EQ(f(Tensor(3.0)).item<double>(), 6.0);  // Without a tape nothing is lost.
  GradientTape tape;
  EXPECT_TRUE(throws<InvalidArgument>([&] { f(Tensor(3.0)); }, {"'w'"}));
  // The tape is open again.
  EXPECT_EQ(tape.gradient(w.value() * 4.0, w).item<double>(), 4.0);
}

TEST_F(CustomGradientTest, WrongGradientsAreRefused) {
  const Tensor x = Tensor::from<double>({1, 2}, {2});
  const auto gradient_of = [&](const Tensors& result) {
    const auto f = custom_gradient([&](const Tensor& v) {
      return CustomGradient{v * 1.0, [&](const Tensor&) { return result; }};
    });
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(f(x), x);
  };
  EXPECT_TRUE(throws<InvalidArgument>([&] { gradient_of({}); }, {"0 tensors for 1 inputs"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { gradient_of({Tensor(1.0)}); },
                                      {"has shape [], the input [2]"}));
}

}  // namespace
}  // namespace tandem

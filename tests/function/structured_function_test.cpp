#include <gtest/gtest.h>

#include <thread>

#include "device/logical_device.h"
#include "device/test/test_device.h"
#include "harness/fresh_devices.h"
#include "harness/small_tensors.h"
#include "harness/throws.h"
#include "tandem/error.h"
#include "tandem/function.h"
#include "tandem/gradient_tape.h"
#include "tandem/log.h"
#include "tandem/ops.h"
#include "tandem/variable.h"

namespace tandem {
namespace {

using harness::throws;
using harness::vector;
using Floats = std::vector<float>;
using StructuredFunctionTest = harness::FreshDevices;

struct State {
  Tensor h;
  std::vector<Tensor> stack;
  auto tie() { return std::tie(h, stack); }
};

TEST_F(StructuredFunctionTest, StructuresGoInAndComeOut) {
  const auto f = function([](const State& state, const std::pair<Tensor, Tensor>& pair) {
    State next{state.h + pair.first, {}};
    for (const Tensor& each : state.stack) next.stack.push_back(each * pair.second);
    return std::tuple<State, Tensor>{next, pair.second};
  });
  const State state{vector({1, 2}), {vector({3, 4}), vector({5, 6})}};
  const auto [next, last] = f(state, {vector({10, 20}), Tensor(2.0f)});
  EXPECT_EQ(next.h.to_vector<float>(), (Floats{11, 22}));
  ASSERT_EQ(next.stack.size(), 2u);
  EXPECT_EQ(next.stack[1].to_vector<float>(), (Floats{10, 12}));
  EXPECT_EQ(last.item<float>(), 2.0f);
  EXPECT_EQ(f.trace_count(), 1);
}

TEST_F(StructuredFunctionTest, AListOfAnotherLengthIsAnotherKind) {
  const auto sum = function([](const Tensors& list, const Tensors& more) {
    Tensor total = list[0];
    for (size_t i = 1; i < list.size(); ++i) total = total + list[i];
    for (const Tensor& each : more) total = total + each * 10.0;
    return total;
  });
  const Tensor one = vector({1});
  EXPECT_EQ(sum({one, one}, {one}).item<float>(), 12.0f);
  EXPECT_EQ(sum({one}, {one, one}).item<float>(), 21.0f);
  EXPECT_EQ(sum({one, one}, {one}).item<float>(), 12.0f);
  EXPECT_EQ(sum.trace_count(), 2);
}

TEST_F(StructuredFunctionTest, PlainValuesArePartOfTheKind) {
  int runs = 0;
  const auto f = function([&](const Tensor& x, bool training, int times) {
    ++runs;
    return training ? x * static_cast<double>(times) : x;
  });
  EXPECT_EQ(f(vector({1}), true, 3).item<float>(), 3.0f);
  EXPECT_EQ(f(vector({1}), false, 3).item<float>(), 1.0f);
  EXPECT_EQ(f(vector({1}), true, 4).item<float>(), 4.0f);
  EXPECT_EQ(f(vector({2}), true, 3).item<float>(), 6.0f);
  EXPECT_EQ(runs, 3);
}

TEST_F(StructuredFunctionTest, PlainValuesThatDifferALittleAreOtherKinds) {
  const auto f = function([](const Tensor& x, double rate) { return x * rate; });
  for (double rate : {1e-7, 3e-7, 0.1, 0.1 + 1e-16 * 4, -0.0, 1e300}) {
    EXPECT_EQ(f(Tensor(1.0), rate).item<double>(), rate);
  }
  EXPECT_EQ(f.trace_count(), 6);

  const auto g = function([](const Tensor& x, const std::string& a, const std::string& b) {
    return x * static_cast<double>(10 * a.size() + b.size());
  });
  EXPECT_EQ(g(Tensor(1.0), "a;", "b").item<double>(), 21);
  EXPECT_EQ(g(Tensor(1.0), "a", ";b").item<double>(), 12);
  EXPECT_EQ(g(Tensor(1.0), "1:a", "").item<double>(), 30);
}

TEST_F(StructuredFunctionTest, MapsKeepTheirKeys) {
  const auto f = function([](const std::map<std::string, Tensor>& features) {
    std::map<std::string, Tensor> twice;
    for (const auto& [name, value] : features) twice[name + "_twice"] = value * 2.0;
    return twice;
  });
  const auto result = f({{"age", vector({1})}, {"height", vector({2})}});
  EXPECT_EQ(result.at("height_twice").item<float>(), 4.0f);
}

TEST_F(StructuredFunctionTest, UnderATapeStructuresAreSeenThrough) {
  const auto f = function([](const std::pair<Tensor, Tensor>& p) { return p.first * p.second; });
  const Tensor x(3.0);
  GradientTape tape;
  tape.watch(x);
  EXPECT_EQ(tape.gradient(f({x, x}), x).item<double>(), 6.0);
}

// ---- Input signatures ----

TEST_F(StructuredFunctionTest, AnInputSignatureIsTracedOnceAndHolds) {
  const auto f = function(
      [](const Tensor& x, const Tensor& w) { return matmul(x, w); },
      {.name = "layer", .input_signature = {{DType::float32, {-1, 3}}, {DType::float32, {3, 3}}}});
  const Tensor w = fill({3, 3}, 1.0);
  f(fill({5, 3}, 1.0), w);
  f(fill({3, 3}, 1.0), w);  // Three rows are rows still.
  f(fill({1, 3}, 1.0), w);
  EXPECT_EQ(f.trace_count(), 1);
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        f(fill({5, 4}, 1.0), w);
      },
      {"layer: argument 0 is float32[5,4]", "float32[None,3]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        f(fill({5, 3}, 1.0, DType::float64), w);
      },
      {"float64[5,3]", "float32[None,3]"}));
  EXPECT_EQ(f(fill({2, 3}, 1.0), w).to_vector<float>()[0], 3.0f);
}

TEST_F(StructuredFunctionTest, AnInputSignatureNamesWhatDoesNotFit) {
  const auto f = function(
      [](const Tensor& x, const Tensor& y) { return x + y; },
      {.name = "sum", .input_signature = {{DType::float32, {-1, 2}}, {DType::float32, {-1, 2}}}});
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        f(fill({5, 2}, 1.0), fill({4, 2}, 1.0));
      },
      {"sum: argument 0 has 5 rows, argument 1 has 4"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        f(fill({5, 2}, 1.0), vector({1, 2}));
      },
      {"argument 1 is float32[2]", "float32[None,2]"}));
  const FlatFunction flat([](const Tensors& x) { return x; },
                          {.name = "flat", .input_signature = {{DType::float32, {-1}}}});
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        flat(Tensors{vector({1}), vector({2})});
      },
      {"flat: 2 tensors given, the input signature has 1"}));
}

TEST_F(StructuredFunctionTest, AnInputSignatureHasAnyNumberOfTensors) {
  std::vector<TensorSpec> signature(100, {DType::float32, {2}});
  signature.back() = {DType::float32, {-1, 2}};
  const FlatFunction wide([](const Tensors& x) { return Tensors{x[98] + x[99]}; },
                          {.input_signature = signature});
  Tensors arguments(100, vector({1, 2}));
  for (const int64_t rows : {1, 2, 3}) {
    arguments.back() = fill({rows, 2}, 1);
    EXPECT_EQ(wide(arguments)[0].shape(), (Shape{rows, 2}));
  }
  EXPECT_EQ(wide.trace_count(), 1);
}

TEST_F(StructuredFunctionTest, AnInputSignatureHoldsInsideOthersAndUnderTapes) {
  const auto f = function([](const Tensor& x) { return x * 2.0; },
                          {.name = "inner", .input_signature = {{DType::float32, {-1, 2}}}});
  const auto outer = function([&](const Tensor& x) { return f(x); });
  EXPECT_EQ(outer(fill({3, 2}, 1.0)).shape(), (Shape{3, 2}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        outer(fill({3, 4}, 1.0));
      },
      {"inner: argument 0 is float32[3,4]", "float32[None,2]"}));
  GradientTape tape;
  const Tensor x = fill({3, 4}, 1.0);
  tape.watch(x);
  EXPECT_TRUE(throws<InvalidArgument>([&] { f(x); }, {"inner: argument 0 is float32[3,4]"}));
}

TEST_F(StructuredFunctionTest, AFunctionMayAskForItsProgramWhileItIsTraced) {
  std::string seen;
  FlatFunction* self = nullptr;
  FlatFunction f(
      [&](const Tensors& x) {
        seen = self->explain();
        EXPECT_TRUE(throws<FailedPrecondition>(
            [&] { function([](const Tensor& y) { return y; }).trace(vector({1})); },
            {"being traced", "call it"}));
        return Tensors{x[0] * 2.0};
      },
      {});
  self = &f;
  EXPECT_EQ(f(Tensors{vector({1})})[0].item<float>(), 2.0f);
  EXPECT_EQ(seen, "");
  f(Tensors{fill({2, 2}, 1.0)});
  EXPECT_NE(seen.find("mul"), std::string::npos) << seen;
}

TEST_F(StructuredFunctionTest, AProgramIsExplainedWhileOthersRunIt) {
  const auto f = function([](const Tensor& x) { return relu(x) * 2.0; });
  f(vector({1}));
  std::jthread other([&](const std::stop_token& stop) {
    for (int64_t rows = 1; !stop.stop_requested(); rows = rows % 50 + 1) f(fill({rows}, 1.0));
  });
  for (int64_t i = 1; i < 50; ++i) {
    EXPECT_NE(f.explain().find("relu"), std::string::npos);
    EXPECT_GT(f.memory_plan(i).devices[0].bytes(), 0u);
  }
}

// ---- Variables ----

TEST_F(StructuredFunctionTest, VariablesAreCreatedOnTheFirstCallOnly) {
  Variable kept;
  const auto lazy = function([&](const Tensor& x) {
    if (!kept.defined()) {
      const auto init = init_scope();
      kept = Variable(random_normal({3}), {.name = "kept"});
    }
    return x * kept;
  });
  const Tensor first = lazy(fill({2, 3}, 1.0));
  EXPECT_EQ(first.rows(0, 1).to_vector<float>(), kept.value().to_vector<float>());
  lazy(fill({2, 3}, 1.0, DType::float32));

  int calls = 0;
  const auto careless = function(
      [&](const Tensor& x) {
        ++calls;
        const Variable fresh(Tensor(2.0f), {.name = "fresh"});
        return x * fresh;
      },
      {.name = "careless"});
  EXPECT_EQ(careless(vector({1, 2})).to_vector<float>(), (Floats{2, 4}));
  EXPECT_TRUE(throws<FailedPrecondition>(
      [&] {
        careless(fill({2, 2}, 1.0));
      },
      {"variable 'fresh'", "careless", "first call only"}));
  EXPECT_EQ(careless(vector({3, 4})).to_vector<float>(), (Floats{6, 8}));  // Still usable.
}

TEST_F(StructuredFunctionTest, AnInitialValueOfTheTraceIsRefusedWithAdvice) {
  const auto f = function([](const Tensor& x) { return x * Variable(x, {.name = "w"}); });
  EXPECT_TRUE(throws<FailedPrecondition>([&] { f(vector({1})); }, {"'w'", "init_scope"}));
}

// ---- Warnings ----

TEST_F(StructuredFunctionTest, FrequentRetracingIsWarnedOfWithWhatChanges) {
  std::vector<std::string> messages;
  logging::set_sink([&](logging::Level, std::string_view text) { messages.emplace_back(text); });
  const auto f = function([](const Tensor& x, double rate) { return x * rate; }, {.name = "decay"});
  for (int i = 0; i < 20; ++i) f(vector({1}), 0.1 * i);
  EXPECT_EQ(messages.size(), 1u);  // And again only after four times as many.
  for (int i = 20; i < 25; ++i) f(vector({1}), 0.1 * i);
  logging::set_sink({});
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_NE(messages[0].find("decay: traced in 5 of its last 5 calls"), std::string::npos)
      << messages[0];
  EXPECT_NE(messages[0].find("'0.3"), std::string::npos) << messages[0];
}

TEST_F(StructuredFunctionTest, AWarningNamesTheArgumentOrDeviceThatChanges) {
  devices::test::add_test_gpu();
  std::vector<std::string> messages;
  logging::set_sink([&](logging::Level, std::string_view text) { messages.emplace_back(text); });
  const auto f = function([](const Tensor& x) { return x * 2.0; }, {.name = "wide"});
  for (int64_t i = 1; i <= 5; ++i) f(fill({2, i}, 1.0));
  const auto g = function([](const Tensor& x) { return x * 2.0; }, {.name = "moving"});
  for (int i = 0; i < 4; ++i) g(fill({1, i + 1}, 1.0));
  {
    const auto scope = device("/GPU:0");
    g(fill({1, 4}, 1.0));
  }
  logging::set_sink({});
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_NE(messages[0].find("argument 0 was float32[None,4], then float32[None,5]"),
            std::string::npos)
      << messages[0];
  EXPECT_NE(messages[1].find("where its variables are, then on /device:GPU:0"), std::string::npos)
      << messages[1];
}

}  // namespace
}  // namespace tandem

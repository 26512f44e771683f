// A model tells how its layers are connected.
#include <gtest/gtest.h>

#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem::keras {
namespace {

using harness::throws;
using Sources = std::vector<LayerCall::Source>;

TEST(ModelCalls, OfADescribedModelWithASharedLayer) {
  const KerasTensor a = Input({4}, DType::float32, "a");
  const KerasTensor b = Input({4}, DType::float32, "b");
  const layers::Dense shared(3, {.name = "shared"});
  const KerasTensor sum = layers::Add({.name = "sum"})(KerasTensors{shared(a), shared(b)});
  const Model model({a, b}, {layers::Dense(2, {.name = "out"})(sum)}, "twins");
  const std::vector<LayerCall> calls = model.calls();
  ASSERT_EQ(calls.size(), 6u);
  const std::vector<std::string> names = {"a", "b", "shared", "shared", "sum", "out"};
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(calls[i].layer.name(), names[i]);
  EXPECT_EQ(calls[0].inputs, Sources());
  EXPECT_EQ(calls[2].inputs, (Sources{{0, 0}}));
  EXPECT_EQ(calls[3].inputs, (Sources{{1, 0}}));
  EXPECT_EQ(calls[4].inputs, (Sources{{2, 0}, {3, 0}}));
  EXPECT_EQ(calls[5].inputs, (Sources{{4, 0}}));
  EXPECT_EQ(calls[2].layer, calls[3].layer);
  EXPECT_EQ(calls[5].outputs[0].shape.str(), "[None,2]");
}

TEST(ModelCalls, OfAChainAndOfAPartOfAModel) {
  const Sequential chain(
      {layers::Dense(3, {.name = "first", .input_shape = {2}}), layers::Flatten({.name = "flat"})});
  const auto calls = chain.calls();
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[1].layer.name(), "first");
  EXPECT_EQ(calls[2].inputs, (Sources{{1, 0}}));
  const Sequential unbuilt({layers::Dense(3, {.name = "only"})});
  ASSERT_EQ(unbuilt.calls().size(), 1u);
  EXPECT_EQ(unbuilt.calls()[0].inputs, Sources());

  const KerasTensor x = Input({2});
  const KerasTensor middle = layers::Dense(5, {.name = "middle"})(x);
  const Model rest({middle}, {layers::Dense(1, {.name = "last"})(middle)});
  ASSERT_EQ(rest.calls().size(), 2u);
  EXPECT_EQ(rest.calls()[0].layer.name(), "middle_output");
}

TEST(ModelCalls, AreToldWhatTheyWereDescribedWith) {
  random::set_seed(3);
  const layers::MultiHeadAttention attention(2, 4, {.name = "attention"});
  const KerasTensor x = Input({3, 5}, DType::float32, "x");
  const KerasTensor seen = Input({3}, DType::boolean, "seen");
  const KerasTensors both = attention.all(
      {x, x},
      {.mask = seen, .arguments = {{"use_causal_mask", true}, {"return_attention_scores", true}}});
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[1].shape().str(), "[None,2,3,3]");
  const Model model({x, seen}, both);
  const Tensor values = random_normal({2, 3, 5});
  const auto mask = Tensor::from(std::vector<bool>{true, true, false, true, false, true}, {2, 3});
  const Tensors results = model(Tensors{values, mask});
  const layers::MultiHeadAttention causal(2, 4, {.use_causal_mask = true});
  causal.build({{DType::float32, {-1, 3, 5}}, {DType::float32, {-1, 3, 5}}});
  causal.set_weights(attention.get_weights());
  const Tensor expected = causal(Tensors{values, values}, {.mask = mask})[0];
  EXPECT_LT(reduce_max(abs(results[0] - expected)).item<float>(), 1e-5f);
  const Tensor weights = results[1];  // In the first row the last token counts for nobody.
  EXPECT_LT(reduce_max(abs(reduce_sum(weights, {.axes = {-1}}) - 1.0f)).item<float>(), 1e-5f);
  EXPECT_EQ(reduce_max(slice(weights, {0, 0, 0, 2}, {1, 2, 3, 1})).item<float>(), 0);
  EXPECT_EQ(reduce_max(slice(weights, {0, 0, 0, 1}, {2, 2, 1, 2})).item<float>(), 0);  // Causal.

  const LayerCall call = model.calls().back();
  EXPECT_TRUE(call.has_mask);
  EXPECT_EQ(call.inputs.size(), 3u);
  EXPECT_EQ(std::get<bool>(call.arguments.at("use_causal_mask")), true);
  const std::string text = utils::model_to_dot(model);
  EXPECT_NE(text.find("\\nmask, return_attention_scores=true, use_causal_mask=true"),
            std::string::npos)
      << text;
}

TEST(ModelCalls, MayHaveAPhaseOfTheirOwn) {
  const KerasTensor x = Input({100});
  const layers::Dropout dropout(0.5);
  const Model model({x},
                    {dropout(x, {.training = true}), dropout(x, {.training = false}), dropout(x)});
  const Tensor ones = tandem::ones({4, 100});
  const auto dropped = [](const Tensor& y) { return reduce_min(y).item<float>() == 0; };
  for (const bool training : {false, true}) {
    const Tensors results = model(Tensors{ones}, {.training = training});
    EXPECT_TRUE(dropped(results[0]));
    EXPECT_FALSE(dropped(results[1]));
    EXPECT_EQ(dropped(results[2]), training);
  }
  EXPECT_EQ(model.calls()[1].training, std::optional<bool>(true));
}

TEST(ModelCalls, AreRefusedNamesThatALayerDoesNotTake) {
  const KerasTensor x = Input({3, 5});
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        layers::Dense(2, {.name = "d"})(x, {.arguments = {{"causal", true}}});
      },
      {"d: a call is given 'causal'; it takes no arguments by name"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        layers::MultiHeadAttention(2, 4)(KerasTensors{x, x}, {.arguments = {{"causal", true}}});
      },
      {"'causal'", "use_causal_mask, return_attention_scores can be given"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        layers::MultiHeadAttention(2, 4)(KerasTensors{x, x},
                                         {.arguments = {{"use_causal_mask", "yes"}}});
      },
      {"use_causal_mask is given what is neither true nor false"}));
}

TEST(ModelCalls, AreAPictureForDot) {
  const Sequential model({layers::Dense(3, {.name = "a \"quoted\" one", .input_shape = {2}})},
                         "small");
  const std::string text = utils::model_to_dot(model, {.show_shapes = true});
  for (const char* part : {"digraph \"small\" {", "rankdir=TB", "a \\\"quoted\\\" one (Dense)",
                           "\\n[None,3]", "n0 -> n1;"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_TRUE(throws<InvalidArgument>([&] { utils::model_to_dot(model, {.rankdir = "up"}); },
                                      {"rankdir", "LR"}));
}

}  // namespace
}  // namespace tandem::keras

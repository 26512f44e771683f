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

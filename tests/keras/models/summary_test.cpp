// The expected texts are what Keras 3.15 prints for the same models, 80 columns wide.
#include <gtest/gtest.h>

#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem::keras {
namespace {

using namespace layers;

class Summary : public harness::FreshDevices {};

TEST_F(Summary, OfASequenceHasThreeColumns) {
  const Sequential model(
      {Dense(2000, {.name = "dense", .input_shape = {784}}),
       BatchNormalization({.name = "batch_normalization_1"}), Dense(10, {.name = "dense_1"})},
      "sequential");
  EXPECT_EQ(model.summary(), R"(Model: "sequential"
┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━┓
┃ Layer (type)                    ┃ Output Shape           ┃       Param # ┃
┡━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━┩
│ dense (Dense)                   │ (None, 2000)           │     1,570,000 │
├─────────────────────────────────┼────────────────────────┼───────────────┤
│ batch_normalization_1           │ (None, 2000)           │         8,000 │
│ (BatchNormalization)            │                        │               │
├─────────────────────────────────┼────────────────────────┼───────────────┤
│ dense_1 (Dense)                 │ (None, 10)             │        20,010 │
└─────────────────────────────────┴────────────────────────┴───────────────┘
 Total params: 1,598,010 (6.10 MB)
 Trainable params: 1,594,010 (6.08 MB)
 Non-trainable params: 4,000 (15.62 KB)
)");
}

TEST_F(Summary, OfAGraphSaysWhatIsConnected) {
  const KerasTensor x = Input({32, 32, 3}, DType::float32, "input_layer_1");
  const KerasTensor a =
      Conv2D(8, 3, {.padding = "same", .name = "a_long_name_of_a_convolution"})(x);
  const KerasTensor b = BatchNormalization({.name = "batch_normalization"})(a);
  const KerasTensor c = Add({.name = "add"})({a, b});
  const KerasTensor e = GlobalAveragePooling2D({.name = "global_average_pooling2d"})(c);
  const KerasTensor z = Input({5}, DType::float32, "input_layer_2");
  const KerasTensor f = Concatenate({.name = "concatenate"})({e, z});
  const KerasTensor g = Dense(1000, {.name = "dense_2"})(f);
  const Model model({x, z}, {Dense(7, {.name = "dense_3"})(g), Dense(11, {.name = "dense_4"})(g)},
                    "functional_1");
  EXPECT_EQ(model.summary(), R"(Model: "functional_1"
┏━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━┓
┃ Layer (type)        ┃ Output Shape      ┃    Param # ┃ Connected to      ┃
┡━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━┩
│ input_layer_1       │ (None, 32, 32, 3) │          0 │ -                 │
│ (InputLayer)        │                   │            │                   │
├─────────────────────┼───────────────────┼────────────┼───────────────────┤
│ a_long_name_of_a_c… │ (None, 32, 32, 8) │        224 │ input_layer_1[0]… │
│ (Conv2D)            │                   │            │                   │
├─────────────────────┼───────────────────┼────────────┼───────────────────┤
│ batch_normalization │ (None, 32, 32, 8) │         32 │ a_long_name_of_a… │
│ (BatchNormalizatio… │                   │            │                   │
├─────────────────────┼───────────────────┼────────────┼───────────────────┤
│ add (Add)           │ (None, 32, 32, 8) │          0 │ a_long_name_of_a… │
│                     │                   │            │ batch_normalizat… │
├─────────────────────┼───────────────────┼────────────┼───────────────────┤
│ global_average_poo… │ (None, 8)         │          0 │ add[0][0]         │
│ (GlobalAveragePool… │                   │            │                   │
├─────────────────────┼───────────────────┼────────────┼───────────────────┤
│ input_layer_2       │ (None, 5)         │          0 │ -                 │
│ (InputLayer)        │                   │            │                   │
├─────────────────────┼───────────────────┼────────────┼───────────────────┤
│ concatenate         │ (None, 13)        │          0 │ global_average_p… │
│ (Concatenate)       │                   │            │ input_layer_2[0]… │
├─────────────────────┼───────────────────┼────────────┼───────────────────┤
│ dense_2 (Dense)     │ (None, 1000)      │     14,000 │ concatenate[0][0] │
├─────────────────────┼───────────────────┼────────────┼───────────────────┤
│ dense_3 (Dense)     │ (None, 7)         │      7,007 │ dense_2[0][0]     │
├─────────────────────┼───────────────────┼────────────┼───────────────────┤
│ dense_4 (Dense)     │ (None, 11)        │     11,011 │ dense_2[0][0]     │
└─────────────────────┴───────────────────┴────────────┴───────────────────┘
 Total params: 32,274 (126.07 KB)
 Trainable params: 32,258 (126.01 KB)
 Non-trainable params: 16 (64.00 B)
)");
}

TEST_F(Summary, OfASharedLayerAndANestedModel) {
  const KerasTensor x = Input({3}, DType::float32, "input_layer_4");
  const Model inner({x}, {Dropout(0.5, {.name = "dropout"})(Dense(3, {.name = "dense_7"})(x))},
                    "functional_3");
  EXPECT_NE(inner.summary().find("│ input_layer_4 (InputLayer)      │ (None, 3)              │"),
            std::string::npos)
      << inner.summary();
  const KerasTensor y = Input({3}, DType::float32, "input_layer_5");
  const Dense shared(3, {.name = "dense_8"});
  const Model model({y}, {shared(inner(shared(y)))}, "functional_4");
  EXPECT_EQ(model.summary(), R"(Model: "functional_4"
┏━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━┓
┃ Layer (type)        ┃ Output Shape      ┃    Param # ┃ Connected to      ┃
┡━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━┩
│ input_layer_5       │ (None, 3)         │          0 │ -                 │
│ (InputLayer)        │                   │            │                   │
├─────────────────────┼───────────────────┼────────────┼───────────────────┤
│ dense_8 (Dense)     │ (None, 3)         │         12 │ input_layer_5[0]… │
│                     │                   │            │ functional_3[0][… │
├─────────────────────┼───────────────────┼────────────┼───────────────────┤
│ functional_3        │ (None, 3)         │         12 │ dense_8[0][0]     │
│ (Functional)        │                   │            │                   │
└─────────────────────┴───────────────────┴────────────┴───────────────────┘
 Total params: 24 (96.00 B)
 Trainable params: 24 (96.00 B)
 Non-trainable params: 0 (0.00 B)
)");
}

TEST_F(Summary, NeedsWeights) {
  const Sequential model({Dense(4)}, "later");
  EXPECT_TRUE(harness::throws<FailedPrecondition>([&] { model.summary(); }, {"later", "build()"}));
  model.build({{DType::float32, {-1, 3}}});
  EXPECT_NE(model.summary().find("Total params: 16 (64.00 B)"), std::string::npos);
}

}  // namespace
}  // namespace tandem::keras

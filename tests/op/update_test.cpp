#include "op/update.h"

#include <gtest/gtest.h>

#include "op/registry.h"

namespace tandem::op {
namespace {

const TensorType kSmall{DType::float32, {3}};
const TensorType kEmpty{DType::float32, {0}};
const TensorType kLarge{DType::float32, {2, 100}};
const TensorType kRate{DType::float64, {}};
const TensorType kStep{DType::int64, {}};
const TensorType kCondition{DType::boolean, {}};

/// Three gradients whose variables have two slots each.
Signature adam() {
  Signature signature;
  signature.op = &find_op("adam_update");
  signature.inputs = UpdateLayout::inputs<TensorType>(
      {kSmall, kEmpty, kLarge}, {.rate = kRate, .step = kStep, .condition = kCondition});
  for (const TensorType& type : {kSmall, kEmpty, kLarge}) {
    signature.ranges.insert(signature.ranges.end(), 3, type);
  }
  return signature;
}

TEST(UpdateLayout, OperandsAreFoundWhereACallHasThem) {
  const Signature signature = adam();
  const UpdateLayout layout(signature);
  EXPECT_EQ(layout.variables(), 3u);
  EXPECT_EQ(layout.slots_each(), 2u);
  EXPECT_EQ(signature.inputs[layout.rate()], kRate);
  EXPECT_EQ(signature.inputs[layout.step()], kStep);
  EXPECT_EQ(signature.inputs[layout.condition()], kCondition);
  EXPECT_EQ(layout.gradients(signature.inputs).back(), kLarge);
  EXPECT_EQ(layout.variable(2), 6u);
  EXPECT_EQ(layout.slot(2, 1), 8u);
  for (size_t i = 0; i < signature.ranges.size(); ++i) {
    EXPECT_EQ(signature.ranges[i], signature.inputs[layout.owner(i)]) << i;
  }
}

TEST(UpdateLayout, GradientsLieEndToEnd) {
  const UpdateLayout layout(adam());
  EXPECT_EQ(layout.elements(), 203);
  EXPECT_EQ(layout.start(1), 3);
  EXPECT_EQ(layout.start(2), 3);
  EXPECT_EQ(layout.variable_with(2), 0u);
  EXPECT_EQ(layout.variable_with(3), 2u);
  EXPECT_EQ(layout.variable_with(202), 2u);
}

TEST(UpdateLayout, EveryUpdateIsSplitOverItsGradientsAlone) {
  const Signature signature = adam();
  for (const char* name :
       {"sgd_update", "rmsprop_update", "adagrad_update", "adam_update", "accumulate_update"}) {
    const OpDef& op = find_op(name);
    EXPECT_TRUE(op.is_update) << name;
    const Split split = op.split(signature);
    EXPECT_EQ(split.extent, 4) << name;
    EXPECT_EQ(split.aligned.size(), UpdateLayout(signature).variables()) << name;
  }
  EXPECT_FALSE(find_op("assign").is_update);
}

}  // namespace
}  // namespace tandem::op

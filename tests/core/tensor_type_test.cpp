#include "core/tensor_type.h"

#include <gtest/gtest.h>

#include "tandem/function.h"
#include "tandem/ops.h"

namespace tandem {
namespace {

TEST(TensorType, PrintsItself) {
  EXPECT_EQ((TensorType{DType::float32, {2, 3}}.str()), "float32[2,3]");
  EXPECT_EQ((TensorType{DType::boolean, {}}.str()), "bool[]");
  EXPECT_EQ((TensorType{DType::float64, {-1, 784}}.str()), "float64[None,784]");
  EXPECT_EQ((TensorType{DType::float64, {-1, 784}}.resolved(128).str()), "float64[128,784]");
  EXPECT_EQ((TensorSpec{DType::int32, {-1}}.str()), "int32[None]");
  EXPECT_EQ(listed({}), "");
}

TEST(TensorType, IsThatOfATensorOrAVariable) {
  const Tensor x = zeros({2, 1});
  const Variable v(zeros({4}, DType::float64));
  EXPECT_EQ(type_of(x), (TensorType{DType::float32, {2, 1}}));
  EXPECT_EQ(type_of(v), (TensorType{DType::float64, {4}}));
  EXPECT_EQ(listed(types_of(Tensors{x, Tensor(int64_t{1})})), "float32[2,1], int64[]");
}

}  // namespace
}  // namespace tandem

#include "ops.h"

namespace tandem::interop {
namespace {

Shape shape_of(const Json& json) {
  const auto sizes = json.get<std::vector<int64_t>>();
  return Shape(std::span<const int64_t>(sizes));
}

ReduceOptions reduction(const Json& attributes) {
  ReduceOptions options{.keepdims = attributes.at("keepdims").get<bool>()};
  if (!attributes.at("axes").is_null()) options.axes = attributes["axes"].get<std::vector<int>>();
  return options;
}

DType dtype_named(const std::string& name) {
  using enum DType;
  for (DType dtype : {float32, float64, float16, bfloat16, uint8, int32, int64, boolean}) {
    if (name_of(dtype) == name) return dtype;
  }
  throw NotFound("interop: no dtype is called " + name);
}

OpFn unary(Tensor (*f)(const Tensor&)) {
  return [f](const Tensors& in, const Json&) { return f(in.at(0)); };
}

OpFn binary(Tensor (*f)(const Tensor&, const Tensor&)) {
  return [f](const Tensors& in, const Json&) { return f(in.at(0), in.at(1)); };
}

OpFn reduce(Tensor (*f)(const Tensor&, const ReduceOptions&)) {
  return [f](const Tensors& in, const Json& a) { return f(in.at(0), reduction(a)); };
}

}  // namespace

const std::map<std::string, OpFn>& ops() {
  static const std::map<std::string, OpFn> table = {
      {"add", binary(add)},
      {"sub", binary(sub)},
      {"mul", binary(mul)},
      {"equal", binary(equal)},
      {"relu", unary(relu)},
      {"reduce_sum", reduce(reduce_sum)},
      {"reduce_mean", reduce(reduce_mean)},
      {"softmax_cross_entropy_with_logits", binary(softmax_cross_entropy_with_logits)},
      {"argmax",
       [](const Tensors& in, const Json& a) { return argmax(in.at(0), a.at("axis").get<int>()); }},
      {"matmul",
       [](const Tensors& in, const Json& a) {
         return matmul(in.at(0), in.at(1),
                       {.transpose_a = a.at("transpose_a").get<bool>(),
                        .transpose_b = a.at("transpose_b").get<bool>()});
       }},
      {"reshape",
       [](const Tensors& in, const Json& a) { return reshape(in.at(0), shape_of(a.at("shape"))); }},
      {"broadcast_to",
       [](const Tensors& in, const Json& a) {
         return broadcast_to(in.at(0), shape_of(a.at("shape")));
       }},
      {"cast",
       [](const Tensors& in, const Json& a) {
         return cast(in.at(0), dtype_named(a.at("dtype").get<std::string>()));
       }},
  };
  return table;
}

}  // namespace tandem::interop

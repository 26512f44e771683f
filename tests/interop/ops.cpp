#include "ops.h"

#include <array>
#include <utility>
#include <vector>

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

/// An op of one tensor along one axis.
OpFn along(Tensor (*f)(const Tensor&, int)) {
  return [f](const Tensors& in, const Json& a) { return f(in.at(0), a.at("axis").get<int>()); };
}

template <class T>
T list(const Json& attributes, const char* name) {
  return attributes.at(name).get<T>();
}
using Sizes = std::vector<int64_t>;
using Pair = std::array<int64_t, 2>;

Padding padding(const Json& attributes) {
  return attributes.at("padding") == "SAME" ? Padding::same : Padding::valid;
}

Pool2dOptions pooling(const Json& a) {
  return {.window = list<Pair>(a, "window"),
          .strides = list<Pair>(a, "strides"),
          .padding = padding(a)};
}

using Table = std::map<std::string, OpFn>;

Table elementwise_ops() {
  return {
      {"add", binary(add)},
      {"sub", binary(sub)},
      {"mul", binary(mul)},
      {"div", binary(div)},
      {"floor_div", binary(floor_div)},
      {"mod", binary(mod)},
      {"pow", binary(pow)},
      {"maximum", binary(maximum)},
      {"minimum", binary(minimum)},
      {"squared_difference", binary(squared_difference)},
      {"neg", unary(neg)},
      {"abs", unary(abs)},
      {"sign", unary(sign)},
      {"square", unary(square)},
      {"reciprocal", unary(reciprocal)},
      {"sqrt", unary(sqrt)},
      {"rsqrt", unary(rsqrt)},
      {"floor", unary(floor)},
      {"ceil", unary(ceil)},
      {"round", unary(round)},
      {"exp", unary(exp)},
      {"expm1", unary(expm1)},
      {"log", unary(log)},
      {"log1p", unary(log1p)},
      {"sin", unary(sin)},
      {"cos", unary(cos)},
      {"tan", unary(tan)},
      {"asin", unary(asin)},
      {"acos", unary(acos)},
      {"atan", unary(atan)},
      {"sinh", unary(sinh)},
      {"cosh", unary(cosh)},
      {"tanh", unary(tanh)},
      {"erf", unary(erf)},
      {"equal", binary(equal)},
      {"not_equal", binary(not_equal)},
      {"less", binary(less)},
      {"less_equal", binary(less_equal)},
      {"greater", binary(greater)},
      {"greater_equal", binary(greater_equal)},
      {"logical_and", binary(logical_and)},
      {"logical_or", binary(logical_or)},
      {"logical_xor", binary(logical_xor)},
      {"logical_not", unary(logical_not)},
      {"where", [](const Tensors& in, const Json&) { return where(in.at(0), in.at(1), in.at(2)); }},
      {"clip",
       [](const Tensors& in, const Json& a) {
         return clip(in.at(0), a.at("low").get<double>(), a.at("high").get<double>());
       }},
  };
}

Table activation_ops() {
  return {
      {"relu", unary(relu)},
      {"relu6", unary(relu6)},
      {"sigmoid", unary(sigmoid)},
      {"silu", unary(silu)},
      {"softplus", unary(softplus)},
      {"leaky_relu",
       [](const Tensors& in, const Json& a) {
         return leaky_relu(in.at(0), a.at("alpha").get<double>());
       }},
      {"elu", [](const Tensors& in, const Json&) { return elu(in.at(0)); }},
      {"gelu",
       [](const Tensors& in, const Json& a) {
         return gelu(in.at(0), {.approximate = a.at("approximate").get<bool>()});
       }},
      {"softmax", along(softmax)},
      {"log_softmax", along(log_softmax)},
      {"softmax_cross_entropy_with_logits", binary([](const Tensor& labels, const Tensor& logits) {
         return softmax_cross_entropy_with_logits(labels, logits);
       })},
      {"sparse_softmax_cross_entropy_with_logits",
       binary(sparse_softmax_cross_entropy_with_logits)},
      {"sigmoid_cross_entropy_with_logits", binary(sigmoid_cross_entropy_with_logits)},
  };
}

Table reduction_ops() {
  return {
      {"reduce_sum", reduce(reduce_sum)},
      {"reduce_mean", reduce(reduce_mean)},
      {"reduce_max", reduce(reduce_max)},
      {"reduce_min", reduce(reduce_min)},
      {"reduce_prod", reduce(reduce_prod)},
      {"reduce_any", reduce(reduce_any)},
      {"reduce_all", reduce(reduce_all)},
      {"reduce_variance", reduce(reduce_variance)},
      {"reduce_std", reduce(reduce_std)},
      {"reduce_logsumexp", reduce(reduce_logsumexp)},
      {"argmax", along(argmax)},
      {"argmin", along(argmin)},
      {"cumsum",
       [](const Tensors& in, const Json& a) {
         return cumsum(in.at(0), {.axis = a.at("axis").get<int>(),
                                  .exclusive = a.at("exclusive").get<bool>(),
                                  .reverse = a.at("reverse").get<bool>()});
       }},
  };
}

Table shaping_ops() {
  return {
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
      {"expand_dims", along(expand_dims)},
      {"transpose",
       [](const Tensors& in, const Json& a) {
         return transpose(in.at(0), list<std::vector<int>>(a, "permutation"));
       }},
      {"tile", [](const Tensors& in,
                  const Json& a) { return tile(in.at(0), list<Sizes>(a, "multiples")); }},
      {"squeeze",
       [](const Tensors& in, const Json& a) {
         return squeeze(in.at(0), list<std::vector<int>>(a, "axes"));
       }},
      {"split",
       [](const Tensors& in, const Json& a) {
         return split(in.at(0), a.at("parts").get<int>(), a.at("axis").get<int>())
             .at(a.at("part").get<size_t>());
       }},
      {"unstack",
       [](const Tensors& in, const Json& a) {
         return unstack(in.at(0), a.at("axis").get<int>()).at(a.at("part").get<size_t>());
       }},
      {"concat",
       [](const Tensors& in, const Json& a) { return concat(in, a.at("axis").get<int>()); }},
      {"stack",
       [](const Tensors& in, const Json& a) { return stack(in, a.at("axis").get<int>()); }},
      {"slice",
       [](const Tensors& in, const Json& a) {
         return slice(in.at(0), list<Sizes>(a, "begin"), list<Sizes>(a, "size"));
       }},
      {"strided_slice",
       [](const Tensors& in, const Json& a) {
         std::vector<Stride> strides;
         for (const auto& s : list<std::vector<std::array<int64_t, 3>>>(a, "strides")) {
           strides.push_back({.begin = s[0], .end = s[1], .step = s[2]});
         }
         return strided_slice(in.at(0), strides);
       }},
      {"pad",
       [](const Tensors& in, const Json& a) {
         return pad(in.at(0), list<std::vector<std::pair<int64_t, int64_t>>>(a, "paddings"),
                    {.value = a.at("value").get<double>()});
       }},
      {"gather", [](const Tensors& in,
                    const Json& a) { return gather(in.at(0), in.at(1), a.at("axis").get<int>()); }},
      {"one_hot",
       [](const Tensors& in, const Json& a) {
         return one_hot(in.at(0), a.at("depth").get<int64_t>(),
                        {.dtype = dtype_named(a.at("dtype").get<std::string>())});
       }},
  };
}

Table layer_ops() {
  return {
      {"matmul",
       [](const Tensors& in, const Json& a) {
         return matmul(in.at(0), in.at(1),
                       {.transpose_a = a.at("transpose_a").get<bool>(),
                        .transpose_b = a.at("transpose_b").get<bool>()});
       }},
      {"conv2d",
       [](const Tensors& in, const Json& a) {
         return conv2d(in.at(0), in.at(1),
                       {.strides = list<Pair>(a, "strides"), .padding = padding(a)});
       }},
      {"conv2d_dilated",
       [](const Tensors& in, const Json& a) {
         return conv2d(in.at(0), in.at(1),
                       {.padding = padding(a), .dilations = list<Pair>(a, "dilations")});
       }},
      {"conv2d_grouped",
       [](const Tensors& in, const Json& a) {
         return conv2d(in.at(0), in.at(1),
                       {.strides = list<Pair>(a, "strides"),
                        .padding = padding(a),
                        .groups = a.at("groups").get<int64_t>()});
       }},
      {"depthwise_conv2d",
       [](const Tensors& in, const Json& a) {
         return depthwise_conv2d(in.at(0), in.at(1),
                                 {.strides = list<Pair>(a, "strides"), .padding = padding(a)});
       }},
      {"max_pool2d",
       [](const Tensors& in, const Json& a) { return max_pool2d(in.at(0), pooling(a)); }},
      {"avg_pool2d",
       [](const Tensors& in, const Json& a) { return avg_pool2d(in.at(0), pooling(a)); }},
      {"batch_norm",
       [](const Tensors& in, const Json&) { return batch_norm(in.at(0), in.at(1), in.at(2)).y; }},
      {"layer_norm",
       [](const Tensors& in, const Json&) { return layer_norm(in.at(0), in.at(1), in.at(2)); }},
      {"attention",
       [](const Tensors& in, const Json& a) {
         return attention(in.at(0), in.at(1), in.at(2),
                          {.causal = a.at("causal").get<bool>(), .mask = in.at(3)});
       }},
  };
}

}  // namespace

const std::map<std::string, OpFn>& ops() {
  static const Table table = [] {
    Table all;
    for (Table part :
         {elementwise_ops(), activation_ops(), reduction_ops(), shaping_ops(), layer_ops()}) {
      all.merge(part);
    }
    return all;
  }();
  return table;
}

}  // namespace tandem::interop

// The ops, under the library's own names and with its own arguments; TensorFlow's and Keras's
// signatures are Python's.
#include "binding.h"

namespace tandem::python {
namespace {

using Unary = Tensor (*)(const Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);

struct NamedUnary {
  const char* name;
  Unary op;
};

constexpr NamedUnary kUnary[] = {
    {"neg", neg},
    {"abs", abs},
    {"sign", sign},
    {"square", square},
    {"reciprocal", reciprocal},
    {"sqrt", sqrt},
    {"rsqrt", rsqrt},
    {"floor", floor},
    {"ceil", ceil},
    {"round", round},
    {"exp", exp},
    {"expm1", expm1},
    {"log", log},
    {"log1p", log1p},
    {"sin", sin},
    {"cos", cos},
    {"tan", tan},
    {"asin", asin},
    {"acos", acos},
    {"atan", atan},
    {"sinh", sinh},
    {"cosh", cosh},
    {"tanh", tanh},
    {"erf", erf},
    {"logical_not", logical_not},
    {"is_nan", is_nan},
    {"is_inf", is_inf},
    {"is_finite", is_finite},
    {"relu", relu},
    {"relu6", relu6},
    {"sigmoid", sigmoid},
    {"silu", silu},
    {"softplus", softplus},
    {"zeros_like", zeros_like},
    {"ones_like", ones_like},
    {"identity", identity},
    {"stop_gradient", stop_gradient},
    {"compute_average_loss", compute_average_loss},
};

struct NamedBinary {
  const char* name;
  Binary op;
};

constexpr NamedBinary kBinary[] = {
    {"add", add},
    {"sub", sub},
    {"mul", mul},
    {"div", div},
    {"floor_div", floor_div},
    {"mod", mod},
    {"pow", pow},
    {"maximum", maximum},
    {"minimum", minimum},
    {"squared_difference", squared_difference},
    {"equal", equal},
    {"not_equal", not_equal},
    {"less", less},
    {"less_equal", less_equal},
    {"greater", greater},
    {"greater_equal", greater_equal},
    {"logical_and", logical_and},
    {"logical_or", logical_or},
    {"logical_xor", logical_xor},
    // The gradient is TensorFlow's for labels that do not sum to 1, too.
    {"softmax_cross_entropy_with_logits",
     [](const Tensor& labels, const Tensor& logits) {
       return softmax_cross_entropy_with_logits(labels, logits, {.labels_sum_to_one = true});
     }},
    {"sparse_softmax_cross_entropy_with_logits", sparse_softmax_cross_entropy_with_logits},
    {"sigmoid_cross_entropy_with_logits", sigmoid_cross_entropy_with_logits},
};

using Reduction = Tensor (*)(const Tensor&, const ReduceOptions&);

struct NamedReduction {
  const char* name;
  Reduction op;
};

constexpr NamedReduction kReductions[] = {
    {"reduce_sum", reduce_sum},   {"reduce_mean", reduce_mean},
    {"reduce_max", reduce_max},   {"reduce_min", reduce_min},
    {"reduce_prod", reduce_prod}, {"reduce_any", reduce_any},
    {"reduce_all", reduce_all},   {"reduce_variance", reduce_variance},
    {"reduce_std", reduce_std},   {"reduce_logsumexp", reduce_logsumexp},
};

Axes to_reduced_axes(nb::handle axis) {
  if (axis.is_none()) return {};
  if (PyLong_Check(axis.ptr())) return Axes(nb::cast<int>(axis));
  return Axes(to_axes(axis));
}

std::array<int64_t, 2> to_pair(nb::handle pair) {
  const auto numbers = to_numbers(pair);
  if (numbers.size() != 2) throw nb::value_error("two numbers are wanted here");
  return {numbers[0], numbers[1]};
}

/// "valid", "same" or the numbers of zeros above, below, left and right.
Padding to_padding(nb::handle padding) {
  if (nb::isinstance<nb::str>(padding)) {
    return nb::cast<std::string>(padding) == "same" ? Padding::same : Padding::valid;
  }
  const auto n = to_numbers(padding);
  return {{n.at(0), n.at(1)}, {n.at(2), n.at(3)}};
}

using Seed = std::optional<uint64_t>;

/// Positions in a dtype that ops take them in.
Tensor as_places(const Tensor& places) {
  if (is_floating(places.dtype()) || places.dtype() == DType::boolean) return places;
  const size_t size = size_of(places.dtype());
  return size < 4 ? cast(places, DType::int32)
         : places.dtype() == DType::uint32 || places.dtype() == DType::uint64
             ? cast(places, DType::int64)
             : places;
}

/// Random numbers of `draw(dtype)`; halves are rounded float32 ones.
template <class Draw>
Tensor drawn(int dtype, const Draw& draw) {
  const DType wanted = to_dtype(dtype);
  return unlocked([&] {
    const bool is_half = is_floating(wanted) && size_of(wanted) == 2;
    return is_half ? cast(draw(DType::float32), wanted) : draw(wanted);
  });
}

void bind_shaping(nb::module_& m) {
  m.def("reshape", [](nb::handle x, nb::handle shape) {
    const Tensor tensor = to_tensor(x);
    const Shape wanted = to_shape(shape);
    return unlocked([&] { return reshape(tensor, wanted); });
  });
  m.def("shape", [](nb::handle x, int dtype) {
    const Tensor tensor = to_tensor(x);
    return unlocked([&] { return shape(tensor, to_dtype(dtype)); });
  });
  m.def("size", [](nb::handle x, int dtype) {
    const Tensor tensor = to_tensor(x);
    return unlocked([&] { return size(tensor, to_dtype(dtype)); });
  });
  m.def("expand_dims", [](nb::handle x, int axis) {
    const Tensor tensor = to_tensor(x);
    return unlocked([&] { return expand_dims(tensor, axis); });
  });
  m.def("squeeze", [](nb::handle x, const std::vector<int>& axes) {
    const Tensor tensor = to_tensor(x);
    return unlocked([&] { return squeeze(tensor, axes); });
  });
  m.def("transpose", [](nb::handle x, const std::vector<int>& permutation) {
    const Tensor tensor = to_tensor(x);
    return unlocked([&] { return transpose(tensor, permutation); });
  });
  m.def("broadcast_to", [](nb::handle x, nb::handle shape) {
    const Tensor tensor = to_tensor(x);
    const Shape wanted = to_shape(shape);
    return unlocked([&] { return broadcast_to(tensor, wanted); });
  });
  m.def("tile", [](nb::handle x, nb::handle multiples) {
    const Tensor tensor = to_tensor(x);
    const auto numbers = to_numbers(multiples);
    return unlocked([&] { return tile(tensor, numbers); });
  });
  m.def("cast", [](nb::handle x, int dtype) {
    const Tensor tensor = to_tensor(x);
    if (tensor.dtype() == to_dtype(dtype)) return tensor;
    return unlocked([&] { return cast(tensor, to_dtype(dtype)); });
  });
  m.def("slice", [](nb::handle x, nb::handle begin, nb::handle size) {
    const Tensor tensor = to_tensor(x);
    const auto from = to_numbers(begin);
    const auto sizes = to_numbers(size);
    return unlocked([&] { return slice(tensor, from, sizes); });
  });
  m.def("pad", [](nb::handle x, nb::handle paddings, double value) {
    const Tensor tensor = to_tensor(x);
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (nb::handle each : nb::borrow<nb::object>(paddings)) {
      const auto pair = to_pair(each);
      pairs.emplace_back(pair[0], pair[1]);
    }
    return unlocked([&] { return pad(tensor, pairs, {.value = value}); });
  });
  m.def("concat", [](nb::handle list, int axis) {
    const Tensors tensors = to_tensors(list);
    return unlocked([&] { return concat(tensors, axis); });
  });
  m.def("stack", [](nb::handle list, int axis) {
    const Tensors tensors = to_tensors(list);
    return unlocked([&] { return stack(tensors, axis); });
  });
  m.def("split", [](nb::handle x, int parts, int axis) {
    const Tensor tensor = to_tensor(x);
    return from_tensors(unlocked([&] { return split(tensor, parts, axis); }));
  });
  m.def("split_sizes", [](nb::handle x, nb::handle sizes, int axis) {
    const Tensor tensor = to_tensor(x);
    const auto numbers = to_numbers(sizes);
    return from_tensors(unlocked([&] { return split(tensor, numbers, axis); }));
  });
  m.def("unstack", [](nb::handle x, int axis) {
    const Tensor tensor = to_tensor(x);
    return from_tensors(unlocked([&] { return unstack(tensor, axis); }));
  });
  m.def("gather", [](nb::handle x, nb::handle indices, int axis) {
    const Tensor tensor = to_tensor(x);
    const Tensor places = to_tensor(indices);
    return unlocked([&] { return gather(tensor, as_places(places), axis); });
  });
  m.def("one_hot", [](nb::handle indices, int64_t depth, double on, double off, int dtype) {
    const Tensor places = to_tensor(indices);
    return unlocked([&] {
      return one_hot(as_places(places), depth, {.on = on, .off = off, .dtype = to_dtype(dtype)});
    });
  });
}

void bind_creation(nb::module_& m) {
  m.def("fill", [](nb::handle shape, double value, int dtype) {
    const Shape wanted = to_shape(shape);
    return unlocked([&] { return fill(wanted, value, to_dtype(dtype)); });
  });
  m.def("eye", [](int64_t rows, int64_t columns, int dtype) {
    return unlocked([&] { return eye(rows, columns, to_dtype(dtype)); });
  });
  m.def("range", [](double start, double limit, double delta, int dtype) {
    return unlocked([&] { return range(start, limit, delta, to_dtype(dtype)); });
  });
  m.def("set_seed", [](uint64_t seed) { random::set_seed(seed); });
  m.def(
      "random_normal",
      [](nb::handle shape, double mean, double stddev, int dtype, Seed seed) {
        const Shape wanted = to_shape(shape);
        return drawn(dtype, [&](DType type) {
          return random_normal(wanted, mean, stddev, {type, seed});
        });
      },
      "shape"_a, "mean"_a, "stddev"_a, "dtype"_a, "seed"_a.none());
  m.def(
      "random_truncated_normal",
      [](nb::handle shape, double mean, double stddev, int dtype, Seed seed) {
        const Shape wanted = to_shape(shape);
        return drawn(dtype, [&](DType type) {
          return random_truncated_normal(wanted, mean, stddev, {type, seed});
        });
      },
      "shape"_a, "mean"_a, "stddev"_a, "dtype"_a, "seed"_a.none());
  m.def(
      "random_uniform",
      [](nb::handle shape, double low, double high, int dtype, Seed seed) {
        const Shape wanted = to_shape(shape);
        return drawn(dtype, [&](DType type) {
          return random_uniform(wanted, low, high, {type, seed});
        });
      },
      "shape"_a, "minval"_a, "maxval"_a, "dtype"_a, "seed"_a.none());
  m.def(
      "random_integers",
      [](nb::handle shape, int64_t low, int64_t high, int dtype, Seed seed) {
        const Shape wanted = to_shape(shape);
        return unlocked([&] {
          return random_integers(wanted, low, high, {to_dtype(dtype), seed});
        });
      },
      "shape"_a, "minval"_a, "maxval"_a, "dtype"_a, "seed"_a.none());
  m.def(
      "random_bernoulli",
      [](nb::handle shape, double p, int dtype, Seed seed) {
        const Shape wanted = to_shape(shape);
        return unlocked([&] { return random_bernoulli(wanted, p, {to_dtype(dtype), seed}); });
      },
      "shape"_a, "p"_a, "dtype"_a, "seed"_a.none());
  m.def(
      "random_shuffle",
      [](nb::handle x, Seed seed) {
        const Tensor tensor = to_tensor(x);
        return unlocked([&] { return random_shuffle(tensor, {seed}); });
      },
      "x"_a, "seed"_a.none());
  m.def(
      "dropout",
      [](nb::handle x, double rate, Seed seed) {
        const Tensor tensor = to_tensor(x);
        return unlocked([&] { return dropout(tensor, rate, {seed}); });
      },
      "x"_a, "rate"_a, "seed"_a.none());
  m.def("stateless_dropout", [](nb::handle x, double rate, nb::handle seed) {
    const auto [tensor, pair] = operands(x, seed);
    return unlocked([&, &tensor = tensor, &pair = pair] {
      return dropout(tensor, rate, {.stateless_seed = pair});
    });
  });
}

void bind_networks(nb::module_& m) {
  m.def("conv2d", [](nb::handle x, nb::handle filter, nb::handle strides, nb::handle padding,
                     nb::handle dilations, int64_t groups) {
    const auto [image, weights] = operands(x, filter);
    const Conv2dOptions options{.strides = to_pair(strides),
                                .padding = to_padding(padding),
                                .dilations = to_pair(dilations),
                                .groups = groups};
    return unlocked(
        [&, &image = image, &weights = weights] { return conv2d(image, weights, options); });
  });
  m.def("depthwise_conv2d", [](nb::handle x, nb::handle filter, nb::handle strides,
                               nb::handle padding, nb::handle dilations) {
    const auto [image, weights] = operands(x, filter);
    const DepthwiseConv2dOptions options{.strides = to_pair(strides),
                                         .padding = to_padding(padding),
                                         .dilations = to_pair(dilations)};
    return unlocked([&, &image = image, &weights = weights] {
      return depthwise_conv2d(image, weights, options);
    });
  });
  const auto pool = [&m](const char* name, Tensor (*op)(const Tensor&, const Pool2dOptions&)) {
    m.def(name, [op](nb::handle x, nb::handle window, nb::handle strides, nb::handle padding) {
      const Tensor image = to_tensor(x);
      const Pool2dOptions options{.window = to_pair(window),
                                  .strides = HeightWidth(to_pair(strides)),
                                  .padding = to_padding(padding)};
      return unlocked([&] { return op(image, options); });
    });
  };
  pool("max_pool2d", max_pool2d);
  pool("avg_pool2d", avg_pool2d);
  m.def("softmax", [](nb::handle x, int axis) {
    const Tensor tensor = to_tensor(x);
    return unlocked([&] { return softmax(tensor, axis); });
  });
  m.def("log_softmax", [](nb::handle x, int axis) {
    const Tensor tensor = to_tensor(x);
    return unlocked([&] { return log_softmax(tensor, axis); });
  });
  m.def("leaky_relu", [](nb::handle x, double alpha) {
    const Tensor tensor = to_tensor(x);
    return unlocked([&] { return leaky_relu(tensor, alpha); });
  });
  m.def("elu", [](nb::handle x, double alpha) {
    const Tensor tensor = to_tensor(x);
    return unlocked([&] { return elu(tensor, alpha); });
  });
  m.def("gelu", [](nb::handle x, bool approximate) {
    const Tensor tensor = to_tensor(x);
    return unlocked([&] { return gelu(tensor, {.approximate = approximate}); });
  });
  m.def("batch_norm", [](nb::handle x, nb::handle gamma, nb::handle beta, double epsilon) {
    const Tensor values = to_tensor(x);
    const Tensor scale = to_tensor(gamma);
    const Tensor offset = to_tensor(beta);
    const BatchNorm result =
        unlocked([&] { return batch_norm(values, scale, offset, {.epsilon = epsilon}); });
    return nb::make_tuple(result.y, result.mean, result.variance);
  });
  m.def("batch_norm_inference", [](nb::handle x, nb::handle gamma, nb::handle beta, nb::handle mean,
                                   nb::handle variance, double epsilon) {
    const Tensors list = {to_tensor(x), to_tensor(gamma), to_tensor(beta), to_tensor(mean),
                          to_tensor(variance)};
    return unlocked([&] {
      return batch_norm_inference(list[0], list[1], list[2], list[3], list[4],
                                  {.epsilon = epsilon});
    });
  });
  m.def("layer_norm",
        [](nb::handle x, nb::handle gamma, nb::handle beta, int axis, double epsilon) {
          const Tensors list = {to_tensor(x), to_tensor(gamma), to_tensor(beta)};
          return unlocked([&] {
            return layer_norm(list[0], list[1], list[2], {.axis = axis, .epsilon = epsilon});
          });
        });
  m.def(
      "attention",
      [](nb::handle query, nb::handle key, nb::handle value, bool causal,
         std::optional<double> scale, nb::handle mask) {
        const Tensors list = {to_tensor(query), to_tensor(key), to_tensor(value)};
        const AttentionOptions options{
            .causal = causal, .scale = scale, .mask = mask.is_none() ? Tensor() : to_tensor(mask)};
        return unlocked([&] { return attention(list[0], list[1], list[2], options); });
      },
      "query"_a, "key"_a, "value"_a, "causal"_a, "scale"_a.none(), "mask"_a.none());
  m.def("matmul", [](nb::handle a, nb::handle b, bool transpose_a, bool transpose_b) {
    const auto [left, right] = operands(a, b);
    return unlocked([&, &left = left, &right = right] {
      return matmul(left, right, {transpose_a, transpose_b});
    });
  });
}

}  // namespace

void bind_ops(nb::module_& m) {
  for (const NamedUnary& each : kUnary) {
    const Unary op = each.op;
    m.def(
        each.name,
        [op](nb::handle x) {
          const Tensor tensor = to_tensor(x);
          return unlocked([&] { return op(tensor); });
        },
        "x"_a);
  }
  for (const NamedBinary& each : kBinary) {
    const Binary op = each.op;
    m.def(
        each.name,
        [op](nb::handle a, nb::handle b) {
          const auto [left, right] = operands(a, b);
          return unlocked([&, &left = left, &right = right] { return op(left, right); });
        },
        "a"_a, "b"_a);
  }
  for (const NamedReduction& each : kReductions) {
    const Reduction op = each.op;
    m.def(
        each.name,
        [op](nb::handle x, nb::handle axis, bool keepdims) {
          const Tensor tensor = to_tensor(x);
          const ReduceOptions options{.axes = to_reduced_axes(axis), .keepdims = keepdims};
          return unlocked([&] { return op(tensor, options); });
        },
        "x"_a, "axis"_a.none(), "keepdims"_a);
  }
  m.def("argmax", [](nb::handle x, int axis) {
    const Tensor tensor = to_tensor(x);
    return unlocked([&] { return argmax(tensor, axis); });
  });
  m.def("argmin", [](nb::handle x, int axis) {
    const Tensor tensor = to_tensor(x);
    return unlocked([&] { return argmin(tensor, axis); });
  });
  m.def("cumsum", [](nb::handle x, int axis, bool exclusive, bool reverse) {
    const Tensor tensor = to_tensor(x);
    return unlocked([&] { return cumsum(tensor, {axis, exclusive, reverse}); });
  });
  m.def("where", [](nb::handle condition, nb::handle a, nb::handle b) {
    const Tensor chosen = to_tensor(condition);
    const auto [left, right] = operands(a, b);
    return unlocked([&, &left = left, &right = right] { return where(chosen, left, right); });
  });
  m.def("clip", [](nb::handle x, double low, double high) {
    const Tensor tensor = to_tensor(x);
    return unlocked([&] { return clip(tensor, low, high); });
  });
  bind_shaping(m);
  bind_creation(m);
  bind_networks(m);
}

}  // namespace tandem::python

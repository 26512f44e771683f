// The op `attention` and its gradient, on operands [batch, tokens, heads, width], and both on the
// three operands as one tensor (`self_attention`), as one product leaves them. The op keeps a
// logarithm for each query and head, from which the gradient makes the weights again. Gradients of
// gradients are composed of other ops (attention_composed.h).
#include "tandem/ops/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "op/apply.h"
#include "op/registry.h"
#include "ops/attention/attention_composed.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

using op::Call;
using op::Signature;

// Attributes of all ops: "causal", "scale", and "masked": a mask is the last input.
//
// attention: query, key, value -> the result, and for each query and head the logarithm of the sum
// of its exponentials [batch, queries, heads], infinite if it sees no key.
// attention_grad: the result's gradient, query, key, value, result, logarithms -> the gradients of
// query, key and value.
// self_attention, self_attention_grad: the same with query, key and value in one tensor.

op::TensorTypes infer(const Signature& s) {
  const op::TensorType& query = s.inputs[0];
  return {{query.dtype, query.shape.with(3, s.inputs[2].shape.extent(3))},
          {query.dtype, query.shape.without(3)}};
}

op::TensorTypes infer_self(const Signature& s) {
  const auto& [dtype, shape] = s.inputs[0];
  return {{dtype, shape.without(2)}, {dtype, shape.without(4).without(2)}};
}

op::TensorTypes infer_grad(const Signature& s) { return {s.inputs[1], s.inputs[2], s.inputs[3]}; }

op::TensorTypes infer_self_grad(const Signature& s) { return {s.inputs[1]}; }

/// The work is cut by batch entries. Where they cannot be dealt evenly, the kernel deals heads and
/// meets before and after.
op::Split split(const Signature& s) {
  const int64_t batch = s.outputs[0].shape.extent(0);
  op::Split split{.extent = batch, .aligned = std::vector<bool>(s.inputs.size(), true)};
  if (s.attrs.get<bool>("masked")) {
    const Shape& mask = s.inputs.back().shape;
    split.aligned.back() = mask.rank() == 4 && mask.extent(0) == batch;
  }
  return split;
}

/// Operations of products of `widths` terms for each pair of a query and a key; an exponential
/// counts for about ten.
double flops_of(const Shape& query, int64_t keys, int64_t widths, const op::Attrs& attrs) {
  const int64_t heads = query.extent(query.rank() - 2);
  const auto pairs = static_cast<double>(query.extent(0) * heads * query.extent(1) * keys);
  return (attrs.get<bool>("causal") ? pairs / 2 : pairs) * static_cast<double>(2 * widths + 10);
}

double flops(const Signature& s) {
  const Shape& query = s.inputs[0].shape;
  const Shape& value = s.inputs[2].shape;
  return flops_of(query, value.extent(1), query.extent(3) + value.extent(3), s.attrs);
}

double flops_grad(const Signature& s) {
  const Shape& query = s.inputs[1].shape;
  const Shape& value = s.inputs[3].shape;
  return flops_of(query, value.extent(1), 3 * query.extent(3) + 2 * value.extent(3), s.attrs);
}

double flops_self(const Signature& s) {
  const Shape& all = s.inputs[0].shape;
  return flops_of(all, all.extent(1), 2 * all.extent(4), s.attrs);
}

double flops_self_grad(const Signature& s) {
  const Shape& all = s.inputs[1].shape;
  return flops_of(all, all.extent(1), 5 * all.extent(4), s.attrs);
}

Tensor mask_of(const Call& call) {
  return call.attrs.get<bool>("masked") ? call.inputs.back() : Tensor();
}

/// The operands' gradients by the op `def`, from the result's gradient, the operands, the result
/// and the logarithms.
Tensors operand_gradients(const op::OpDef& def, const Call& call, const Tensor& g) {
  const Tensor mask = mask_of(call);
  const auto operands = call.inputs.end() - (mask.defined() ? 1 : 0);
  Tensors inputs{g};
  inputs.insert(inputs.end(), call.inputs.begin(), operands);
  inputs.insert(inputs.end(), {call.outputs[0], call.outputs[1]});
  if (mask.defined()) inputs.push_back(mask);
  Tensors result = op::apply(def, std::move(inputs), call.attrs);
  result.resize(call.inputs.size());
  return result;
}

bool mask_needed(const Call& call) {
  return call.attrs.get<bool>("masked") && call.needed.back() &&
         call.inputs.back().dtype() != DType::boolean;
}

Tensors gradient(const Call& call, const Tensors& g) {
  static const op::OpDef& def = op::find_op("attention_grad");
  Tensors result = operand_gradients(def, call, g[0]);
  if (mask_needed(call)) {
    const ComposedAttention composed(call.inputs, call.outputs[1], mask_of(call), call.attrs);
    result.back() = composed.mask_gradient(g[0]);
  }
  return result;
}

Tensors self_gradient(const Call& call, const Tensors& g) {
  static const op::OpDef& def = op::find_op("self_attention_grad");
  Tensors result = operand_gradients(def, call, g[0]);
  if (mask_needed(call)) {
    const ComposedAttention composed(unstack(call.inputs[0], 2), call.outputs[1], mask_of(call),
                                     call.attrs);
    result.back() = composed.mask_gradient(g[0]);
  }
  return result;
}

// The result and the logarithms are functions of the other inputs, through which all second
// derivatives go.

Tensors grad_gradient(const Call& call, const Tensors& h) {
  const Tensors& x = call.inputs;
  const ComposedAttention composed({x[1], x[2], x[3]}, x[5], mask_of(call), call.attrs);
  const auto to = composed.second_gradients(x[0], h);
  Tensors result{to.g, to.query, to.key, to.value, Tensor(), Tensor()};
  if (x.size() > result.size()) result.push_back(to.mask);
  return result;
}

Tensors self_grad_gradient(const Call& call, const Tensors& h) {
  const Tensors& x = call.inputs;
  const ComposedAttention composed(unstack(x[1], 2), x[3], mask_of(call), call.attrs);
  const auto to = composed.second_gradients(x[0], unstack(h[0], 2));
  Tensors result{to.g, stack({to.query, to.key, to.value}, 2), Tensor(), Tensor()};
  if (x.size() > result.size()) result.push_back(to.mask);
  return result;
}

void check_dtype(const char* op, DType dtype) {
  if (is_floating(dtype)) return;
  throw InvalidArgument(
      fmt::format("{}: {} is not supported; float32 and float64 are", op, name_of(dtype)));
}

/// Throws when the number of heads or their width is symbolic.
void check_known(const char* op, const Shape& shape) {
  if (shape.extent(shape.rank() - 1) >= 0 && shape.extent(shape.rank() - 2) >= 0) return;
  throw InvalidArgument(fmt::format(
      "{}: heads and width of {} must not depend on the number of rows", op, shape.str()));
}

void check(const Tensor& query, const Tensor& key, const Tensor& value) {
  const DType dtype = query.dtype();
  check_dtype("attention", dtype);
  const Shape &q = query.shape(), &k = key.shape(), &v = value.shape();
  const bool agree = key.dtype() == dtype && value.dtype() == dtype && q.rank() == 4 &&
                     k.rank() == 4 && v.rank() == 4 && q.extent(0) == k.extent(0) &&
                     q.extent(0) == v.extent(0) && k.extent(1) == v.extent(1) &&
                     q.extent(2) == k.extent(2) && q.extent(2) == v.extent(2) &&
                     q.extent(3) == k.extent(3);
  if (!agree) {
    throw InvalidArgument(
        fmt::format("attention: query, key and value must be [batch,queries,heads,width], "
                    "[batch,keys,heads,width] and [batch,keys,heads,value width] of one dtype, got "
                    "{}, {} and {}",
                    type_of(query).str(), type_of(key).str(), type_of(value).str()));
  }
  check_known("attention", q);
  check_known("attention", v);
}

void check_joined(const Tensor& query_key_value) {
  const Shape& shape = query_key_value.shape();
  check_dtype("self_attention", query_key_value.dtype());
  if (shape.rank() != 5 || shape.extent(2) != 3) {
    throw InvalidArgument(
        fmt::format("self_attention: query, key and value must be [batch,tokens,3,heads,width], "
                    "got {}",
                    shape.str()));
  }
  check_known("self_attention", shape);
}

/// Throws unless the mask broadcasts to `sizes`: batch, heads, queries, keys.
void check_mask(const char* op, const Tensor& mask, DType dtype,
                const std::array<int64_t, 4>& sizes) {
  const Shape& shape = mask.shape();
  bool fits = shape.rank() <= 4;
  // The first of the sizes that the mask names.
  const auto first = sizes.end() - std::min(shape.rank(), 4);
  for (int axis = 0; fits && axis < shape.rank(); ++axis) {
    fits = shape.extent(axis) == 1 || shape.extent(axis) == first[axis];
  }
  if (!fits) {
    throw InvalidArgument(fmt::format(
        "{}: mask {} does not broadcast to {} batch entries, {} heads, {} queries and {} keys", op,
        shape.str(), sizes[0] < 0 ? "all" : std::to_string(sizes[0]), sizes[1], sizes[2],
        sizes[3]));
  }
  if (mask.dtype() != DType::boolean && mask.dtype() != dtype) {
    throw InvalidArgument(fmt::format("{}: the mask is {}; bool and the query's {} are supported",
                                      op, name_of(mask.dtype()), name_of(dtype)));
  }
}

op::Attrs attrs_of(const AttentionOptions& options, int64_t width) {
  const double usual = width == 0 ? 1.0 : 1 / std::sqrt(static_cast<double>(width));
  return {{"causal", options.causal},
          {"scale", options.scale.value_or(usual)},
          {"masked", options.mask.defined()}};
}

}  // namespace

void register_attention(op::Registry& registry) {
  const auto add = [&](const char* name, auto infer, auto gradient, auto flops) {
    registry.add(
        {.name = name, .infer = infer, .split = split, .gradient = gradient, .flops = flops});
  };
  add("attention", infer, gradient, flops);
  add("attention_grad", infer_grad, grad_gradient, flops_grad);
  add("self_attention", infer_self, self_gradient, flops_self);
  add("self_attention_grad", infer_self_grad, self_grad_gradient, flops_self_grad);
}

}  // namespace ops

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value,
                 const AttentionOptions& options) {
  static const op::OpDef& def = op::find_op("attention");
  ops::check(query, key, value);
  const Shape& q = query.shape();
  Tensors inputs{query, key, value};
  if (options.mask.defined()) {
    ops::check_mask("attention", options.mask, query.dtype(),
                    {q.extent(0), q.extent(2), q.extent(1), key.shape().extent(1)});
    inputs.push_back(options.mask);
  }
  return op::apply(def, std::move(inputs), ops::attrs_of(options, q.extent(3)))[0];
}

Tensor self_attention(const Tensor& query_key_value, const AttentionOptions& options) {
  static const op::OpDef& def = op::find_op("self_attention");
  ops::check_joined(query_key_value);
  const Shape& shape = query_key_value.shape();
  Tensors inputs{query_key_value};
  if (options.mask.defined()) {
    ops::check_mask("self_attention", options.mask, query_key_value.dtype(),
                    {shape.extent(0), shape.extent(3), shape.extent(1), shape.extent(1)});
    inputs.push_back(options.mask);
  }
  return op::apply(def, std::move(inputs), ops::attrs_of(options, shape.extent(4)))[0];
}

}  // namespace tandem

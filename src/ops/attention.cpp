#include "tandem/ops/attention.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "op/apply.h"
#include "op/registry.h"
#include "ops/broadcast.h"
#include "ops/softmax.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem {
namespace ops {
namespace {

using op::Call;
using op::Signature;

// Attributes of both ops: "causal", "scale".
//
// attention: query, key, value and perhaps a mask -> the result, and for each query and head the
// logarithm of the sum of its exponentials [batch, queries, heads], infinite if it sees no key.
// attention_grad: the result's gradient, query, key, value, result, logarithms and perhaps a mask
// -> the gradients of query, key and value.

Shape result_shape(const Shape& query, const Shape& value) { return query.with(3, value[3]); }

op::TensorTypes infer(const Signature& s) {
  const op::TensorType& query = s.inputs[0];
  return {{query.dtype, result_shape(query.shape, s.inputs[2].shape)},
          {query.dtype, query.shape.without(3)}};
}

op::TensorTypes infer_grad(const Signature& s) { return {s.inputs[1], s.inputs[2], s.inputs[3]}; }

/// By batch entries. Where they cannot be dealt evenly, the kernel deals heads and meets before and
/// after.
op::Split split(const Signature& s) {
  const int64_t batch = s.outputs[0].shape[0];
  op::Split split{.extent = batch, .aligned = std::vector<bool>(s.inputs.size(), true)};
  if (const bool masked = s.inputs.size() % 3 == 1; masked) {
    const Shape& mask = s.inputs.back().shape;
    split.aligned.back() = mask.rank() == 4 && mask[0] == batch;
  }
  return split;
}

double pairs_of(const Shape& query, const Shape& key, const op::Attrs& attrs) {
  const auto all = static_cast<double>(query[0] * query[2] * query[1] * key[1]);
  return attrs.get<bool>("causal") ? all / 2 : all;
}

/// An exponential counts for about ten operations.
double flops(const Signature& s) {
  const Shape& query = s.inputs[0].shape;
  const auto widths = static_cast<double>(query[3] + s.inputs[2].shape[3]);
  return pairs_of(query, s.inputs[1].shape, s.attrs) * (2 * widths + 10);
}

double flops_grad(const Signature& s) {
  const Shape& query = s.inputs[1].shape;
  const auto widths = static_cast<double>(3 * query[3] + 2 * s.inputs[3].shape[3]);
  return pairs_of(query, s.inputs[2].shape, s.attrs) * (2 * widths + 10);
}

/// [batch, tokens, heads, width] to [batch, heads, tokens, width] and back.
Tensor swapped(const Tensor& x) { return transpose(x, {0, 2, 1, 3}); }

Tensor times(const Tensor& a, const Tensor& b) { return matmul(a, b); }
Tensor times_transposed(const Tensor& a, const Tensor& b) {
  return matmul(a, b, {.transpose_b = true});
}
Tensor transposed_times(const Tensor& a, const Tensor& b) {
  return matmul(a, b, {.transpose_a = true});
}

/// Which keys a query sees, [queries, keys].
Tensor causal_mask(int64_t queries, int64_t keys) {
  const Tensor query = range(0, static_cast<double>(queries), 1, DType::int64);
  const Tensor key = range(0, static_cast<double>(keys), 1, DType::int64);
  return less_equal(expand_dims(key, 0), expand_dims(query, 1));
}

/// The operands with heads before tokens, and the weights of all keys.
struct Composed {
  Composed(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& logarithms,
           const Tensor& mask, const op::Attrs& attrs)
      : scale(attrs.get<double>("scale")), q(swapped(query)), k(swapped(key)), v(swapped(value)) {
    Tensor scores = times_transposed(q, k) * scale;
    const Tensor none = scalar_like(-std::numeric_limits<double>::infinity(), scores);
    if (mask.defined()) {
      scores = mask.dtype() == DType::boolean ? where(mask, scores, none) : scores + mask;
    }
    if (attrs.get<bool>("causal")) {
      if (query.shape()[1] < 0 || key.shape()[1] < 0) {
        throw InvalidArgument("attention: a causal mask of a symbolic number of tokens");
      }
      scores = where(causal_mask(query.shape()[1], key.shape()[1]), scores, none);
    }
    const Tensor sees = expand_dims(transpose(is_finite(logarithms), {0, 2, 1}), 3);
    const Tensor zero = scalar_like(0, scores);
    p = where(sees, softmax(where(sees, scores, zero)), zero);
  }

  /// The gradient of the scores, from the result's with heads before tokens.
  Tensor scores_gradient(const Tensor& g) const {
    return softmax_grad(times_transposed(g, v), p, 3);
  }

  double scale;
  Tensor q, k, v, p;
};

/// Of a mask, if it has one.
Tensor mask_gradient(const Tensor& mask, const Tensor& scores_gradient) {
  return mask.dtype() == DType::boolean ? Tensor() : sum_to_shape(scores_gradient, mask.shape());
}

Tensors gradient(const Call& call, const Tensors& g) {
  static const op::OpDef& def = op::find_op("attention_grad");
  const Tensors& x = call.inputs;
  const Tensor mask = x.size() > 3 ? x[3] : Tensor();
  Tensors result(x.size());
  if (call.needed[0] || call.needed[1] || call.needed[2]) {
    Tensors inputs{g[0], x[0], x[1], x[2], call.outputs[0], call.outputs[1]};
    if (mask.defined()) inputs.push_back(mask);
    const Tensors gradients = op::apply(def, std::move(inputs), call.attrs);
    for (size_t i = 0; i < 3; ++i) result[i] = gradients[i];
  }
  if (mask.defined() && call.needed[3]) {
    const Composed all(x[0], x[1], x[2], call.outputs[1], mask, call.attrs);
    result[3] = mask_gradient(mask, all.scores_gradient(swapped(g[0])));
  }
  return result;
}

Tensor sum_or(const Tensor& a, const Tensor& b) {
  return !a.defined() ? b : !b.defined() ? a : a + b;
}

/// With p the weights, s' = p (g v^T - sum of p g v^T) is the gradient of the scores, and
/// attention_grad gives scale s' k, scale s'^T q and p^T g. The result and the logarithms are
/// functions of the other inputs, through which all derivatives go.
Tensors grad_gradient(const Call& call, const Tensors& h) {
  const Tensors& x = call.inputs;
  const Tensor mask = x.size() > 6 ? x[6] : Tensor();
  const Composed all(x[1], x[2], x[3], x[5], mask, call.attrs);
  const Tensor g = swapped(x[0]);
  const Tensor by_p = times_transposed(g, all.v);
  const Tensor slopes = softmax_grad(by_p, all.p, 3);
  const auto sum = [](const Tensor& t) { return reduce_sum(t, {.axes = {{3}}, .keepdims = true}); };

  Tensor to_g, to_q, to_k, to_v, to_p, to_slopes;
  if (h[0].defined()) {
    const Tensor hq = swapped(h[0]);
    to_slopes = times_transposed(hq, all.k) * all.scale;
    to_k = transposed_times(slopes, hq) * all.scale;
  }
  if (h[1].defined()) {
    const Tensor hk = swapped(h[1]);
    to_slopes = sum_or(to_slopes, times_transposed(all.q, hk) * all.scale);
    to_q = times(slopes, hk) * all.scale;
  }
  if (h[2].defined()) {
    const Tensor hv = swapped(h[2]);
    to_p = times_transposed(g, hv);
    to_g = times(all.p, hv);
  }
  if (to_slopes.defined()) {
    const Tensor to_by_p = softmax_grad(to_slopes, all.p, 3);
    to_g = sum_or(to_g, times(to_by_p, all.v));
    to_v = transposed_times(to_by_p, g);
    to_p = sum_or(to_p, to_slopes * (by_p - sum(by_p * all.p)) - by_p * sum(to_slopes * all.p));
  }
  const Tensor to_scores = softmax_grad(to_p, all.p, 3);
  to_q = sum_or(to_q, times(to_scores, all.k) * all.scale);
  to_k = sum_or(to_k, transposed_times(to_scores, all.q) * all.scale);

  const auto back = [](const Tensor& t) { return t.defined() ? swapped(t) : t; };
  Tensors result{back(to_g), back(to_q), back(to_k), back(to_v), Tensor(), Tensor()};
  if (mask.defined()) result.push_back(mask_gradient(mask, to_scores));
  return result;
}

/// Throws unless the mask broadcasts to [batch, heads, queries, keys].
void check_mask(const Tensor& mask, const Tensor& query, const Tensor& key) {
  const Shape& shape = mask.shape();
  const int64_t sizes[] = {query.shape()[0], query.shape()[2], query.shape()[1], key.shape()[1]};
  bool fits = shape.rank() <= 4;
  for (int axis = 0; fits && axis < shape.rank(); ++axis) {
    fits = shape[axis] == 1 || shape[axis] == sizes[4 - shape.rank() + axis];
  }
  if (!fits) {
    throw InvalidArgument(
        fmt::format("attention: mask {} does not broadcast to [batch,heads,queries,keys] of query "
                    "{} and key {}",
                    shape.str(), query.shape().str(), key.shape().str()));
  }
  if (mask.dtype() != DType::boolean && mask.dtype() != query.dtype()) {
    throw InvalidArgument(
        fmt::format("attention: the mask is {}; bool and the query's {} are "
                    "supported",
                    name_of(mask.dtype()), name_of(query.dtype())));
  }
}

void check(const Tensor& query, const Tensor& key, const Tensor& value) {
  const DType dtype = query.dtype();
  if (dtype != DType::float32 && dtype != DType::float64) {
    throw InvalidArgument(
        fmt::format("attention: {} is not supported; float32 and float64 are", name_of(dtype)));
  }
  const Shape &q = query.shape(), &k = key.shape(), &v = value.shape();
  const bool agree = key.dtype() == dtype && value.dtype() == dtype && q.rank() == 4 &&
                     k.rank() == 4 && v.rank() == 4 && q[0] == k[0] && q[0] == v[0] &&
                     k[1] == v[1] && q[2] == k[2] && q[2] == v[2] && q[3] == k[3];
  if (agree) return;
  throw InvalidArgument(fmt::format(
      "attention: query, key and value must be [batch,queries,heads,width], "
      "[batch,keys,heads,width] and [batch,keys,heads,value width] of one dtype, got "
      "{}{}, {}{} and {}{}",
      name_of(dtype), q.str(), name_of(key.dtype()), k.str(), name_of(value.dtype()), v.str()));
}

}  // namespace

void register_attention(op::Registry& registry) {
  registry.add(
      {.name = "attention", .infer = infer, .split = split, .gradient = gradient, .flops = flops});
  registry.add({.name = "attention_grad",
                .infer = infer_grad,
                .split = split,
                .gradient = grad_gradient,
                .flops = flops_grad});
}

}  // namespace ops

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value,
                 const AttentionOptions& options) {
  static const op::OpDef& def = op::find_op("attention");
  ops::check(query, key, value);
  Tensors inputs{query, key, value};
  if (options.mask.defined()) {
    ops::check_mask(options.mask, query, key);
    inputs.push_back(options.mask);
  }
  const auto width = static_cast<double>(query.shape()[3]);
  if (width < 0 || query.shape()[2] < 0) {
    throw InvalidArgument(
        fmt::format("attention: heads and width of {} must not depend on the number of rows",
                    query.shape().str()));
  }
  const double scale = options.scale.value_or(width == 0 ? 1.0 : 1 / std::sqrt(width));
  return op::apply(def, std::move(inputs), {{"causal", options.causal}, {"scale", scale}})[0];
}

}  // namespace tandem

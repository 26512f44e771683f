#include "ops/attention/attention_composed.h"

#include <limits>

#include "ops/loss/softmax_grad.h"
#include "ops/shaping/broadcast.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::ops {
namespace {

/// [batch, tokens, heads, width] to [batch, heads, tokens, width] and back.
Tensor swapped(const Tensor& x) { return x.defined() ? transpose(x, {0, 2, 1, 3}) : x; }

Tensor times(const Tensor& a, const Tensor& b) { return matmul(a, b); }
Tensor times_transposed(const Tensor& a, const Tensor& b) {
  return matmul(a, b, {.transpose_b = true});
}
Tensor transposed_times(const Tensor& a, const Tensor& b) {
  return matmul(a, b, {.transpose_a = true});
}

/// Which keys a query sees, [queries, keys].
Tensor causal_mask(int64_t queries, int64_t keys) {
  if (queries < 0 || keys < 0) {
    throw InvalidArgument(
        "attention: the gradient of a mask and second derivatives of causal attention need a known "
        "number of tokens");
  }
  const Tensor query = range(0, static_cast<double>(queries), 1, DType::int64);
  const Tensor key = range(0, static_cast<double>(keys), 1, DType::int64);
  return less_equal(expand_dims(key, 0), expand_dims(query, 1));
}

Tensor sum_of(const Tensor& a, const Tensor& b) {
  return !a.defined() ? b : !b.defined() ? a : a + b;
}

Tensor sum_keys(const Tensor& x) { return reduce_sum(x, {.axes = {{3}}, .keepdims = true}); }

}  // namespace

ComposedAttention::ComposedAttention(const Tensors& operands, const Tensor& logarithms,
                                     const Tensor& mask, const op::Attrs& attrs)
    : scale_(attrs.get<double>("scale")),
      mask_(mask),
      q_(swapped(operands[0])),
      k_(swapped(operands[1])),
      v_(swapped(operands[2])) {
  Tensor scores = times_transposed(q_, k_) * scale_;
  const Tensor none = scalar_like(-std::numeric_limits<double>::infinity(), scores);
  if (mask.defined()) {
    scores = mask.dtype() == DType::boolean ? where(mask, scores, none) : scores + mask;
  }
  if (attrs.get<bool>("causal")) {
    scores = where(causal_mask(q_.shape().extent(2), k_.shape().extent(2)), scores, none);
  }
  const Tensor sees = expand_dims(transpose(is_finite(logarithms), {0, 2, 1}), 3);
  const Tensor zero = scalar_like(0, scores);
  p_ = where(sees, softmax(where(sees, scores, zero)), zero);
}

Tensor ComposedAttention::to_mask(const Tensor& scores_gradient) const {
  if (!mask_.defined() || mask_.dtype() == DType::boolean) return {};
  return sum_to_shape(scores_gradient, mask_.shape());
}

Tensor ComposedAttention::mask_gradient(const Tensor& g) const {
  return to_mask(softmax_grad(times_transposed(swapped(g), v_), p_, 3));
}

/// The gradients are scale s' k, scale s'^T q and p^T g, where s' = p (g v^T - sum of p g v^T) is
/// the gradient of the scores.
ComposedAttention::Second ComposedAttention::second_gradients(const Tensor& gradient,
                                                              const Tensors& h) const {
  const Tensor g = swapped(gradient);
  const Tensor hq = swapped(h[0]), hk = swapped(h[1]), hv = swapped(h[2]);
  const Tensor by_p = times_transposed(g, v_);
  const Tensor slopes = softmax_grad(by_p, p_, 3);

  Tensor to_g, to_q, to_k, to_v, to_p, to_slopes;
  if (hq.defined()) {
    to_slopes = times_transposed(hq, k_) * scale_;
    to_k = transposed_times(slopes, hq) * scale_;
  }
  if (hk.defined()) {
    to_slopes = sum_of(to_slopes, times_transposed(q_, hk) * scale_);
    to_q = times(slopes, hk) * scale_;
  }
  if (hv.defined()) {
    to_p = times_transposed(g, hv);
    to_g = times(p_, hv);
  }
  if (to_slopes.defined()) {
    const Tensor to_by_p = softmax_grad(to_slopes, p_, 3);
    to_g = sum_of(to_g, times(to_by_p, v_));
    to_v = transposed_times(to_by_p, g);
    to_p = sum_of(to_p, to_slopes * (by_p - sum_keys(by_p * p_)) - by_p * sum_keys(to_slopes * p_));
  }
  const Tensor to_scores = softmax_grad(to_p, p_, 3);
  to_q = sum_of(to_q, times(to_scores, k_) * scale_);
  to_k = sum_of(to_k, transposed_times(to_scores, q_) * scale_);
  return {swapped(to_g), swapped(to_q), swapped(to_k), swapped(to_v), to_mask(to_scores)};
}

}  // namespace tandem::ops

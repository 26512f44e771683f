/// Attention written with other ops, which hold all scores: what its gradients do not cover.
#pragma once

#include "op/attrs.h"
#include "tandem/tensor.h"

namespace tandem::ops {

class ComposedAttention {
 public:
  /// `operands` are query, key and value, `logarithms` those that attention gave, `attrs` its own.
  /// The mask may be undefined. Throws InvalidArgument when it is causal and the number of tokens
  /// is not known.
  ComposedAttention(const Tensors& operands, const Tensor& logarithms, const Tensor& mask,
                    const op::Attrs& attrs);

  /// The gradient of the mask from the result's gradient; undefined for bools.
  Tensor mask_gradient(const Tensor& g) const;

  struct Second {
    Tensor g, query, key, value, mask;
  };
  /// Attention's gradients of query, key and value are functions of the result's gradient `g` and
  /// of the operands; `h` are the gradients of those three, of which some may be undefined.
  Second second_gradients(const Tensor& g, const Tensors& h) const;

 private:
  Tensor to_mask(const Tensor& scores_gradient) const;

  double scale_;
  Tensor mask_;
  Tensor q_, k_, v_;  // Heads before tokens: [batch, heads, tokens, width].
  Tensor p_;          // The weights [batch, heads, queries, keys].
};

}  // namespace tandem::ops

/// Attention: each query's mean of the values, weighted by how well their keys match it. float32 or
/// float64; differentiable any number of times in all floating arguments.
#pragma once

#include <optional>

#include "tandem/tensor.h"

namespace tandem {

struct AttentionOptions {
  bool causal = false;            ///< Query i sees the keys 0 to i only.
  std::optional<double> scale{};  ///< The factor of the scores; 1 / sqrt(width) if left out.
  /// Broadcastable to [batch, heads, queries, keys]. Of bools: which keys a query sees. Of the
  /// queries' dtype: added to the scores, and differentiable.
  Tensor mask{};
};

/// softmax(scale query key^T + mask) value for each batch entry and head, as one op that never
/// holds all scores: memory grows with the tokens, not with their square. `query` is
/// [batch, queries, heads, width], `key` [batch, keys, heads, width], `value`
/// [batch, keys, heads, value width]; the result is [batch, queries, heads, value width]. A query
/// that sees no key gives zeros. The gradient of the mask and second derivatives do hold all
/// scores. Throws InvalidArgument when dtypes or sizes do not agree, or the mask does not
/// broadcast.
TANDEM_API Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value,
                            const AttentionOptions& options = {});

/// The same with query, key and value side by side in one tensor [batch, tokens, 3, heads, width],
/// as one projection of the tokens gives them: nothing is cut out or copied. The result is
/// [batch, tokens, heads, width]. Throws InvalidArgument for another shape, as above for the mask.
TANDEM_API Tensor self_attention(const Tensor& query_key_value,
                                 const AttentionOptions& options = {});

}  // namespace tandem

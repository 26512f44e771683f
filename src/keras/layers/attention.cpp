// The layer MultiHeadAttention: four projections around the op `attention`, with Keras's names and
// shapes of weights. Where weights are dropped the scores are held and the op is composed of
// others, since it never has them all.
#include "tandem/ops/attention.h"

#include <fmt/format.h>

#include <cmath>

#include "collective/collective.h"
#include "collective/parts.h"
#include "keras/layers/arguments.h"
#include "keras/layers/cut_weights.h"
#include "tandem/error.h"
#include "tandem/keras/layers.h"
#include "tandem/ops.h"

namespace tandem::keras::layers {
namespace {

/// A product of the last axes of its input, as one matrix, with a kernel of more than two axes.
class ProjectionBody final : public LayerBody {
 public:
  /// The last `inner.rank()` axes of the input, of these sizes, become `outer`.
  ProjectionBody(const std::string& name, const Shape& inner, const Shape& outer,
                 const MultiHeadAttentionOptions& options)
      : LayerBody("einsum_dense", name), inner_(inner), outer_(outer), options_(options) {}

  void build(const TensorSpecs& inputs) override {
    const DType dtype = inputs[0].dtype;
    std::vector<int64_t> sizes(inner_.sizes().begin(), inner_.sizes().end());
    sizes.insert(sizes.end(), outer_.sizes().begin(), outer_.sizes().end());
    // Weights start as those of the matrix would, whatever its axes are cut into.
    const auto as_matrix = [this](const Shape& shape, DType type) {
      return reshape(options_.kernel_initializer({inner_.count(), outer_.count()}, type), shape);
    };
    kernel_ = add_weight("kernel", Shape(sizes),
                         {.initializer = {options_.kernel_initializer.name(), as_matrix},
                          .regularizer = options_.kernel_regularizer,
                          .constraint = options_.kernel_constraint,
                          .dtype = dtype,
                          .tracked_name = "_kernel",
                          .cut_axes = 3});
    if (!options_.use_bias) return;
    bias_ = add_weight("bias", outer_,
                       {.initializer = options_.bias_initializer,
                        .regularizer = options_.bias_regularizer,
                        .constraint = options_.bias_constraint,
                        .dtype = dtype,
                        .cut_axes = 2});
  }

  Tensors call(const Tensors& inputs, const CallContext&) override {
    const WeightCut cut = cut_of(kernel_);
    if (cut.axis == 0) return {by_rows(inputs[0], cut)};
    if (!cut.is_whole() && cut.axis != inner_.rank()) {
      throw Unimplemented(
          fmt::format("{}: its kernel {} is cut along axis {}; axis 0 and axis {} are accepted",
                      name(), kernel_.shape().str(), cut.axis, inner_.rank()));
    }
    const WeightCut outer_cut = cut.along(0);
    const Shape outer = outer_cut.part_of(outer_);
    const Tensor y = with_bias(as_matrix_product(collective::gather_parts(inputs[0]),
                                                 part_of(kernel_, cut), inner_, outer),
                               outer_cut, outer);
    return {cut.is_whole() ? y : collective::marked_part(y, kFirstOuter)};
  }

 private:
  static constexpr int kFirstOuter = 2;  // Behind the rows and the tokens.

  /// Each replica has some of the heads that the input has, and the rows of the kernel for them.
  Tensor by_rows(const Tensor& x, const WeightCut& cut) const {
    const collective::PartsScope of_parts;
    const Tensor own = collective::cut_axis(x) < 0 ? collective::own_part(x, kFirstOuter) : x;
    const Tensor product =
        as_matrix_product(own, part_of(kernel_, cut), cut.part_of(inner_), outer_);
    return with_bias(collective::all_reduce({product}, collective::Axis::model)[0], {}, outer_);
  }

  /// [rows, tokens, inner] times [inner, outer] is [rows, tokens, outer].
  static Tensor as_matrix_product(const Tensor& x, const Tensor& kernel, const Shape& inner,
                                  const Shape& outer) {
    const Size rows = x.shape()[0], tokens = x.shape()[1];
    return matmul(reshape(x, {rows, tokens, inner.count()}),
                  reshape(kernel, {inner.count(), outer.count()}));
  }

  Tensor with_bias(Tensor y, const WeightCut& cut, const Shape& outer) const {
    const Size rows = y.shape()[0], tokens = y.shape()[1];
    if (options_.use_bias) y = y + reshape(part_of(bias_, cut), {outer.count()});
    Shape shape{rows, tokens};
    for (Size size : outer.sizes()) shape = shape.inserted(shape.rank(), size);
    return reshape(y, shape);
  }

  Shape inner_, outer_;
  MultiHeadAttentionOptions options_;
  Variable kernel_, bias_;
};

struct Operands {
  Tensor query, value, key;
  Tensor mask;  // Undefined, or broadcastable to [batch, heads, queries, keys].
};

/// The mask with axes of size 1 for the heads, and for the queries where it is the same for all.
Tensor with_heads(const Tensor& mask) {
  const Shape& shape = mask.shape();
  if (shape.rank() == 2) return reshape(mask, {shape[0], 1, 1, shape[1]});
  if (shape.rank() == 3) return reshape(mask, {shape[0], 1, shape[1], shape[2]});
  throw InvalidArgument(fmt::format(
      "the mask is {}, [batch,queries,keys] and [batch,keys] are accepted", shape.str()));
}

/// What queries see, and the weights that they see it with, [batch, heads, queries, keys].
struct Attended {
  Tensor mixed;
  Tensor weights;
};

/// attention() with weights that are dropped or returned, which it cannot do: all scores are held.
Attended attention_with_weights(const Operands& x, bool causal, double rate) {
  const auto heads_first = [](const Tensor& t) { return transpose(t, {0, 2, 1, 3}); };
  const double scale = 1 / std::sqrt(static_cast<double>(x.query.shape().extent(3)));
  Tensor scores = matmul(heads_first(x.query * scale), heads_first(x.key), {.transpose_b = true});
  Tensor seen = x.mask;
  if (causal) {
    const int64_t queries = scores.shape().extent(2), keys = scores.shape().extent(3);
    const Tensor below =
        less_equal(reshape(range(0, static_cast<double>(keys)), {1, 1, 1, keys}),
                   reshape(range(0, static_cast<double>(queries)), {1, 1, queries, 1}));
    seen = seen.defined() ? logical_and(seen, below) : below;
  }
  if (seen.defined()) scores = where(seen, scores, scalar_like(-1e30, scores));
  Tensor weights = softmax(scores);
  // A query that sees nothing has equal weights now.
  if (seen.defined()) weights = where(seen, weights, scalar_like(0, weights));
  const int heads = collective::cut_axis(x.query) < 0 ? -1 : 1;
  const Tensor kept = rate > 0 ? dropout_of_parts(weights, rate, {}, heads) : weights;
  return {heads_first(matmul(kept, heads_first(x.value))), weights};
}

class MultiHeadAttentionBody final : public FloatingBody {
 public:
  MultiHeadAttentionBody(int64_t num_heads, int64_t key_dim,
                         const MultiHeadAttentionOptions& options)
      : FloatingBody("multi_head_attention", options.name),
        heads_(num_heads),
        key_dim_(key_dim),
        options_(options) {}

  /// Bools are the mask.
  DType accepted(DType given) const override {
    return given == DType::boolean ? given : FloatingBody::accepted(given);
  }

  void build(const TensorSpecs& inputs) override {
    std::vector<TensorSpec> tokens;
    for (const TensorSpec& input : inputs) {
      if (input.dtype != DType::boolean) tokens.push_back(input);
    }
    if (tokens.empty() || tokens.size() > 3) {
      throw InvalidArgument(fmt::format(
          "called with {} inputs; query, value and key are accepted, and a mask of bools",
          tokens.size()));
    }
    for (const TensorSpec& input : tokens) {
      width_of(input, 3);
      if (input.shape.rank() == 3) continue;
      throw InvalidArgument(
          fmt::format("an input is {}, [batch,tokens,width] is needed", input.shape.str()));
    }
    const int64_t value_dim = options_.value_dim.value_or(key_dim_);
    const TensorSpec& query = tokens[0];
    const TensorSpec& value = tokens.size() > 1 ? tokens[1] : query;
    const TensorSpec& key = tokens.size() > 2 ? tokens[2] : value;
    const int64_t width = query.shape[2];
    query_ = projection("query", "_query_dense", {width}, {heads_, key_dim_}, query);
    key_ = projection("key", "_key_dense", {key.shape[2]}, {heads_, key_dim_}, key);
    value_ = projection("value", "_value_dense", {value.shape[2]}, {heads_, value_dim}, value);
    output_ = projection("attention_output", "_output_dense", {heads_, value_dim},
                         {options_.output_shape.value_or(width)}, query);
  }

  std::vector<std::string> call_arguments() const override { return {kCausal, kScores}; }

  Tensors call(const Tensors& inputs, const CallContext& context) override {
    const Operands raw = operands(inputs, context);
    const Operands x =
        of_same_heads({(*query_)(raw.query), (*value_)(raw.value), (*key_)(raw.key), raw.mask});
    const bool returns_scores = flag_of(context, kScores);
    const Attended seen = attended(x, context);
    const int cut = collective::cut_axis(x.query);
    if (cut >= 0 && returns_scores) {
      throw Unimplemented(
          fmt::format("{}: {}, where each replica has some of the heads", name(), kScores));
    }
    Tensors results = {(*output_)(cut < 0 ? seen.mixed : collective::marked_part(seen.mixed, cut))};
    if (returns_scores) results.push_back(seen.weights);
    return results;
  }

 private:
  static constexpr const char* kCausal = "use_causal_mask";
  static constexpr const char* kScores = "return_attention_scores";

  /// Each replica has its heads of all three, or all have all heads.
  static Operands of_same_heads(Operands x) {
    const auto is_cut = [](const Tensor& t) { return collective::cut_axis(t) >= 0; };
    if (is_cut(x.query) && is_cut(x.key) && is_cut(x.value)) return x;
    for (Tensor* each : {&x.query, &x.key, &x.value}) *each = collective::gather_parts(*each);
    return x;
  }

  /// Heads do not meet here, so that each replica may have its own.
  Attended attended(const Operands& x, const CallContext& context) const {
    const collective::PartsScope of_heads;
    const bool causal = flag_of(context, kCausal, options_.use_causal_mask);
    const double rate = context.training ? options_.dropout : 0;
    if (rate > 0 || flag_of(context, kScores)) return attention_with_weights(x, causal, rate);
    return {attention(x.query, x.key, x.value, {.causal = causal, .mask = x.mask}), {}};
  }

  std::optional<Layer> projection(const std::string& role, const std::string& tracked_name,
                                  const Shape& inner, const Shape& outer, const TensorSpec& input) {
    Layer layer = add_layer(
        tracked_name,
        make_layer<ProjectionBody>(fmt::format("{}/{}", name(), role), inner, outer, options_));
    node().track(role, layer, {.restore_only = true});
    layer.build({input});
    return layer;
  }

  static Operands operands(const Tensors& inputs, const CallContext& context) {
    Tensors tokens = inputs;
    Operands x;
    if (tokens.back().dtype() == DType::boolean) {
      x.mask = with_heads(tokens.back());
      tokens.pop_back();
    }
    if (context.mask.defined()) {
      const Tensor more = with_heads(context.mask);
      x.mask = x.mask.defined() ? logical_and(x.mask, more) : more;
    }
    if (tokens.empty()) throw InvalidArgument("called without a query");
    x.query = tokens[0];
    x.value = tokens.size() > 1 ? tokens[1] : x.query;
    x.key = tokens.size() > 2 ? tokens[2] : x.value;
    return x;
  }

  int64_t heads_, key_dim_;
  MultiHeadAttentionOptions options_;
  std::optional<Layer> query_, key_, value_, output_;
};

std::shared_ptr<LayerBody> attention_body(int64_t num_heads, int64_t key_dim,
                                          const MultiHeadAttentionOptions& options) {
  constexpr const char* kLayer = "multi_head_attention";
  at_least_one(kLayer, "num_heads", num_heads);
  at_least_one(kLayer, "key_dim", key_dim);
  at_least_one(kLayer, "value_dim", options.value_dim.value_or(key_dim));
  at_least_one(kLayer, "output_shape", options.output_shape.value_or(1));
  check_rate(kLayer, "dropout", options.dropout);
  return std::make_shared<MultiHeadAttentionBody>(num_heads, key_dim, options);
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(int64_t num_heads, int64_t key_dim,
                                       const MultiHeadAttentionOptions& options)
    : Layer(attention_body(num_heads, key_dim, options)) {}

}  // namespace tandem::keras::layers

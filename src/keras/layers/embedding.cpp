// The layer Embedding: a row of a table for each index.
#include "collective/collective.h"
#include "collective/parts.h"
#include "keras/layers/arguments.h"
#include "keras/layers/cut_weights.h"
#include "tandem/error.h"
#include "tandem/keras/layers.h"
#include "tandem/ops.h"

namespace tandem::keras::layers {
namespace {

class EmbeddingBody final : public LayerBody {
 public:
  EmbeddingBody(int64_t input_dim, int64_t output_dim, EmbeddingOptions options)
      : LayerBody("embedding", options.name, options.input_shape),
        shape_{input_dim, output_dim},
        options_(std::move(options)) {}

  std::optional<TensorSpec> input_spec() const override {
    std::optional<TensorSpec> spec = LayerBody::input_spec();
    if (spec) spec->dtype = DType::int32;
    return spec;
  }

  void build(const TensorSpecs&) override {
    embeddings_ = add_weight("embeddings", shape_,
                             {.initializer = options_.embeddings_initializer,
                              .regularizer = options_.embeddings_regularizer,
                              .constraint = options_.embeddings_constraint,
                              .dtype = options_.dtype,
                              .tracked_name = "_embeddings",
                              .cut_axes = 1});
  }

  Tensors call(const Tensors& inputs, const CallContext&) override {
    const Tensor& x = only(inputs);
    const bool indices = x.dtype() == DType::int32 || x.dtype() == DType::int64;
    const Tensor numbers = indices ? x : cast(x, DType::int32);
    const WeightCut cut = cut_of(embeddings_);
    if (!cut.is_whole()) return {looked_up(numbers, cut)};
    return {gather(embeddings_.value(), numbers)};
  }

  const Variable& embeddings() const { return embeddings_; }

 private:
  /// Each replica has some rows of the table, and looks up the numbers that are among them; the
  /// sum over the replicas has them all. Numbers that no replica has are left to gather(), which
  /// refuses them.
  Tensor looked_up(const Tensor& numbers, const WeightCut& cut) const {
    const auto as_number = [&](const Tensor& n) { return cast(n, numbers.dtype()); };
    const auto scalar = [&](int64_t n) { return scalar_like(static_cast<double>(n), numbers); };
    const int64_t rows = cut.part_of(shape_).extent(0);
    const Tensor own = numbers - as_number(collective::model_rank()) * scalar(rows);
    const Tensor is_own = logical_and(greater_equal(own, scalar(0)), less(own, scalar(rows)));
    const Tensor is_known =
        logical_and(greater_equal(numbers, scalar(0)), less(numbers, scalar(shape_.extent(0))));
    const Tensor row =
        where(logical_and(is_known, logical_not(is_own)), scalar(0), where(is_known, own, numbers));
    const Tensor found = gather(part_of(embeddings_, cut), row);
    const Tensor mine = where(expand_dims(is_own, -1), found, scalar_like(0, found));
    return collective::all_reduce({mine}, collective::Axis::model)[0];
  }

  Shape shape_;
  EmbeddingOptions options_;
  Variable embeddings_;
};

/// The scores of all rows of an embedding's table: x embeddings^T.
class ReverseEmbeddingBody final : public FloatingBody {
 public:
  ReverseEmbeddingBody(const Layer& embedding, std::shared_ptr<EmbeddingBody> table,
                       const std::string& name)
      : FloatingBody("reverse_embedding", name), table_(std::move(table)) {
    add_layer("embedding", embedding);
  }

  Tensors call(const Tensors& inputs, const CallContext&) override {
    const Tensor x = collective::gather_parts(only(inputs));
    if (!table_->embeddings().defined()) {
      throw FailedPrecondition("its embedding has no weights yet; call that one first");
    }
    const WeightCut cut = cut_of(table_->embeddings());
    const Tensor scores = matmul(x, part_of(table_->embeddings(), cut), {.transpose_b = true});
    return {cut.is_whole() ? scores : collective::marked_part(scores, scores.rank() - 1)};
  }

 private:
  const std::shared_ptr<EmbeddingBody> table_;
};

}  // namespace

Layer Embedding::reverse(const NameOptions& options) const {
  return make_layer<ReverseEmbeddingBody>(*this, std::static_pointer_cast<EmbeddingBody>(body()),
                                          options.name);
}

Embedding::Embedding(int64_t input_dim, int64_t output_dim, const EmbeddingOptions& options)
    : Layer((at_least_one("embedding", "input_dim", input_dim),
             at_least_one("embedding", "output_dim", output_dim),
             std::make_shared<EmbeddingBody>(input_dim, output_dim, options))) {}

}  // namespace tandem::keras::layers

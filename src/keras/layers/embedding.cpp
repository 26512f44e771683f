// The layer Embedding: a row of a table for each index.
#include "keras/layers/arguments.h"
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
                              .tracked_name = "_embeddings"});
  }

  Tensors call(const Tensors& inputs, const CallContext&) override {
    const Tensor& x = only(inputs);
    const bool indices = x.dtype() == DType::int32 || x.dtype() == DType::int64;
    return {gather(embeddings_.value(), indices ? x : cast(x, DType::int32))};
  }

 private:
  Shape shape_;
  EmbeddingOptions options_;
  Variable embeddings_;
};

}  // namespace

Embedding::Embedding(int64_t input_dim, int64_t output_dim, const EmbeddingOptions& options)
    : Layer((at_least_one("embedding", "input_dim", input_dim),
             at_least_one("embedding", "output_dim", output_dim),
             std::make_shared<EmbeddingBody>(input_dim, output_dim, options))) {}

}  // namespace tandem::keras::layers

/// Keras's layers. Each is a Layer with a constructor of its own; options have Keras's names and
/// defaults. Images are [batch, height, width, channels] only: any data_format but "channels_last"
/// is InvalidArgument. Weights have the dtype of the layer's input, float32 or float64, unless an
/// option says otherwise. Constructors throw InvalidArgument for numbers and names that can never
/// be right, the first call for inputs that do not fit; both name the layer and what is accepted.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tandem/keras/activations.h"
#include "tandem/keras/layer.h"
#include "tandem/ops/convolution.h"

namespace tandem::keras::layers {

// ---- Core ----

/// The first of a Sequential, in place of its first layer's input_shape: `InputLayer({784})`.
struct InputLayerOptions {
  DType dtype = DType::float32;
  std::string name{};
};
class TANDEM_API InputLayer : public Layer {
 public:
  explicit InputLayer(const Shape& shape, const InputLayerOptions& options = {});
};

struct DenseOptions {
  keras::Activation activation{};
  bool use_bias = true;
  Initializer kernel_initializer = "glorot_uniform";
  Initializer bias_initializer = "zeros";
  Regularizer kernel_regularizer{};
  Regularizer bias_regularizer{};
  Constraint kernel_constraint{};
  Constraint bias_constraint{};
  std::string name{};
  InputShape input_shape{};
};
/// activation(x kernel + bias) over the last axis of `x`: [.., in] becomes [.., units]. Weights:
/// kernel [in, units], bias [units].
class TANDEM_API Dense : public Layer {
 public:
  explicit Dense(int64_t units, const DenseOptions& options = {});
};

/// For layers with nothing else to say.
struct NameOptions {
  std::string name{};
  InputShape input_shape{};
};

class TANDEM_API Activation : public Layer {
 public:
  explicit Activation(const keras::Activation& activation, const NameOptions& options = {});
};

struct DropoutOptions {
  std::optional<uint64_t> seed{};
  std::string name{};
  InputShape input_shape{};
};
/// tandem::dropout while training, else nothing. The rate is within [0, 1).
class TANDEM_API Dropout : public Layer {
 public:
  explicit Dropout(double rate, const DropoutOptions& options = {});
};

struct EmbeddingOptions {
  Initializer embeddings_initializer = "uniform";
  Regularizer embeddings_regularizer{};
  Constraint embeddings_constraint{};
  DType dtype = DType::float32;
  std::string name{};
  InputShape input_shape{};
};
/// Row x of its weight, embeddings [input_dim, output_dim], for each number x of the input:
/// [..] becomes [.., output_dim]. Numbers that are not whole are cut off.
class TANDEM_API Embedding : public Layer {
 public:
  Embedding(int64_t input_dim, int64_t output_dim, const EmbeddingOptions& options = {});

  /// A layer with the same weight: x embeddings^T, a score for each row of the table, [..,
  /// output_dim] becomes [.., input_dim]. With it a model's first and last layer are tied.
  Layer reverse(const NameOptions& options = {}) const;
};

/// scale x + offset. Whole numbers become float32.
class TANDEM_API Rescaling : public Layer {
 public:
  explicit Rescaling(double scale, double offset = 0, const NameOptions& options = {});
};

/// A function as a layer. Variables that it uses are not the layer's.
class TANDEM_API Lambda : public Layer {
 public:
  explicit Lambda(std::function<Tensor(const Tensor&)> function, const NameOptions& options = {});
  explicit Lambda(std::function<Tensors(const Tensors&)> function, const NameOptions& options = {});
};

// ---- Other shapes ----

/// Each example as a vector.
class TANDEM_API Flatten : public Layer {
 public:
  explicit Flatten(const NameOptions& options = {});
};

/// Each example in another shape. One size may be -1: it is what the others leave.
class TANDEM_API Reshape : public Layer {
 public:
  explicit Reshape(const std::vector<int64_t>& target_shape, const NameOptions& options = {});
};

using tandem::HeightWidth;

/// Zeros around images.
class TANDEM_API ZeroPadding2D : public Layer {
 public:
  using BeforeAfter = std::pair<int64_t, int64_t>;
  explicit ZeroPadding2D(const HeightWidth& padding = 1, const NameOptions& options = {});
  ZeroPadding2D(const BeforeAfter& height, const BeforeAfter& width,
                const NameOptions& options = {});
};

// ---- Convolutions ----

struct Conv2DOptions {
  HeightWidth strides = 1;
  std::string padding = "valid";  ///< Or "same".
  std::string data_format = "channels_last";
  HeightWidth dilation_rate = 1;
  int64_t groups = 1;
  keras::Activation activation{};
  bool use_bias = true;
  Initializer kernel_initializer = "glorot_uniform";
  Initializer bias_initializer = "zeros";
  Regularizer kernel_regularizer{};
  Regularizer bias_regularizer{};
  Constraint kernel_constraint{};
  Constraint bias_constraint{};
  std::string name{};
  InputShape input_shape{};
};
/// activation(conv2d(x, kernel) + bias). Weights: kernel [height, width, in / groups, filters],
/// bias [filters].
class TANDEM_API Conv2D : public Layer {
 public:
  Conv2D(int64_t filters, const HeightWidth& kernel_size, const Conv2DOptions& options = {});
};

struct DepthwiseConv2DOptions {
  HeightWidth strides = 1;
  std::string padding = "valid";  ///< Or "same".
  int64_t depth_multiplier = 1;
  std::string data_format = "channels_last";
  HeightWidth dilation_rate = 1;
  keras::Activation activation{};
  bool use_bias = true;
  Initializer depthwise_initializer = "glorot_uniform";
  Initializer bias_initializer = "zeros";
  Regularizer depthwise_regularizer{};
  Regularizer bias_regularizer{};
  Constraint depthwise_constraint{};
  Constraint bias_constraint{};
  std::string name{};
  InputShape input_shape{};
};
/// activation(depthwise_conv2d(x, kernel) + bias). Weights: kernel
/// [height, width, channels, depth_multiplier], bias [channels * depth_multiplier].
class TANDEM_API DepthwiseConv2D : public Layer {
 public:
  explicit DepthwiseConv2D(const HeightWidth& kernel_size,
                           const DepthwiseConv2DOptions& options = {});
};

// ---- Pooling ----

struct Pooling2DOptions {
  HeightWidth strides{};          ///< The pool's size unless given.
  std::string padding = "valid";  ///< Or "same".
  std::string data_format = "channels_last";
  std::string name{};
  InputShape input_shape{};
};
class TANDEM_API MaxPooling2D : public Layer {
 public:
  explicit MaxPooling2D(const HeightWidth& pool_size = 2, const Pooling2DOptions& options = {});
};
class TANDEM_API AveragePooling2D : public Layer {
 public:
  explicit AveragePooling2D(const HeightWidth& pool_size = 2, const Pooling2DOptions& options = {});
};

struct GlobalPooling2DOptions {
  std::string data_format = "channels_last";
  bool keepdims = false;
  std::string name{};
  InputShape input_shape{};
};
/// [batch, height, width, channels] becomes [batch, channels].
class TANDEM_API GlobalAveragePooling2D : public Layer {
 public:
  explicit GlobalAveragePooling2D(const GlobalPooling2DOptions& options = {});
};
class TANDEM_API GlobalMaxPooling2D : public Layer {
 public:
  explicit GlobalMaxPooling2D(const GlobalPooling2DOptions& options = {});
};

// ---- Normalisation ----

struct BatchNormalizationOptions {
  int axis = -1;  ///< The last only.
  double momentum = 0.99;
  double epsilon = 1e-3;
  bool center = true;
  bool scale = true;
  Initializer beta_initializer = "zeros";
  Initializer gamma_initializer = "ones";
  Initializer moving_mean_initializer = "zeros";
  Initializer moving_variance_initializer = "ones";
  Regularizer beta_regularizer{};
  Regularizer gamma_regularizer{};
  Constraint beta_constraint{};
  Constraint gamma_constraint{};
  bool synchronized = false;  ///< While training, normalise by the batch of all replicas.
  std::string name{};
  InputShape input_shape{};
};
/// Each channel, the last axis, to mean 0 and variance 1, then times gamma plus beta. While
/// training by the statistics of the batch, which are mixed into the moving ones: moving = momentum
/// * moving
/// + (1 - momentum) * batch, over the rows of all replicas. Else, and when it is not trainable, by
/// the moving ones. Weights [channels]: gamma, beta, and moving_mean, moving_variance, which are
/// not trained.
class TANDEM_API BatchNormalization : public Layer {
 public:
  explicit BatchNormalization(const BatchNormalizationOptions& options = {});
};

struct LayerNormalizationOptions {
  int axis = -1;  ///< The first of the axes that are normalised together, all to the last.
  double epsilon = 1e-3;
  bool center = true;
  bool scale = true;
  Initializer beta_initializer = "zeros";
  Initializer gamma_initializer = "ones";
  Regularizer beta_regularizer{};
  Regularizer gamma_regularizer{};
  Constraint beta_constraint{};
  Constraint gamma_constraint{};
  std::string name{};
  InputShape input_shape{};
};
/// Each example's last axes to mean 0 and variance 1, then times gamma plus beta. Weights, with the
/// sizes of those axes: gamma, beta.
class TANDEM_API LayerNormalization : public Layer {
 public:
  explicit LayerNormalization(const LayerNormalizationOptions& options = {});
};

// ---- Several inputs ----

/// The sum of its inputs, which broadcast.
class TANDEM_API Add : public Layer {
 public:
  explicit Add(const NameOptions& options = {});
};
/// The product of its inputs, which broadcast.
class TANDEM_API Multiply : public Layer {
 public:
  explicit Multiply(const NameOptions& options = {});
};

struct ConcatenateOptions {
  int axis = -1;  ///< Not 0, the batch.
  std::string name{};
};
/// Its inputs one after another along an axis.
class TANDEM_API Concatenate : public Layer {
 public:
  explicit Concatenate(const ConcatenateOptions& options = {});
};

// ---- Memory ----

/// A layer, or a model, whose values are not kept for the backward pass but computed again there:
/// its inputs alone are kept, which takes less memory and more time. Random numbers are the same
/// both times. In code that is not compiled it is the layer itself.
class TANDEM_API Recompute : public Layer {
 public:
  explicit Recompute(const Layer& layer, const NameOptions& options = {});
};

// ---- Attention ----

struct MultiHeadAttentionOptions {
  std::optional<int64_t> value_dim{};  ///< key_dim unless given.
  double dropout = 0;  ///< The share of attention's weights that is dropped while training.
  bool use_bias = true;
  std::optional<int64_t> output_shape{};  ///< The query's width unless given.
  bool use_causal_mask = false;           ///< Token i sees the tokens 0 to i only.
  Initializer kernel_initializer = "glorot_uniform";
  Initializer bias_initializer = "zeros";
  Regularizer kernel_regularizer{};
  Regularizer bias_regularizer{};
  Constraint kernel_constraint{};
  Constraint bias_constraint{};
  std::string name{};
};
/// Attention of several heads between projections of its inputs, projected to the output. Called
/// with {query, value} or {query, value, key}, each [batch, tokens, width]; without a key the value
/// is the key, and one input alone is all three. One more input, of bools, is the attention mask:
/// [batch, queries, keys], true where a query sees a key; [batch, keys] is the same for all
/// queries. CallContext::mask of either shape counts too. A query that sees no key gives the output
/// projection of zeros. A call may be given "use_causal_mask", instead of the option, and
/// "return_attention_scores": the weights [batch, heads, queries, keys] are a second output then.
/// Weights: query/kernel [width, heads, key_dim], query/bias [heads, key_dim],
/// the same for key and, with value_dim, value; attention_output/kernel
/// [heads, value_dim, output], attention_output/bias [output].
class TANDEM_API MultiHeadAttention : public Layer {
 public:
  MultiHeadAttention(int64_t num_heads, int64_t key_dim,
                     const MultiHeadAttentionOptions& options = {});
};

}  // namespace tandem::keras::layers

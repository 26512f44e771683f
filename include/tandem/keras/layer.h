/// Layers: functions of tensors with weights of their own.
///
///   keras::layers::Dense dense(10, {.activation = "relu"});
///   Tensor y = dense(x);                       // Makes its weights for x on the first call.
///
/// A Layer is a cheap handle; copies are the same layer with the same weights. One's own layer
/// derives from LayerBody:
///
///   struct Scale : keras::LayerBody {
///     Scale() : LayerBody("scale") {}
///     void build(const TensorSpecs& inputs) override {
///       factor = add_weight("factor", {inputs[0].shape.sizes().back()}, {.initializer = "ones"});
///     }
///     Tensors call(const Tensors& inputs, const CallContext&) override {
///       return {inputs[0] * factor.value()};
///     }
///     Variable factor;
///   };
///   keras::Layer layer = keras::make_layer<Scale>();
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tandem/function.h"
#include "tandem/keras/initializers.h"
#include "tandem/trackable.h"
#include "tandem/variable.h"

namespace tandem::keras {

/// Plain values that a call is given by name: {{"use_causal_mask", true}}.
using CallArgument = std::variant<bool, int64_t, double, std::string>;
using CallArguments = std::map<std::string, CallArgument>;

/// What a layer is told besides its inputs.
struct CallContext {
  bool training = false;
  Tensor mask{};  ///< True where the first input counts; undefined where all of it does.
  /// What this call alone is told, by names that the layer knows: see LayerBody::call_arguments().
  CallArguments arguments{};
};

/// A penalty on the size of weights: a scalar that is added to the loss.
class TANDEM_API Regularizer {
 public:
  /// There is no penalty.
  Regularizer() = default;
  /// `name` is Keras's, with its default of 0.01: "l1", "l2", "l1_l2". Throws InvalidArgument for
  /// another, listing these.
  Regularizer(const char* name);  // NOLINT(google-explicit-constructor)
  explicit Regularizer(std::function<Tensor(const Tensor&)> penalty)
      : penalty_(std::move(penalty)) {}

  explicit operator bool() const { return penalty_ != nullptr; }
  Tensor operator()(const Tensor& weight) const { return penalty_(weight); }

 private:
  std::function<Tensor(const Tensor&)> penalty_;
};

namespace regularizers {
TANDEM_API Regularizer l1(double factor = 0.01);
TANDEM_API Regularizer l2(double factor = 0.01);
TANDEM_API Regularizer l1_l2(double l1 = 0.01, double l2 = 0.01);
}  // namespace regularizers

/// What a weight is brought to after each update: a function of its value.
class TANDEM_API Constraint {
 public:
  /// There is none.
  Constraint() = default;
  /// `name` is Keras's, with its defaults: "max_norm", "min_max_norm", "non_neg", "unit_norm".
  /// Throws InvalidArgument for another, listing these.
  Constraint(const char* name);  // NOLINT(google-explicit-constructor)
  explicit Constraint(std::function<Tensor(const Tensor&)> project)
      : project_(std::move(project)) {}

  explicit operator bool() const { return project_ != nullptr; }
  Tensor operator()(const Tensor& weight) const { return project_(weight); }

 private:
  std::function<Tensor(const Tensor&)> project_;
};

/// Keras's constraints. Norms are those over `axes`: for the kernel of a Dense, [in, units], over
/// {0}, for that of a Conv2D over {0, 1, 2}.
namespace constraints {
/// Norms above `max_value` become it.
TANDEM_API Constraint max_norm(double max_value = 2, const std::vector<int>& axes = {0});
/// Norms move towards the range: by the part `rate` of the way.
TANDEM_API Constraint min_max_norm(double min_value = 0, double max_value = 1, double rate = 1,
                                   const std::vector<int>& axes = {0});
/// Negative elements become 0.
TANDEM_API Constraint non_neg();
/// Norms become 1.
TANDEM_API Constraint unit_norm(const std::vector<int>& axes = {0});
}  // namespace constraints

/// From now on optimizers bring this variable to what the constraint makes of it, after each of
/// their updates. Layers do so with their weights.
TANDEM_API void constrain(const Variable& variable, const Constraint& constraint);

struct WeightOptions {
  Initializer initializer = "glorot_uniform";
  Regularizer regularizer{};
  Constraint constraint{};
  bool trainable = true;
  DType dtype = DType::float32;
  VariableAggregation aggregation = VariableAggregation::none;
  /// What checkpoints call it, where that is not its name: "_kernel" for Keras's "kernel". Those
  /// that have it by its name are restored too.
  std::string tracked_name{};
  /// Along how many of its first axes a layout may cut it: the layer has forms for parts, written
  /// with cut_axis() and part_of() of tandem/keras/distribution.h.
  int cut_axes = 0;
};

using TensorSpecs = std::vector<TensorSpec>;

/// The shape of one example, for the first layer of a Sequential: `{.input_shape = {28, 28, 1}}`.
class TANDEM_API InputShape {
 public:
  /// The shape is not known before the first call.
  InputShape() = default;
  InputShape(std::initializer_list<int64_t> sizes) : shape_(sizes) {}
  InputShape(const Shape& shape) : shape_(shape) {}  // NOLINT(google-explicit-constructor)

  const std::optional<Shape>& shape() const { return shape_; }

 private:
  std::optional<Shape> shape_;
};

class Layer;

/// What a layer does. `build` is called once, before the first call, with the inputs' types; a
/// leading size of -1 is the batch.
class TANDEM_API LayerBody {
 public:
  /// `kind` is the name of the type, "dense": layers without a name of their own are "dense",
  /// "dense_1", ..
  explicit LayerBody(std::string kind, const std::string& name = {},
                     const InputShape& input_shape = {});
  virtual ~LayerBody();
  LayerBody(const LayerBody&) = delete;
  LayerBody& operator=(const LayerBody&) = delete;

  virtual void build(const TensorSpecs& inputs);
  virtual Tensors call(const Tensors& inputs, const CallContext& context) = 0;

  /// The dtype in which `build` and `call` get an input of this one. Layers that compute with
  /// floating numbers get others as float32, other layers get them as they are. Where a layer has
  /// floating weights, floating inputs come in their dtype then, as Keras casts them.
  virtual DType accepted(DType given) const { return given; }

  /// The names of the arguments that a call may be given; others are InvalidArgument.
  virtual std::vector<std::string> call_arguments() const { return {}; }

  /// The type of its only input, where that is known before the first call.
  virtual std::optional<TensorSpec> input_spec() const;

  /// How summary() calls the type: "Dense".
  virtual std::string type_name() const;

  const std::string& name() const { return name_; }
  const std::string& kind() const { return kind_; }
  bool trainable() const { return trainable_; }

  /// What its last described call gives, else its first call; empty before.
  const TensorSpecs& outputs() const { return outputs_; }

 protected:
  /// A weight of this layer, under this name in checkpoints. Its variable is "<layer>/<name>".
  Variable add_weight(const std::string& name, const Shape& shape,
                      const WeightOptions& options = {});

  /// For `call`, to set a weight that is not trained, as moving statistics are, to next(its value).
  /// In a training step of fit it is set with the trained weights, once the loss is known to be a
  /// number; elsewhere at once.
  static void update_weight(const Variable& weight,
                            const std::function<Tensor(const Tensor& now)>& next);

  /// A layer that this one uses, under this name in checkpoints: its weights count as this one's.
  template <class L>
  L add_layer(const std::string& name, L layer) {
    node_.track(name, layer);
    adopt(layer);
    return layer;
  }

  /// The same without a name.
  void adopt(const Layer& layer);

  /// What checkpoints save and restore of this layer, for names that the functions above do not
  /// give.
  const Trackable& node() const { return node_; }

 private:
  friend class Layer;
  friend class Model;
  struct Weight {
    Variable variable;
    Regularizer regularizer;
  };

  void ensure_built(const TensorSpecs& inputs);
  DType dtype_for(DType given) const;
  /// The inputs themselves, or `casts` where some have another dtype than the layer computes with.
  const Tensors& taken(const Tensors& inputs, Tensors& casts) const;
  void set_outputs(const TensorSpecs& outputs);

  std::string kind_;
  std::string name_;
  InputShape input_shape_;
  Trackable node_;
  std::vector<Weight> weights_;
  std::vector<Layer> layers_;
  bool trainable_ = true;
  std::atomic<bool> built_ = false;
  TensorSpecs built_for_;
  std::atomic<bool> has_outputs_ = false;
  TensorSpecs outputs_;
  int described_calls_ = 0;
};

class KerasTensor;
struct DescribedContext;
class InputLayerBody;

class TANDEM_API Layer : public Trackable {
 public:
  /// Takes over a body. Throws InvalidArgument for null.
  explicit Layer(std::shared_ptr<LayerBody> body);

  /// The outputs for these inputs; the weights are made on the first call.
  Tensor operator()(const Tensor& input, const CallContext& context = {}) const;
  Tensors operator()(const Tensors& inputs, const CallContext& context = {}) const;

  /// The layer as a step of a model that is being described: see Input().
  KerasTensor operator()(const KerasTensor& input) const;
  KerasTensor operator()(const std::vector<KerasTensor>& inputs) const;
  std::vector<KerasTensor> all(const std::vector<KerasTensor>& inputs) const;
  /// The same with what this call is told whenever the model runs:
  ///
  ///   auto y = attention({x, x}, {.mask = seen, .arguments = {{"use_causal_mask", true}}});
  KerasTensor operator()(const KerasTensor& input, const DescribedContext& context) const;
  KerasTensor operator()(const std::vector<KerasTensor>& inputs,
                         const DescribedContext& context) const;
  std::vector<KerasTensor> all(const std::vector<KerasTensor>& inputs,
                               const DescribedContext& context) const;

  /// Makes the weights now. Throws FailedPrecondition when they exist for other inputs.
  void build(const TensorSpecs& inputs) const;
  bool built() const { return body_->built_; }

  const std::string& name() const { return body_->name(); }

  /// A layer that is not trainable, or lies inside one that is not, has no trainable weights.
  bool trainable() const { return body_->trainable_; }
  /// Sets it for this layer and for all inside.
  void set_trainable(bool trainable) const;

  /// Own weights first, then those of the layers inside, each once.
  Variables weights() const;
  Variables trainable_weights() const;
  Variables non_trainable_weights() const;
  /// The number of elements of all weights. Throws FailedPrecondition before they are made.
  int64_t count_params() const;

  /// Copies of the weights' values, in the order of weights().
  Tensors get_weights() const;
  /// Throws InvalidArgument when number, shapes or dtypes differ; then nothing has changed.
  void set_weights(const Tensors& values) const;

  /// The layers inside, in the order they were added.
  std::vector<Layer> layers() const;

  /// The penalties of all weights' regularizers, summed; undefined where there is none. Inside
  /// strategy.run this replica's share of them, so that the sum over replicas is the penalty.
  Tensor regularization_loss() const;

  /// For the library's own use.
  const std::shared_ptr<LayerBody>& body() const { return body_; }
  static KerasTensor described_input(const std::shared_ptr<InputLayerBody>& body);
  bool operator==(const Layer& other) const { return body_ == other.body_; }

 private:
  template <class Visit>
  void for_each_weight(bool trainable, const Visit& visit) const;

  std::shared_ptr<LayerBody> body_;
};

template <class Body, class... Args>
Layer make_layer(Args&&... args) {
  return Layer(std::make_shared<Body>(std::forward<Args>(args)...));
}

// ---- Models described by calling layers ----

struct DescribedCall;

/// A tensor of a model that is being described: its type, and the call that will make it.
class TANDEM_API KerasTensor {
 public:
  const Shape& shape() const { return spec_.shape; }  ///< A leading -1 is the batch.
  DType dtype() const { return spec_.dtype; }

  /// For the library's own use.
  KerasTensor(const TensorSpec& spec, std::shared_ptr<const DescribedCall> made_by, int index)
      : spec_(spec), made_by_(std::move(made_by)), index_(index) {}
  const TensorSpec& spec() const { return spec_; }
  const std::shared_ptr<const DescribedCall>& made_by() const { return made_by_; }
  int index() const { return index_; }

 private:
  TensorSpec spec_;
  std::shared_ptr<const DescribedCall> made_by_;
  int index_;
};

using KerasTensors = std::vector<KerasTensor>;

/// What one call of a layer is told in a model that is being described; what is left out is told
/// when the model is called.
struct DescribedContext {
  std::optional<bool> training{};
  std::optional<KerasTensor> mask{};
  CallArguments arguments{};
};

/// An input of a model that is being described. `shape` is that of one example. Without a name it
/// is "input_layer", "input_layer_1", ..
TANDEM_API KerasTensor Input(const Shape& shape, DType dtype = DType::float32,
                             const std::string& name = {});

}  // namespace tandem::keras

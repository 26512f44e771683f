// The layer Recompute: a tape sees one call with a gradient of its own, which makes the layer's
// calls again, from inputs of another name, and goes back through those.
#include "graph/trace.h"
#include "keras/layers/deferred_updates.h"
#include "op/apply.h"
#include "op/registry.h"
#include "tandem/gradient_tape.h"
#include "tandem/keras/layers.h"
#include "tandem/ops.h"

namespace tandem::keras::layers {
namespace {

/// While it lives, no tape of this thread records.
class HiddenCalls {
 public:
  HiddenCalls() { tapes_.swap(op::recorders()); }
  ~HiddenCalls() { tapes_.swap(op::recorders()); }
  HiddenCalls(const HiddenCalls&) = delete;
  HiddenCalls& operator=(const HiddenCalls&) = delete;

 private:
  std::vector<op::Recorder*> tapes_;
};

Tensors again(const Tensors& inputs) {
  static const op::OpDef& def = op::find_op("recompute_input");
  Tensors same;
  for (const Tensor& input : inputs) same.push_back(op::apply_one(def, {input}));
  return same;
}

class RecomputeBody final : public LayerBody {
 public:
  RecomputeBody(const Layer& layer, const std::string& name)
      : LayerBody("recompute", name), layer_(add_layer("layer", layer)) {}

  std::optional<TensorSpec> input_spec() const override { return layer_.body()->input_spec(); }
  DType accepted(DType given) const override { return layer_.body()->accepted(given); }
  void build(const TensorSpecs& inputs) override {
    if (!layer_.built()) layer_.build(inputs);
  }

  Tensors call(const Tensors& inputs, const CallContext& context) override {
    graph::Trace* trace = graph::Trace::current();
    if (trace == nullptr || op::recorders().empty()) return layer_(inputs, context);
    Tensors kept = inputs;
    for (const Variable& weight : layer_.trainable_weights()) kept.push_back(value_read(weight));
    const uint64_t first = trace->random_calls();
    Tensors outputs;
    {
      const HiddenCalls hidden;
      // An output that is an input would have the input's gradient.
      for (const Tensor& output : layer_(inputs, context)) outputs.push_back(identity(output));
    }
    const auto gradient = std::make_shared<const op::GradientFn>(
        [layer = layer_, context, first, count = inputs.size()](const op::Call& call,
                                                                const Tensors& g) {
          return gradients(layer, context, first, count, call, g);
        });
    for (op::Recorder* recorder : op::recorders()) recorder->record_custom(gradient, kept, outputs);
    return outputs;
  }

 private:
  /// What a call reads of a weight: where it is cut, a replica reads its part.
  static Tensor value_read(const Variable& weight) {
    return op::interpreter().is_replica() ? op::read_part(weight) : weight.value();
  }

  /// The gradients of the first `count` inputs of the call, the layer's, and of its weights.
  static Tensors gradients(const Layer& layer, const CallContext& context, uint64_t first,
                           size_t count, const op::Call& call, const Tensors& g) {
    const auto middle = call.inputs.begin() + static_cast<ptrdiff_t>(count);
    const Tensors inputs = again({call.inputs.begin(), middle});
    Tensors sources = inputs;
    sources.insert(sources.end(), middle, call.inputs.end());
    GradientTape tape;
    std::vector<size_t> places;
    Tensors asked;
    for (size_t i = 0; i < sources.size(); ++i) {
      if (!is_floating(sources[i].dtype())) continue;
      tape.watch(sources[i]);
      places.push_back(i);
      asked.push_back(sources[i]);
    }
    Tensors outputs;
    {
      const graph::Trace::SecondPass repeated(*graph::Trace::current(), first);
      const DeferredUpdates::Ignored once;
      outputs = layer(inputs, context);
    }
    Tensors given = g;
    for (size_t i = 0; i < given.size(); ++i) {
      if (!given[i].defined()) given[i] = zeros_like(outputs[i]);
    }
    const Tensors found = tape.gradient(outputs, asked, {.output_gradients = given});
    Tensors result(sources.size());
    for (size_t i = 0; i < places.size(); ++i) result[places[i]] = found[i];
    return result;
  }

  const Layer layer_;
};

}  // namespace

Recompute::Recompute(const Layer& layer, const NameOptions& options)
    : Layer(std::make_shared<RecomputeBody>(layer, options.name)) {}

}  // namespace tandem::keras::layers

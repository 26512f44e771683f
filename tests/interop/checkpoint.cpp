#include "checkpoint.h"

#include "tandem/tandem.h"

namespace tandem::interop {
namespace {

/// Dense layers 3-4-2, tracked as Keras tracks a Sequential: within it a functional model, whose
/// first operation is the input.
class Model : public Trackable {
 public:
  Model() {
    operations_.track("0", Trackable());
    add_layer("1", 3, 4);
    add_layer("2", 4, 2);
    const Trackable functional;
    functional.track("_operations", operations_);
    track("_functional", functional);
  }

  Tensor operator()(const Tensor& x) const {
    return matmul(relu(matmul(x, weights[0]) + weights[1]), weights[2]) + weights[3];
  }

  Variables weights;

 private:
  static Tensor initial(const Shape& shape) {
    std::vector<float> values(static_cast<size_t>(shape.count()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = (static_cast<float>(i % 7) - 3) / 8;
    return Tensor::from(values, shape);
  }

  void add_layer(const std::string& name, int64_t in, int64_t out) {
    weights.emplace_back(initial({in, out}));
    weights.emplace_back(initial({out}));
    const Trackable layer;
    layer.track("_kernel", weights[weights.size() - 2]);
    layer.track("bias", weights.back());
    operations_.track(name, layer);
  }

  Trackable operations_;
};

Trackable one_of_each_type() {
  const Trackable types;
  for (const DType dtype : {DType::float16, DType::float32, DType::float64, DType::bfloat16,
                            DType::uint8, DType::int32, DType::int64, DType::boolean}) {
    types.track(std::string(name_of(dtype)),
                Variable(cast(Tensor::from<float>({1, 0, 3}, {3}), dtype)));
  }
  types.track("empty", Variable(zeros({0, 4})));
  types.track("a/b.c", Variable(Tensor(2.5f)));
  return types;
}

void train_step(const Model& model, const keras::optimizers::Adam& optimizer) {
  std::vector<float> inputs(12);
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = static_cast<float>(i) / 12;
  const Tensor y = Tensor::from<float>({1, 0, 0, 1, 0, 1, 1, 0}, {4, 2});
  GradientTape tape;
  const Tensor loss =
      reduce_mean(softmax_cross_entropy_with_logits(y, model(Tensor::from(inputs, {4, 3}))));
  optimizer.apply_gradients(tape.gradient(loss, model.weights), model.weights);
}

}  // namespace

int take_turn(const std::string& folder, int steps) {
  const Model model;
  const keras::optimizers::Adam optimizer(0.01);
  std::string position;
  const train::TrainState state(
      {{"model", model},
       {"optimizer", optimizer},
       {"types", one_of_each_type()},
       {"position",
        HostState<std::string>{.save = [&] { return position; },
                               .restore = [&](const std::string& saved) { position = saved; }}}});
  const train::Checkpoint checkpoint(state);
  train::CheckpointManager manager(checkpoint, folder, {.max_to_keep = 2});
  const auto status = checkpoint.restore(manager.latest_checkpoint());
  for (int i = 0; i < steps; ++i) train_step(model, optimizer);
  if (status.path()) status.assert_consumed();
  state.set_step(state.step() + steps);
  position += "tandem\n";
  manager.save();
  return 0;
}

}  // namespace tandem::interop

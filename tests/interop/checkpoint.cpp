#include "checkpoint.h"

#include "tandem/tandem.h"

namespace tandem::interop {
namespace {

/// The model, with the weights that checkpoints.py gives it.
keras::Sequential make_model(int64_t width) {
  const keras::Sequential model(
      {keras::layers::Dense(width, {.activation = "relu", .input_shape = {3}}),
       keras::layers::Dense(2)});
  for (const Variable& weight : model.weights()) {
    std::vector<float> values(static_cast<size_t>(weight.shape().count()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = (static_cast<float>(i % 7) - 3) / 8;
    weight.assign(Tensor::from(values, weight.shape()));
  }
  return model;
}

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

Tensor inputs() {
  std::vector<float> values(12);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 12;
  return Tensor::from(values, {4, 3});
}

Tensor truths() { return Tensor::from<float>({1, 0, 0, 1, 0, 1, 1, 0}, {4, 2}); }

void train_step(const keras::Model& model, const keras::optimizers::Adam& optimizer) {
  GradientTape tape;
  const Tensor loss = reduce_mean(softmax_cross_entropy_with_logits(truths(), model(inputs())));
  optimizer.apply_gradients(tape.gradient(loss, model.weights()), model.weights());
}

}  // namespace

int take_turn(const std::string& folder, int steps) {
  const keras::Sequential model = make_model(4);
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

namespace {

/// Each process keeps a part of the slots; or in a mesh it is a member of one of two stages, with
/// its parts of their weights.
distribute::Strategy strategy_of(const std::string& way) {
  if (way == "slots") {
    return distribute::MultiWorkerMirroredStrategy({.shard = distribute::Shard::state});
  }
  distribute::LayoutMap layouts(distribute::DeviceMesh({1, 2, 2}, {"data", "stage", "model"}));
  layouts["dense/kernel"] = {"", "model"};
  layouts["dense_1/kernel"] = {"model"};
  return distribute::ModelParallel(layouts, {.microbatches = 2});
}

}  // namespace

int train_together(const std::string& folder, int steps, const std::string& way) {
  const distribute::Strategy strategy = strategy_of(way);
  const auto scope = strategy.scope();
  const keras::Sequential model = make_model(64);
  const keras::optimizers::Adam optimizer(0.01);
  model.compile({.optimizer = optimizer,
                 .loss = keras::losses::CategoricalCrossentropy({.from_logits = true})});
  for (int i = 0; i < steps; ++i) model.train_on_batch({inputs()}, {truths()});
  train::Checkpoint({{"model", model}, {"optimizer", optimizer}}).save(folder + "/together");
  return 0;
}

}  // namespace tandem::interop

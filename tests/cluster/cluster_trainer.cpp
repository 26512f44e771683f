// One rank of several that train a model, for tests that kill them.
//   cluster_trainer FOLDER EPOCHS RESULT TRANSPORT STRATEGY
// Joins the cluster that the environment describes, trains from the latest checkpoint of FOLDER up
// to EPOCHS, evaluating and saving after each, and prints a line when it has begun. The chief
// writes what was trained to RESULT. STRATEGY is `mirrored`, or `pipeline`: a stage on each rank.
// On an error it prints the kind and the text, and returns 1.
#include <cstdio>
#include <string>

#include "harness/classifier.h"
#include "tandem/tandem.h"

namespace tandem {
namespace {

constexpr int64_t kRows = 90;

distribute::Strategy strategy_for(const std::string& name, const std::string& transport) {
  const distribute::CommunicationOptions communication{.transport = transport};
  if (name == "pipeline") {
    return distribute::PipelineStrategy({.microbatches = 4, .communication = communication});
  }
  return distribute::MultiWorkerMirroredStrategy({.communication = communication});
}

/// What a checkpoint has of the model: the chief of a pipeline has no other way to all weights.
NamedTensors weights_in(const std::string& folder) {
  const train::CheckpointReader reader = train::load_checkpoint(folder);
  NamedTensors weights;
  for (const std::string& key : reader.keys()) {
    if (key.starts_with("model/") && key.ends_with("VARIABLE_VALUE")) {
      weights[std::to_string(weights.size())] = reader.tensor(key);
    }
  }
  return weights;
}

void run_training(const std::string& folder, int epochs, const std::string& result,
                  const std::string& transport, const std::string& strategy_name) {
  config::set_logical_cpus({{.threads = 1}});
  random::set_seed(3);
  const distribute::Strategy strategy = strategy_for(strategy_name, transport);
  const auto scope = strategy.scope();
  const keras::Sequential model({
      keras::layers::Dense(32, {.activation = "relu", .input_shape = {784}}),
      keras::layers::Dropout(0.3),
      keras::layers::Dense(10),
  });
  const keras::optimizers::Adam optimizer(0.01);
  model.compile({.optimizer = optimizer,
                 .loss = keras::losses::CategoricalCrossentropy({.from_logits = true})});
  const train::TrainState state({{"model", model}, {"optimizer", optimizer}});
  train::CheckpointManager manager(train::Checkpoint(state), folder);
  manager.restore_or_initialize();
  const Tensor x = harness::features<float>(kRows);
  const Tensor y = harness::labels<float>(kRows);
  std::puts("begun");
  std::fflush(stdout);
  for (auto epoch = static_cast<int>(state.epoch()); epoch < epochs; ++epoch) {
    model.fit(x, y,
              {.batch_size = 16,
               .epochs = epoch + 1,
               .verbose = keras::Verbose::silent,
               .initial_epoch = epoch});
    model.evaluate(x, y, {.batch_size = 32, .verbose = keras::Verbose::silent});
    state.set_epoch(epoch + 1);
    manager.save();
  }
  if (!strategy.is_chief()) return;
  save_npz(result, weights_in(folder));
}

}  // namespace
}  // namespace tandem

int main(int count, char** words) {
  if (count != 6) {
    std::fprintf(stderr, "usage: cluster_trainer FOLDER EPOCHS RESULT TRANSPORT STRATEGY\n");
    return 2;
  }
  try {
    tandem::run_training(words[1], std::stoi(words[2]), words[3], words[4], words[5]);
  } catch (const tandem::Error& error) {
    std::printf("%s: %s\n", error.kind(), error.what());
    return 1;
  }
  return 0;
}

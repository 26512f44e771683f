// One rank of several that train a model, for tests that kill them.
//   cluster_trainer FOLDER EPOCHS RESULT TRANSPORT STRATEGY [PHASE]
// Joins the cluster that the environment describes, trains from the latest checkpoint of FOLDER up
// to EPOCHS, evaluating and saving after each, and prints a line when it has begun. The chief
// writes what was trained to RESULT. STRATEGY is `mirrored`, or `pipeline`: a stage on each rank.
// On an error it prints the kind and the text, and returns 1. With a PHASE it kills itself where
// that begins: "trace", "step", "backward", "exchange", "update", "evaluate", "save".
#include <csignal>
#include <cstdio>
#include <map>
#include <string>

#include "harness/classifier.h"
#include "op/instruction_hook.h"
#include "tandem/tandem.h"

namespace tandem {
namespace {

constexpr int64_t kRows = 90;

/// The phase in which this process is to die, as kill -9 does it.
class Death {
 public:
  explicit Death(std::string phase) : phase_(std::move(phase)) {
    if (is_within_runs()) {
      op::set_instruction_hook([this](int, const std::string& name) {
        if (is_armed_ && is_in(name)) std::raise(SIGKILL);
      });
    }
  }

  /// It dies in its first epoch by "trace" and "step", and in the second by all else.
  void begin_epoch(int number) { is_armed_ = number > 0 || phase_ == "trace" || phase_ == "step"; }
  void enter(const std::string& phase) const {
    if (is_armed_ && phase == phase_) std::raise(SIGKILL);
  }
  void set_evaluating(bool evaluates) { evaluates_ = evaluates; }

 private:
  bool is_within_runs() const { return !phase_.empty() && phase_ != "trace" && phase_ != "save"; }
  bool is_in(const std::string& instruction) const {
    if (phase_ == "evaluate") return evaluates_;
    if (phase_ == "step") return true;
    const std::map<std::string, std::string> beginnings = {
        {"backward", "relu_grad"}, {"exchange", "exchange_sum"}, {"update", "adam_update"}};
    return instruction.starts_with(beginnings.at(phase_));
  }

  std::string phase_;
  bool is_armed_ = false;
  bool evaluates_ = false;
};

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
                  const std::string& transport, const std::string& strategy_name, Death& death) {
  config::set_logical_cpus({{.threads = 1}});
  random::set_seed(3);
  const distribute::Strategy strategy = strategy_for(strategy_name, transport);
  const auto scope = strategy.scope();
  const keras::Sequential model({
      keras::layers::Dense(32, {.activation = "relu", .input_shape = {784}}),
      keras::layers::Dropout(0.3),
      keras::layers::Dense(10),
      keras::layers::Lambda([&](const Tensor& x) {
        death.enter("trace");
        return x;
      }),
  });
  const keras::optimizers::Adam optimizer(0.01);
  model.compile({.optimizer = optimizer,
                 .loss = keras::losses::CategoricalCrossentropy({.from_logits = true})});
  const HostState<int64_t> dying{.save =
                                     [&] {
                                       death.enter("save");
                                       return int64_t{0};
                                     },
                                 .restore = [](int64_t) {}};
  const train::TrainState state({{"model", model}, {"optimizer", optimizer}, {"dying", dying}});
  train::CheckpointManager manager(train::Checkpoint(state), folder);
  manager.restore_or_initialize();
  const Tensor x = harness::features<float>(kRows);
  const Tensor y = harness::labels<float>(kRows);
  std::puts("begun");
  std::fflush(stdout);
  const auto first = static_cast<int>(state.epoch());
  for (int epoch = first; epoch < epochs; ++epoch) {
    death.begin_epoch(epoch - first);
    model.fit(x, y,
              {.batch_size = 16,
               .epochs = epoch + 1,
               .verbose = keras::Verbose::silent,
               .initial_epoch = epoch});
    death.set_evaluating(true);
    model.evaluate(x, y, {.batch_size = 32, .verbose = keras::Verbose::silent});
    death.set_evaluating(false);
    state.set_epoch(epoch + 1);
    manager.save();
  }
  if (!strategy.is_chief()) return;
  save_npz(result, weights_in(folder));
}

}  // namespace
}  // namespace tandem

int main(int count, char** words) {
  if (count != 6 && count != 7) {
    std::fprintf(stderr,
                 "usage: cluster_trainer FOLDER EPOCHS RESULT TRANSPORT STRATEGY [PHASE]\n");
    return 2;
  }
  try {
    tandem::Death death(count == 7 ? words[6] : "");
    tandem::run_training(words[1], std::stoi(words[2]), words[3], words[4], words[5], death);
  } catch (const tandem::Error& error) {
    std::printf("%s: %s\n", error.kind(), error.what());
    return 1;
  }
  return 0;
}

// A process that is killed by tests.
//   trainer train FOLDER STEPS RESULT [KILL_AT]  trains from the latest checkpoint of FOLDER up to
//                                       STEPS, saving every ten steps; then writes all that was
//                                       trained to RESULT. Kills itself before step KILL_AT.
//   trainer save FOLDER                 saves for ever, each time another number everywhere; prints
//                                       a line after each.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include "harness/classifier.h"
#include "tandem/tandem.h"

namespace tandem {
namespace {

constexpr int64_t kBatch = 16;
constexpr int64_t kBatches = 7;

int train(const std::string& folder, int64_t steps, const std::string& result, int64_t kill_at) {
  const harness::Classifier<float> classifier({784, 10, 10});
  const auto step = function(
      [&](const Tensor& x, const Tensor& y) { return classifier.train_step(dropout(x, 0.3), y); });
  const Trackable model;
  for (const Variable& v : classifier.variables) model.track(v.name(), v);
  const train::TrainState state({{"model", model}, {"optimizer", classifier.optimizer}});
  train::CheckpointManager manager(train::Checkpoint(state), folder);
  manager.restore_or_initialize();

  const Tensor x = harness::features<float>(kBatch * kBatches);
  const Tensor y = harness::labels<float>(kBatch * kBatches);
  while (state.step() < steps) {
    if (state.step() == kill_at) std::raise(SIGKILL);
    const int64_t begin = state.step() % kBatches * kBatch;
    step(x.rows(begin, begin + kBatch), y.rows(begin, begin + kBatch));
    state.set_step(state.step() + 1);
    state.set_epoch(state.step() / kBatches);
    if (state.step() % 10 == 0) manager.save();
  }
  NamedTensors results = {{"random", random_normal({4})}};
  for (const Variable& v : classifier.variables) results[v.name()] = v;
  const Variables trained = classifier.optimizer.variables();
  for (size_t i = 0; i < trained.size(); ++i) {
    results["optimizer" + std::to_string(i)] = trained[i];
  }
  save_npz(result, results);
  return 0;
}

int save(const std::string& folder) {
  const Variable small(zeros({3}));
  const Variable large(zeros({100, 1000}));
  train::CheckpointManager manager(train::Checkpoint({{"small", small}, {"large", large}}), folder,
                                   {.max_to_keep = 3});
  manager.restore_or_initialize({.fall_back = false});
  const auto latest = manager.latest_checkpoint();
  int64_t number =
      latest ? std::stoll(latest->string().substr(latest->string().rfind('-') + 1)) : 0;
  for (;;) {
    ++number;
    small.assign(fill({3}, static_cast<double>(number)));
    large.assign(fill({100, 1000}, static_cast<double>(number)));
    manager.save();
    std::puts("saved");
    std::fflush(stdout);
  }
}

int run(int count, char** words) {
  if (count == 3 && std::strcmp(words[1], "save") == 0) return save(words[2]);
  if (count >= 5 && std::strcmp(words[1], "train") == 0) {
    return train(words[2], std::stoll(words[3]), words[4], count > 5 ? std::stoll(words[5]) : -1);
  }
  std::fprintf(stderr, "usage: trainer train FOLDER STEPS RESULT [KILL_AT] | save FOLDER\n");
  return 2;
}

}  // namespace
}  // namespace tandem

int main(int count, char** words) {
  try {
    return tandem::run(count, words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "trainer: %s\n", error.what());
    return 1;
  }
}

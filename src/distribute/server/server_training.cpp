#include "distribute/server/server_training.h"

namespace tandem::distribute {

ServerTraining::~ServerTraining() = default;

PerReplicas ServerTraining::run(const FlatFunction& f, PerReplicas arguments) {
  const StepOutcomePtr outcome = schedule(f, std::move(arguments));
  join();
  PerReplicas results;
  for (size_t i = 0; i < outcome->results[0].size(); ++i) {
    Tensors values;
    for (const Tensors& share : outcome->results) values.push_back(share[i]);
    results.emplace_back(std::move(values));
  }
  return results;
}

}  // namespace tandem::distribute

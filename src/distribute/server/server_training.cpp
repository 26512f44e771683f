#include "distribute/server/server_training.h"

#include "tandem/error.h"

namespace tandem::distribute {

ServerTraining::~ServerTraining() = default;

std::string ServerTraining::follow(const FlatFunction&, const BatchNumber&, const BatchAt&) {
  return {};
}
std::string ServerTraining::follow() { return {}; }

void ServerTraining::check_only(const ServerStep* under_way, const ServerStep& step) {
  if (under_way == nullptr || under_way == &step) return;
  throw Unimplemented(
      "ParameterServerStrategy: between processes one function trains at a time; another one can "
      "after a fit");
}

PerReplicas ServerTraining::run(const FlatFunction& f, PerReplicas arguments) {
  const StepOutcomePtr outcome = schedule(f, std::move(arguments));
  join();
  const std::vector<Tensors>& by_share = results_of(*outcome);
  PerReplicas results;
  for (size_t i = 0; i < by_share[0].size(); ++i) {
    Tensors values;
    for (const Tensors& share : by_share) values.push_back(share[i]);
    results.emplace_back(std::move(values));
  }
  return results;
}

}  // namespace tandem::distribute

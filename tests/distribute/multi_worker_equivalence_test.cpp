// The equivalence suite over real processes and a plain transport.
#include "checks/models.h"
#include "device/logical_device.h"
#include "distribute/multi_worker.h"
#include "harness/socket_group.h"

namespace tandem::distribute {
namespace {

/// Processes, and replicas of each.
class ProcessEquivalence : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(ProcessEquivalence, EveryModelTrainsAsOnOneDevice) {
  const auto [processes, replicas] = GetParam();
  harness::in_processes(processes, [replicas = replicas](const auto& group) {
    devices::reset_devices();
    config::set_logical_cpus(
        std::vector<config::LogicalCpu>(static_cast<size_t>(replicas), {.threads = 1}));
    random::set_seed(1);
    const Strategy strategy = multi_worker_strategy(group, {});
    namespace models = checks::models;
    for (const auto& training : {models::mlp(), models::convnet(), models::transformer(),
                                 models::embedding(), models::masked_outputs()}) {
      const checks::Equivalence result = checks::check_equivalence(training, {strategy});
      EXPECT_TRUE(result.same) << result.text;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(MultiWorker, ProcessEquivalence,
                         testing::Values(std::pair{1, 2}, std::pair{2, 1}, std::pair{2, 2},
                                         std::pair{3, 1}, std::pair{3, 2}, std::pair{4, 1},
                                         std::pair{4, 2}));

}  // namespace
}  // namespace tandem::distribute

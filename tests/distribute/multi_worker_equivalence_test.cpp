// The equivalence suite over real processes: over a plain transport, and over UCX by sockets and
// through memory.
#include "checks/models.h"
#include "device/logical_device.h"
#include "distribute/multi_worker.h"
#include "harness/free_port.h"
#include "harness/socket_group.h"

namespace tandem::distribute {
namespace {

/// Processes, replicas of each, and what carries their messages.
struct Arrangement {
  int processes = 1;
  int replicas = 1;
  std::string transport;
};

void PrintTo(const Arrangement& arrangement, std::ostream* out) {
  *out << arrangement.processes << "x" << arrangement.replicas << " " << arrangement.transport;
}

/// The strategy of users, over the library's own transport. The processes tell each other their
/// addresses over the plain one.
Strategy joined_strategy(const std::shared_ptr<harness::SocketGroup>& group,
                         const std::string& transport) {
  std::vector<std::string> addresses =
      group->gather_texts("port", std::to_string(harness::free_port()));
  for (std::string& address : addresses) address = "127.0.0.1:" + address;
  const train::ClusterSpec spec({{"worker", addresses}});
  return MultiWorkerMirroredStrategy(
      {.communication = {.transport = transport},
       .cluster_resolver = std::make_shared<cluster_resolver::SimpleClusterResolver>(
           spec, "worker", group->rank())});
}

class ProcessEquivalence : public testing::TestWithParam<Arrangement> {};

TEST_P(ProcessEquivalence, EveryModelTrainsAsOnOneDevice) {
  const Arrangement wanted = GetParam();
  harness::in_processes(wanted.processes, [&](const auto& group) {
    devices::reset_devices();
    config::set_logical_cpus(
        std::vector<config::LogicalCpu>(static_cast<size_t>(wanted.replicas), {.threads = 1}));
    random::set_seed(1);
    const Strategy strategy = wanted.transport == "plain"
                                  ? multi_worker_strategy(group, {})
                                  : joined_strategy(group, wanted.transport);
    EXPECT_EQ(strategy.num_replicas_in_sync(), wanted.processes * wanted.replicas);
    namespace models = checks::models;
    for (const auto& training : {models::mlp(), models::convnet(), models::transformer(),
                                 models::embedding(), models::masked_outputs()}) {
      const checks::Equivalence result = checks::check_equivalence(training, {strategy});
      EXPECT_TRUE(result.same) << result.text;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(MultiWorker, ProcessEquivalence,
                         testing::Values(Arrangement{1, 2, "plain"}, Arrangement{2, 1, "plain"},
                                         Arrangement{4, 2, "plain"}, Arrangement{2, 1, "tcp"},
                                         Arrangement{2, 2, "tcp"}, Arrangement{3, 1, "tcp"},
                                         Arrangement{3, 2, "tcp"}, Arrangement{4, 1, "tcp"},
                                         Arrangement{4, 2, "tcp"}, Arrangement{2, 2, "shm"},
                                         Arrangement{3, 1, "shm"}, Arrangement{4, 2, "shm"}));

}  // namespace
}  // namespace tandem::distribute

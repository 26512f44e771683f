#include "cluster/cluster_config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "harness/soak.h"
#include "harness/throws.h"

namespace tandem::cluster {
namespace {

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

std::string tf_config_refusal(const std::string& text) {
  return refusal([&] { cluster_from_tf_config(text); });
}

TEST(TFConfig, ReadsWhatTensorFlowsTutorialWrites) {
  const auto cluster = cluster_from_tf_config(
      R"({"cluster": {"worker": ["localhost:12345", "localhost:23456"]}, "task": {"type": "worker", "index": 1}})");
  ASSERT_TRUE(cluster);
  EXPECT_EQ(cluster->rank, 1);
  EXPECT_EQ(cluster->size, 2);
  EXPECT_EQ(cluster->coordinator.str(), "localhost:12345");
  EXPECT_EQ(cluster->task_name(1), "worker 1");
}

TEST(TFConfig, ReadsWhatKubeflowWrites) {
  const auto cluster = cluster_from_tf_config(
      R"({"cluster":{"chief":["mnist-chief-0.kubeflow.svc:2222"],"ps":["mnist-ps-0.kubeflow.svc:2222"],)"
      R"("worker":["mnist-worker-0.kubeflow.svc:2222","mnist-worker-1.kubeflow.svc:2222"]},)"
      R"("task":{"type":"worker","index":0},"environment":"cloud"})");
  ASSERT_TRUE(cluster);
  EXPECT_EQ(cluster->rank, 1);
  EXPECT_EQ(cluster->size, 3);
  EXPECT_EQ(cluster->coordinator.host, "mnist-chief-0.kubeflow.svc");
  EXPECT_EQ(cluster->task_name(0), "chief 0");
  EXPECT_EQ(cluster->task_name(2), "worker 1");
}

TEST(TFConfig, ReadsSparseClustersAndNumbersAsTexts) {
  const auto cluster = cluster_from_tf_config(
      R"({"sparseCluster":{"cluster":{"worker":{"1":"b:2","0":"a:2"}}},"task":{"type":"worker","index":"1"}})");
  ASSERT_TRUE(cluster);
  EXPECT_EQ(cluster->rank, 1);
  EXPECT_EQ(cluster->coordinator.str(), "a:2");
}

TEST(TFConfig, WithoutAClusterThereIsNone) {
  EXPECT_FALSE(cluster_from_tf_config(""));
  EXPECT_FALSE(cluster_from_tf_config("{}"));
  EXPECT_FALSE(
      cluster_from_tf_config(R"({"cluster": {}, "task": {"type": "worker", "index": 0}})"));
}

TEST(TFConfig, ErrorsNameTheField) {
  EXPECT_EQ(tf_config_refusal("{"), "TF_CONFIG: is no JSON");
  EXPECT_EQ(tf_config_refusal("[1]"), "TF_CONFIG: is no object");
  EXPECT_EQ(tf_config_refusal(R"({"cluster": 3})"), "TF_CONFIG: cluster: is no object");
  EXPECT_EQ(tf_config_refusal(R"({"cluster": {"worker": 3}})"),
            "TF_CONFIG: cluster: worker: is no list of addresses");
  EXPECT_EQ(tf_config_refusal(R"({"cluster": {"worker": ["a:1", 7]}})"),
            "TF_CONFIG: cluster: worker[1]: is no text");
  EXPECT_EQ(tf_config_refusal(R"({"cluster": {"worker": ["a:1"]}})"),
            "TF_CONFIG: task: is missing");
  EXPECT_EQ(tf_config_refusal(R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker"}})"),
            "TF_CONFIG: task: index: is missing");
  EXPECT_EQ(tf_config_refusal(
                R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}})"),
            "TF_CONFIG: task: ClusterSpec: job 'worker' has 1 tasks, and no task 1");
  EXPECT_EQ(tf_config_refusal(
                R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "chief", "index": 0}})"),
            "TF_CONFIG: task: ClusterSpec: there is no job 'chief'; the jobs are worker");
  EXPECT_NE(
      tf_config_refusal(R"({"cluster": {"worker": ["a"]}, "task": {"type": "worker", "index": 0}})")
          .find("worker[0]: 'a' is no address such as 'host:2222': it has no port"),
      std::string::npos);
  EXPECT_NE(
      tf_config_refusal(
          R"({"cluster": {"worker": ["a:1", "a:1"]}, "task": {"type": "worker", "index": 0}})")
          .find("worker[1]: 'a:1' is the address of worker[0] already"),
      std::string::npos);
  EXPECT_EQ(
      tf_config_refusal(
          R"({"cluster": {"worker": ["localhost:1", "b:1"]}, "task": {"type": "worker", "index": 0}})"),
      "TF_CONFIG: cluster[0]: 'localhost:1' is this machine for every machine, and other tasks are "
      "on others");
  EXPECT_NE(tf_config_refusal(
                R"({"cluster": {"worker": ["0.0.0.0:1"]}, "task": {"type": "worker", "index": 0}})")
                .find("other processes cannot reach 'any address'"),
            std::string::npos);
  EXPECT_EQ(
      tf_config_refusal(R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 0}})"),
      "TF_CONFIG: task: type: 'ps' does not train; the types that do are chief and worker");
}

TEST(ClusterEnvironment, ReadsWhatTorchrunSets) {
  Environment environment = {{"RANK", "2"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "0"},
                             {"MASTER_ADDR", "10.0.0.1"},
                             {"MASTER_PORT", "29500"}};
  auto cluster = cluster_from(environment);
  ASSERT_TRUE(cluster);
  EXPECT_EQ(cluster->rank, 2);
  EXPECT_EQ(cluster->size, 4);
  EXPECT_EQ(cluster->coordinator.str(), "10.0.0.1:29500");
  environment["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(cluster_from(environment)->coordinator.port, 29501);
  environment["MASTER_ADDR"] = "fe80::1";
  EXPECT_EQ(cluster_from(environment)->coordinator.str(), "[fe80::1]:29501");
}

TEST(ClusterEnvironment, HalfOfTorchrunsVariablesIsAnError) {
  EXPECT_EQ(refusal([] { cluster_from({{"WORLD_SIZE", "4"}}); }), "RANK: is not set");
  EXPECT_EQ(refusal([] { cluster_from({{"RANK", "1"}}); }), "WORLD_SIZE: is not set");
  EXPECT_EQ(refusal([] {
              cluster_from({{"RANK", "4"}, {"WORLD_SIZE", "4"}});
            }),
            "RANK: 4 is not below WORLD_SIZE, which is 4");
  EXPECT_EQ(refusal([] {
              cluster_from({{"RANK", "-1"}, {"WORLD_SIZE", "4"}});
            }),
            "RANK: '-1' is no number from 0 to 2147483647");
  EXPECT_EQ(refusal([] {
              cluster_from({{"RANK", "1"}, {"WORLD_SIZE", "4"}});
            }),
            "MASTER_ADDR: is not set");
  EXPECT_EQ(refusal([] {
              cluster_from({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}});
            }),
            "MASTER_PORT: is not set");
  EXPECT_EQ(
      refusal([] {
        cluster_from({{"RANK", "1"},
                      {"WORLD_SIZE", "4"},
                      {"MASTER_ADDR", "localhost"},
                      {"MASTER_PORT", "1"},
                      {"LOCAL_WORLD_SIZE", "2"}});
      }),
      "MASTER_ADDR: 'localhost' is this machine for every machine, and of 4 ranks only 2 are here");
}

TEST(ClusterEnvironment, ContradictionsAreErrorsThatNameBoth) {
  const std::string config =
      R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}})";
  EXPECT_EQ(refusal([&] {
              cluster_from({{"TF_CONFIG", config},
                            {"RANK", "1"},
                            {"WORLD_SIZE", "2"},
                            {"MASTER_ADDR", "a"},
                            {"MASTER_PORT", "1"}});
            }),
            "TF_CONFIG says rank 0 of 2, but RANK and WORLD_SIZE says rank 1 of 2; unset the one "
            "that is not meant");
}

TEST(ClusterEnvironment, ReadsWhatMpirunSets) {
  Environment environment = {{"OMPI_COMM_WORLD_RANK", "1"},
                             {"OMPI_COMM_WORLD_SIZE", "2"},
                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                             {"PMIX_NAMESPACE", "1234567.1"}};
  const auto cluster = cluster_from(environment);
  ASSERT_TRUE(cluster);
  EXPECT_EQ(cluster->rank, 1);
  EXPECT_EQ(cluster->coordinator.host, "127.0.0.1");
  environment["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  EXPECT_NE(refusal([&] { cluster_from(environment); }).find("TANDEM_COORDINATOR: is not set"),
            std::string::npos);
  environment["TANDEM_COORDINATOR"] = "hostA:2222";
  EXPECT_EQ(cluster_from(environment)->coordinator.str(), "hostA:2222");
}

TEST(ClusterEnvironment, ReadsWhatSrunSets) {
  const Environment environment = {{"SLURM_JOB_ID", "77"},
                                   {"SLURM_STEP_ID", "0"},
                                   {"SLURM_PROCID", "3"},
                                   {"SLURM_STEP_NUM_TASKS", "5"},
                                   {"SLURM_STEP_NODELIST", "node[01-02],gpu7"},
                                   {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"}};
  const auto cluster = cluster_from(environment);
  ASSERT_TRUE(cluster);
  EXPECT_EQ(cluster->rank, 3);
  EXPECT_EQ(cluster->size, 5);
  EXPECT_EQ(cluster->coordinator.str(), "node01:8888");
  EXPECT_EQ(cluster->spec.task_address("worker", 3), "node02:8889");
  EXPECT_EQ(cluster->spec.task_address("worker", 4), "gpu7:8888");
  EXPECT_EQ(cluster->id, "77.0");
}

TEST(ClusterEnvironment, BatchScriptsOfSlurmAreNoTasks) {
  EXPECT_FALSE(
      cluster_from({{"SLURM_JOB_ID", "77"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}));
}

TEST(ClusterEnvironment, ReadsWhatTheLauncherSets) {
  const auto cluster = cluster_from({{"TANDEM_RANK", "1"},
                                     {"TANDEM_WORLD_SIZE", "2"},
                                     {"TANDEM_HOSTED", "1"},
                                     {"TANDEM_COORDINATOR", "127.0.0.1:4000"},
                                     {"TANDEM_CLUSTER", "x7"}});
  ASSERT_TRUE(cluster);
  EXPECT_TRUE(cluster->hosted);
  EXPECT_EQ(cluster->id, "x7");
}

TEST(ClusterEnvironment, NothingSetIsNoCluster) { EXPECT_FALSE(cluster_from({{"PATH", "/bin"}})); }

TEST(HostList, ExpandsSlurmsShortForms) {
  EXPECT_EQ(expand_host_list("a,b[1,3-4]c,d", "X"),
            (std::vector<std::string>{"a", "b1c", "b3c", "b4c", "d"}));
  EXPECT_EQ(expand_host_list("n[008-010]", "X"),
            (std::vector<std::string>{"n008", "n009", "n010"}));
  EXPECT_EQ(expand_task_counts("2(x3),1", "X"), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(refusal([] { expand_host_list("a[1-", "X"); }), "X: 'a[1-' does not close its bracket");
  EXPECT_EQ(refusal([] { expand_host_list("a[3-1]", "X"); }), "X: '3-1' counts downwards");
  EXPECT_EQ(refusal([] { expand_host_list("a[0-99999999]", "X"); }),
            "X: '0-99999999' names too many hosts");
  EXPECT_EQ(refusal([] { expand_host_list("", "X"); }), "X: '' has an empty name");
  EXPECT_EQ(refusal([] { expand_task_counts("2(x", "X"); }),
            "X: '2(x' does not close its parenthesis");
}

TEST(Resolvers, SayWhatTheyWereTold) {
  const train::ClusterSpec spec({{"chief", {"a:1"}}, {"worker", {"b:1", "c:1"}}});
  const cluster_resolver::SimpleClusterResolver resolver(spec, "worker", 1);
  EXPECT_EQ(resolver.master(), "c:1");
  EXPECT_EQ(resolver.master("chief", 0), "a:1");
  const Cluster cluster = cluster_from_resolver(resolver);
  EXPECT_EQ(cluster.rank, 2);
  EXPECT_EQ(cluster.size, 3);
  EXPECT_EQ(cluster.coordinator.str(), "a:1");
  EXPECT_EQ(refusal([&] { cluster_resolver::SimpleClusterResolver(spec, "worker", 2); }),
            "ClusterSpec: job 'worker' has 2 tasks, and no task 2");
}

/// Texts near right ones: bytes changed, removed, doubled.
std::string mutated(std::string text, std::mt19937& random) {
  static const std::string letters = "{}[]\":,0123456789-eE.\\ux()abcWORKER\0\xff\x80 \n";
  const int changes = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < changes && !text.empty(); ++i) {
    const size_t at = random() % text.size();
    const char letter = letters[random() % letters.size()];
    switch (random() % 4) {
      case 0:
        text[at] = letter;
        break;
      case 1:
        text.erase(at, 1 + random() % 5);
        break;
      case 2:
        text.insert(at, 1, letter);
        break;
      default:
        text.insert(at, text.substr(random() % text.size(), random() % 20));
    }
  }
  return text;
}

TEST(ClusterEnvironment, AnythingElseIsUnderstoodOrRefusedByName) {
  const std::vector<Environment> seeds = {
      {{"TF_CONFIG",
        R"({"cluster":{"chief":["a:1"],"worker":["b:2","c:3"]},"task":{"type":"worker","index":1}})"}},
      {{"TF_CONFIG",
        R"({"sparseCluster":{"cluster":{"worker":{"0":"a:2"}}},"task":{"type":"worker","index":"0"}})"}},
      {{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29500"}},
      {{"OMPI_COMM_WORLD_RANK", "1"},
       {"OMPI_COMM_WORLD_SIZE", "2"},
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
      {{"SLURM_STEP_ID", "0"},
       {"SLURM_PROCID", "3"},
       {"SLURM_STEP_NUM_TASKS", "5"},
       {"SLURM_STEP_NODELIST", "node[01-02],gpu7"},
       {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"}},
      {{"TANDEM_RANK", "1"}, {"TANDEM_WORLD_SIZE", "2"}, {"TANDEM_COORDINATOR", "[::1]:4000"}}};
  std::mt19937 random(7);
  int refused = 0;
  const int64_t rounds = harness::rounds(20000, 2000000);
  for (int64_t i = 0; i < rounds; ++i) {
    Environment environment = seeds[static_cast<size_t>(i) % seeds.size()];
    auto changed =
        std::next(environment.begin(), static_cast<int64_t>(random() % environment.size()));
    changed->second = mutated(changed->second, random);
    try {
      if (const auto cluster = cluster_from(environment)) {
        EXPECT_GE(cluster->rank, 0);
        EXPECT_LT(cluster->rank, cluster->size);
        EXPECT_LE(cluster->size, 1023);
      }
    } catch (const InvalidArgument& error) {
      ++refused;
      const std::string what = error.what();
      EXPECT_TRUE(
          std::ranges::any_of(environment,
                              [&](const auto& entry) { return what.starts_with(entry.first); }) ||
          what.starts_with("MASTER_ADDR") || what.starts_with("SLURM_") ||
          what.starts_with("TANDEM_") || what.starts_with("OMPI_") || what.starts_with("RANK") ||
          what.starts_with("WORLD_SIZE"))
          << what;
    }
  }
  EXPECT_GT(refused, rounds / 10);
}

}  // namespace
}  // namespace tandem::cluster

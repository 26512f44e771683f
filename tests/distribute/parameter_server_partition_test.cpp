// A chief behind a cut cable, and another one that was started in its place: the servers take
// nothing of the first any more. Hosts are network namespaces; without root this is skipped.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "harness/child_process.h"
#include "harness/host_pair.h"
#include "harness/temp_folder.h"

namespace tandem::distribute {
namespace {

using harness::ChildProcess;
using std::chrono::seconds;
using HostWords = std::vector<std::string>;

/// Names of hosts as the processes of a namespace know them.
class HostNames {
 public:
  explicit HostNames(const std::string& space) : folder_("/etc/netns/" + space) {
    std::filesystem::create_directories(folder_);
  }
  ~HostNames() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  HostNames(const HostNames&) = delete;
  HostNames& operator=(const HostNames&) = delete;

  /// The file stays the same one: processes that run there see the change.
  void set(const std::string& name, const std::string& address) const {
    std::ofstream(folder_ / "hosts") << fmt::format("127.0.0.1 localhost\n{} {}\n", address, name);
  }

 private:
  std::filesystem::path folder_;
};

TEST(ParameterServerPartition, AChiefThatWasReplacedWritesNothing) {
  std::unique_ptr<harness::HostPair> hosts;
  try {
    hosts = std::make_unique<harness::HostPair>();
  } catch (const Unavailable& reason) {
    GTEST_SKIP() << reason.what();
  }
  const harness::TempFolder folder;
  const std::string secret = folder / "secret";
  std::ofstream(secret) << "a secret of these tests";
  chmod(secret.c_str(), 0600);
  const HostNames names(hosts->name(1));
  names.set("chief.test", hosts->address(0));
  const auto start = [&](int host, const std::string& job, HostWords words) {
    HostWords all = hosts->words_before(host);
    all.insert(all.end(),
               {TANDEM_SERVER_MEMBER, "--mode", "count", "--staleness", "-1", "--sleep-ms", "50"});
    all.insert(all.end(), words.begin(), words.end());
    const std::string config = fmt::format(
        R"({{"cluster": {{"chief": ["chief.test:7001"], "worker": ["{0}:7002"], "ps": ["{0}:7003"]}}, )"
        R"("task": {{"type": "{1}", "index": 0}}}})",
        hosts->address(1), job);
    return std::make_unique<ChildProcess>(
        all, std::map<std::string, std::string>{
                 {"TF_CONFIG", config}, {"TANDEM_SECRET_FILE", secret}, {"TANDEM_SPIN", "0"}});
  };
  const std::string go_on = folder / "go_on";
  const auto former = start(0, "chief", {"--poison", go_on});
  const auto worker = start(1, "worker", {});
  const auto server = start(1, "ps", {});
  ASSERT_TRUE(former->prints("waits\n")) << former->printed();

  ASSERT_TRUE(hosts->in(0, fmt::format("ip link set {} down", hosts->cable(0))));
  names.set("chief.test", hosts->address(1));
  const auto later = start(1, "chief", {});
  ASSERT_TRUE(later->prints("counts\n")) << later->printed() << worker->printed();
  ASSERT_TRUE(hosts->in(0, fmt::format("ip link set {} up", hosts->cable(0))));
  std::ofstream(go_on) << "now";  // From here on the former one counts by thousands.

  EXPECT_EQ(former->wait(seconds(60)), 1) << former->printed();
  for (const auto* process : {&later, &worker, &server}) {
    EXPECT_EQ((*process)->wait(), 0) << (*process)->printed();
    EXPECT_NE((*process)->printed().find("counted 120 120"), std::string::npos)
        << (*process)->printed();
  }
  EXPECT_NE(former->printed().find("this chief was replaced by another one"), std::string::npos)
      << former->printed() << server->printed();
}

}  // namespace
}  // namespace tandem::distribute

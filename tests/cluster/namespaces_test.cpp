/// Hosts made of network namespaces: cables that are pulled, links that are slow, workers that ssh
/// starts. Without root these are skipped.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <memory>

#include "harness/child_process.h"
#include "harness/host_pair.h"
#include "harness/temp_folder.h"

namespace tandem::cluster {
namespace {

using harness::ChildProcess;
using harness::run_command;
using std::chrono::milliseconds;
using std::chrono::seconds;
using HostWords = std::vector<std::string>;

/// Two hosts, and what their processes share.
class NamespaceHosts : public testing::Test {
 protected:
  void SetUp() override {
    try {
      hosts_ = std::make_unique<harness::HostPair>();
    } catch (const Unavailable& reason) {
      GTEST_SKIP() << reason.what();
    }
    secret_ = (folder_.path() / "secret").string();
    std::ofstream(secret_) << "a secret of these tests";
    chmod(secret_.c_str(), 0600);
  }

  std::string name(int host) const { return hosts_->name(host); }
  std::string cable(int host) const { return hosts_->cable(host); }
  std::string address(int host) const { return hosts_->address(host); }
  bool in(int host, const std::string& command) const { return hosts_->in(host, command); }

  std::unique_ptr<ChildProcess> start(int rank, HostWords words) const {
    words.insert(words.begin(), {"ip", "netns", "exec", name(rank), TANDEM_CLUSTER_MEMBER});
    return std::make_unique<ChildProcess>(
        words, std::map<std::string, std::string>{{"RANK", std::to_string(rank)},
                                                  {"WORLD_SIZE", "2"},
                                                  {"MASTER_ADDR", address(0)},
                                                  {"MASTER_PORT", "29999"},
                                                  {"TANDEM_SECRET_FILE", secret_},
                                                  {"TANDEM_SPIN", "0"}});
  }

  struct Cut {
    int host = 1;     // Where the command runs.
    std::string how;  // The command.
    // What the ranks say.
    std::string zero_says = "cannot be reached for ";
    std::string one_says = "Unavailable: th";
  };

  /// Both ranks end by naming the other one, and soon.
  void expect_cut(const Cut& cut) {
    const auto zero = start(0, {"--steps", "1000000"});
    const auto one = start(1, {"--steps", "1000000"});
    ASSERT_TRUE(zero->prints("joined")) << zero->printed();
    ASSERT_TRUE(one->prints("joined")) << one->printed();
    std::this_thread::sleep_for(milliseconds(1200));  // Heartbeats tell what they do.
    ASSERT_TRUE(in(cut.host, cut.how));
    EXPECT_EQ(zero->wait(seconds(20)), 1) << zero->printed();
    EXPECT_EQ(one->wait(seconds(20)), 1) << one->printed();
    EXPECT_NE(zero->printed().find("Unavailable: rank 1 (worker 1, "), std::string::npos)
        << zero->printed();
    EXPECT_NE(zero->printed().find(cut.zero_says), std::string::npos) << zero->printed();
    EXPECT_NE(zero->printed().find(", in backward of step"), std::string::npos) << zero->printed();
    EXPECT_NE(one->printed().find(cut.one_says), std::string::npos) << one->printed();
  }

  harness::TempFolder folder_;
  std::string secret_;
  std::unique_ptr<harness::HostPair> hosts_;
};

TEST_F(NamespaceHosts, APulledCableIsFoundOnBothSides) {
  expect_cut({.how = fmt::format("ip link set {} down", cable(1)),
              .one_says = "Unavailable: the coordinator, rank 0 (worker 0, "});
}

TEST_F(NamespaceHosts, ALinkThatLosesAllOfOneDirectionIsFoundOnBothSides) {
  // What the coordinator says of it may still arrive: that it is expelled.
  expect_cut({.how = fmt::format("ip route add blackhole {}/32", address(0))});
}

TEST_F(NamespaceHosts, ARankThatHearsNothingAndIsHeardIsFoundOnBothSides) {
  // The rank gives up first, and its end may still arrive.
  expect_cut({.host = 0,
              .how = fmt::format("ip route add blackhole {}/32", address(1)),
              .zero_says = "rank 1",
              .one_says = "Unavailable: the coordinator, rank 0 (worker 0, "});
}

TEST_F(NamespaceHosts, PacketsThatAreDroppedAreMissedOnBothSides) {
  if (!in(1, "nft --version")) GTEST_SKIP() << "there is no nft to drop packets";
  const auto drop = [](const char* hook) {
    return fmt::format(
        "nft 'add chain inet lost {0} {{ type filter hook {0} priority 0; policy drop; }}'", hook);
  };
  // What host 1 sends, what it is sent, and both.
  for (const auto& [hooks, zero_says] : {std::pair{drop("output"), "cannot be reached for "},
                                         {drop("input"), "rank 1"},
                                         {drop("input") + " && " + drop("output"), "cannot be"}}) {
    expect_cut({.how = "nft add table inet lost && " + hooks, .zero_says = zero_says});
    ASSERT_TRUE(in(1, "nft flush ruleset"));
  }
}

TEST_F(NamespaceHosts, ASlowLinkIsNoFault) {
  if (!hosts_->slow_down("100mbit", "64kbit")) GTEST_SKIP() << "links cannot be made slow here";
  const auto zero = start(0, {"--steps", "10", "--count", "1000000", "--timeout", "4000"});
  const auto one = start(1, {"--steps", "10", "--count", "1000000", "--timeout", "4000"});
  EXPECT_EQ(zero->wait(), 0) << zero->printed();
  EXPECT_EQ(one->wait(), 0) << one->printed();
}

TEST_F(NamespaceHosts, SshStartsWorkersOnOtherHosts) {
  if (!run_command("test -x /usr/sbin/sshd && command -v ssh && command -v ssh-keygen")) {
    GTEST_SKIP() << "there is no sshd";
  }
  const std::string folder = folder_.path().string();
  chmod(folder.c_str(), 0700);
  ASSERT_TRUE(run_command(fmt::format(
      "ssh-keygen -q -t ed25519 -N '' -f {0}/host && ssh-keygen -q -t ed25519 -N '' -f "
      "{0}/user && cp {0}/user.pub {0}/allowed && chmod 600 {0}/allowed && mkdir -p /run/sshd",
      folder)));
  std::ofstream(folder + "/config") << fmt::format(
      "Port 2299\nListenAddress {}\nHostKey {}/host\nAuthorizedKeysFile {}/allowed\nStrictModes "
      "no\nUsePAM no\n"
      "PermitRootLogin yes\nPidFile none\n",
      address(1), folder, folder);
  ChildProcess daemon(
      {"ip", "netns", "exec", name(1), "/usr/sbin/sshd", "-D", "-e", "-f", folder + "/config"});
  ASSERT_TRUE(daemon.prints("Server listening", seconds(10))) << daemon.printed();
  const std::string ssh = fmt::format(
      "ssh -p 2299 -i {}/user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o "
      "LogLevel=ERROR",
      folder);
  ChildProcess run({"ip", "netns", "exec", name(0), TANDEM_TOOL, "run", "--workers", "2", "--hosts",
                    "localhost," + address(1), "--ssh", ssh, "--", TANDEM_CLUSTER_MEMBER, "--steps",
                    "20"});
  EXPECT_EQ(run.wait(), 0) << run.printed();
  for (const char* line : {"[0] done 3\n", "[1] done 3\n"}) {
    EXPECT_NE(run.printed().find(line), std::string::npos) << run.printed();
  }
}

}  // namespace
}  // namespace tandem::cluster

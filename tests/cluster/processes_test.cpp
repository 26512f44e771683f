/// Real processes that train together, and what becomes of them when one is hurt: the failure table
/// of docs/cluster.md.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <random>
#include <regex>

#include "harness/child_process.h"
#include "harness/free_port.h"
#include "harness/soak.h"
#include "harness/temp_folder.h"

namespace tandem::cluster {
namespace {

using harness::ChildProcess;
using harness::free_port;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;
using Clock = std::chrono::steady_clock;

Variables torchrun(int rank, int size, int port) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(size)},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(port)},
          {"TANDEM_SPIN", "0"}};
}

struct Ranks {
  std::vector<std::unique_ptr<ChildProcess>> processes;
  int port = 0;

  ChildProcess& operator[](int rank) { return *processes[static_cast<size_t>(rank)]; }
  void wait_until_joined() {
    for (auto& process : processes) ASSERT_TRUE(process->prints("joined")) << process->printed();
  }
};

Ranks start_program(int size, const Words& arguments, const Variables& more = {}) {
  Ranks ranks;
  ranks.port = free_port();
  for (int r = 0; r < size; ++r) {
    Variables variables = torchrun(r, size, ranks.port);
    variables.insert(more.begin(), more.end());
    ranks.processes.push_back(std::make_unique<ChildProcess>(arguments, variables));
  }
  return ranks;
}

Ranks start(int size, Words arguments, const Variables& more = {}) {
  arguments.insert(arguments.begin(), TANDEM_CLUSTER_MEMBER);
  return start_program(size, arguments, more);
}

void expect_all_done(Ranks& ranks, const std::string& text = "done") {
  for (auto& process : ranks.processes) {
    EXPECT_EQ(process->wait(), 0) << process->printed();
    EXPECT_NE(process->printed().find(text), std::string::npos) << process->printed();
  }
}

/// Every rank but `victim` ends by an error that contains each of `parts`, in time.
void expect_named(Ranks& ranks, int victim, const Words& parts, milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  for (int r = 0; r < static_cast<int>(ranks.processes.size()); ++r) {
    if (r == victim) continue;
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    EXPECT_EQ(ranks[r].wait(std::max(left, milliseconds(1))), 1)
        << "rank " << r << ": " << ranks[r].printed();
    for (const std::string& part : parts) {
      EXPECT_NE(ranks[r].printed().find(part), std::string::npos)
          << "'" << part << "' is not in what rank " << r << " prints:\n"
          << ranks[r].printed();
    }
  }
}

TEST(ClusterProcesses, SumOverOneToFour) {
  for (int size = 1; size <= 4; ++size) {
    Ranks ranks = start(size, {"--steps", "50"});
    expect_all_done(ranks, "done " + std::to_string(size * (size - 1) / 2 + size * (49 % 3)));
  }
}

TEST(ClusterProcesses, SumOverSharedMemory) {
  Ranks ranks = start(3, {"--steps", "50", "--count", "300000", "--transport", "shm"});
  expect_all_done(ranks);
}

TEST(ClusterProcesses, StartByTheVariablesOfTensorFlow) {
  const int ports[] = {free_port(), free_port()};
  std::vector<std::unique_ptr<ChildProcess>> processes;
  for (int r = 0; r < 2; ++r) {
    const std::string config = R"({"cluster":{"worker":["127.0.0.1:)" + std::to_string(ports[0]) +
                               R"(","127.0.0.1:)" + std::to_string(ports[1]) +
                               R"("]},"task":{"type":"worker","index":)" + std::to_string(r) + "}}";
    processes.push_back(std::make_unique<ChildProcess>(Words{TANDEM_CLUSTER_MEMBER},
                                                       Variables{{"TF_CONFIG", config}}));
  }
  for (auto& process : processes) EXPECT_EQ(process->wait(), 0) << process->printed();
}

TEST(ClusterProcesses, StartByTheVariablesOfSlurm) {
  std::vector<std::unique_ptr<ChildProcess>> processes;
  for (int r = 0; r < 2; ++r) {
    const Variables variables = {{"SLURM_JOB_ID", "7"},
                                 {"SLURM_STEP_ID", "0"},
                                 {"SLURM_PROCID", std::to_string(r)},
                                 {"SLURM_STEP_NUM_TASKS", "2"},
                                 {"SLURM_STEP_NODELIST", "localhost"},
                                 {"SLURM_STEP_TASKS_PER_NODE", "2"}};
    processes.push_back(std::make_unique<ChildProcess>(Words{TANDEM_CLUSTER_MEMBER}, variables));
  }
  for (auto& process : processes) EXPECT_EQ(process->wait(), 0) << process->printed();
}

TEST(ClusterProcesses, StartByMpirun) {
  if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no mpirun";
  ChildProcess mpirun(
      {"mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", TANDEM_CLUSTER_MEMBER},
      {{"TANDEM_SPIN", "0"}});
  EXPECT_EQ(mpirun.wait(), 0) << mpirun.printed();
  EXPECT_NE(mpirun.printed().find("done"), std::string::npos) << mpirun.printed();
}

TEST(ClusterProcesses, AKilledRankIsNamedByAllOthers) {
  std::mt19937 random(3);
  const int64_t rounds = harness::rounds(6, 200);
  for (int64_t i = 0; i < rounds; ++i) {
    const bool shared = i % 3 == 2;
    Ranks ranks = start(3, {"--steps", "1000000", "--count", i % 2 == 0 ? "2500" : "700000",
                            "--transport", shared ? "shm" : "tcp"});
    const int victim = static_cast<int>(i % 3);
    if (i % 4 == 1) {  // While connections are made.
      ASSERT_TRUE(ranks[victim].prints("this is rank")) << ranks[victim].printed();
    } else {
      ranks.wait_until_joined();
      std::this_thread::sleep_for(milliseconds(random() % 300));
    }
    ranks[victim].signal(SIGKILL);
    expect_named(ranks, victim,
                 {"Unavailable: ", "rank " + std::to_string(victim) + " (worker", "died"},
                 seconds(15));
  }
}

TEST(ClusterProcesses, ARankThatDiesWhileOthersReadItsMemoryIsNamed) {
  std::mt19937 random(5);
  for (int64_t i = 0; i < harness::rounds(2, 60); ++i) {
    // All of the time is spent in sums of 12 MB, of which each rank reads the others' parts.
    Ranks ranks = start(3, {"--steps", "1000000", "--count", "3000000", "--transport", "shm"});
    ranks.wait_until_joined();
    std::this_thread::sleep_for(milliseconds(50 + random() % 200));
    const int victim = static_cast<int>((i + 1) % 3);
    ranks[victim].signal(SIGKILL);
    expect_named(ranks, victim,
                 {"Unavailable: ", "rank " + std::to_string(victim) + " (worker", "died"},
                 seconds(15));
  }
}

/// Two ranks that train in `folder`; the chief writes to `result`.
Ranks start_training(const harness::TempFolder& folder, const std::string& result,
                     const std::string& transport, const std::string& strategy) {
  return start_program(
      2, {TANDEM_CLUSTER_TRAINER, folder.path().string(), "40", result, transport, strategy});
}

/// The same over TCP for a few epochs; one of them, if it is named, dies in a phase.
Ranks start_short_training(const harness::TempFolder& folder, int victim = -1,
                           const std::string& phase = "") {
  Ranks ranks;
  ranks.port = free_port();
  for (int r = 0; r < 2; ++r) {
    Words words = {TANDEM_CLUSTER_TRAINER,
                   folder.path().string(),
                   "12",
                   (folder.path() / "result.npz").string(),
                   "tcp",
                   "mirrored"};
    if (r == victim) words.push_back(phase);
    ranks.processes.push_back(std::make_unique<ChildProcess>(words, torchrun(r, 2, ranks.port)));
  }
  return ranks;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A training in which a rank was killed, and that was started again, ends as one that was not
/// disturbed. Who is left names the dead, and `more`.
void expect_going_on(const std::string& strategy, const std::string& more, int64_t rounds) {
  const harness::TempFolder whole;
  const std::string result = (whole.path() / "result.npz").string();
  Ranks undisturbed = start_training(whole, result, "tcp", strategy);
  for (auto& process : undisturbed.processes) ASSERT_EQ(process->wait(), 0) << process->printed();
  const std::string expected = content_of(result);
  ASSERT_FALSE(expected.empty());
  std::mt19937 random(9);
  for (int64_t i = 0; i < rounds; ++i) {
    const harness::TempFolder folder;
    const std::string resumed = (folder.path() / "result.npz").string();
    const std::string transport = i % 2 == 0 ? "tcp" : "shm";
    const int victim = static_cast<int>(i % 4 < 2);
    Ranks ranks = start_training(folder, resumed, transport, strategy);
    for (auto& process : ranks.processes) ASSERT_TRUE(process->prints("begun"));
    std::this_thread::sleep_for(milliseconds(random() % 400));
    ranks[victim].signal(SIGKILL);
    const int code = ranks[1 - victim].wait(seconds(15));
    const std::string& printed = ranks[1 - victim].printed();
    if (code != 0) {  // It had not come to its end.
      EXPECT_EQ(code, 1) << printed;
      EXPECT_NE(printed.find("rank " + std::to_string(victim) + " (worker"), std::string::npos)
          << printed;
      EXPECT_NE(printed.find("died"), std::string::npos) << printed;
      EXPECT_NE(printed.find(more), std::string::npos) << printed;
    }
    Ranks again = start_training(folder, resumed, transport, strategy);
    for (auto& process : again.processes) ASSERT_EQ(process->wait(), 0) << process->printed();
    EXPECT_TRUE(content_of(resumed) == expected) << "round " << i;
  }
}

TEST(ClusterProcesses, ATrainingGoesOnBitForBitAfterARankWasKilled) {
  expect_going_on("mirrored", "", harness::rounds(2, 60));
}

/// One training that is killed in one phase after another ends as one that was not disturbed.
TEST(ClusterProcesses, ATrainingGoesOnBitForBitWhateverPhaseARankDiesIn) {
  const harness::TempFolder whole;
  Ranks undisturbed = start_short_training(whole);
  for (auto& process : undisturbed.processes) ASSERT_EQ(process->wait(), 0) << process->printed();
  const std::string expected = content_of((whole.path() / "result.npz").string());
  ASSERT_FALSE(expected.empty());
  const harness::TempFolder folder;
  const std::vector<std::pair<const char*, int>> deaths = {
      {"trace", 1},    {"trace", 0},  {"step", 0},     {"backward", 1}, {"exchange", 0},
      {"exchange", 1}, {"update", 1}, {"evaluate", 0}, {"evaluate", 1}, {"save", 0}};
  for (const auto& [phase, victim] : deaths) {
    SCOPED_TRACE(phase);
    Ranks ranks = start_short_training(folder, victim, phase);
    EXPECT_EQ(ranks[victim].wait(), 128 + SIGKILL) << ranks[victim].printed();
    expect_named(ranks, victim,
                 {"Unavailable: ", "rank " + std::to_string(victim) + " (worker", "died"},
                 seconds(15));
  }
  Ranks again = start_short_training(folder);
  for (auto& process : again.processes) ASSERT_EQ(process->wait(), 0) << process->printed();
  EXPECT_TRUE(content_of((folder.path() / "result.npz").string()) == expected);
}

TEST(ClusterProcesses, APipelineGoesOnBitForBitAfterAStageWasKilled) {
  expect_going_on("pipeline", "", harness::rounds(2, 60));
}

/// The last rank, and the first, whose process has the coordinator.
constexpr int kWho[] = {2, 0};

TEST(ClusterProcesses, AnExceptionIsToldToAllOthers) {
  for (const int who : kWho) {
    const std::string rank = std::to_string(who);
    Ranks ranks = start(3, {"--steps", "1000", "--at", "20", "--act", "throw", "--who", rank});
    expect_named(ranks, who,
                 {"Aborted: rank " + rank + " (worker " + rank + ", ",
                  "InvalidArgument: fit: the loss is nan"},
                 seconds(30));
    EXPECT_EQ(ranks[who].wait(), 1);
  }
}

TEST(ClusterProcesses, ARankThatLeavesEarlyIsNamed) {
  for (const int who : kWho) {
    const std::string rank = std::to_string(who);
    Ranks ranks = start(3, {"--steps", "1000", "--at", "20", "--act", "leave", "--who", rank});
    expect_named(ranks, who, {"Unavailable: ", "rank " + rank + " (worker " + rank + ", "},
                 seconds(30));
    EXPECT_EQ(ranks[who].wait(), 0);
    if (who == 0) continue;
    EXPECT_NE(ranks[0].printed().find("has ended its part"), std::string::npos)
        << ranks[0].printed();
    EXPECT_NE(ranks[0].printed().find("dense/kernel"), std::string::npos) << ranks[0].printed();
  }
}

TEST(ClusterProcesses, AProcessMayExitInTheMiddle) {
  for (int i = 0; i < 3; ++i) {
    Ranks ranks = start(3, {"--steps", "1000", "--at", "20", "--act", "exit"});
    expect_named(ranks, 2, {"Unavailable: rank 2 (worker 2, ", "died"}, seconds(30));
    EXPECT_EQ(ranks[2].wait(), 3);
  }
}

TEST(ClusterProcesses, ARankStuckInItsInputIsNamedWithWhatItDoes) {
  Ranks ranks = start(3, {"--steps", "1000", "--at", "20", "--act", "dawdle", "--timeout", "3000"});
  expect_named(ranks, 2,
               {"DeadlineExceeded: all-reduce #23 'dense/kernel' waited ",
                " s: have 0, 1; missing rank 2 (worker 2", "in data.next of step 20 since"},
               seconds(25));
}

TEST(ClusterProcesses, RanksThatDoNotDoTheSameAreToldSo) {
  Ranks ranks = start(3, {"--steps", "1000", "--at", "20", "--act", "differ"});
  expect_named(ranks, -1,
               {"FailedPrecondition: the ranks do not do the same: exchange #23 is ",
                "all-reduce 'dense/bias' of 10000 bytes",
                "all-reduce 'dense/kernel' of 10000 bytes", "rank 2 (worker 2"},
               seconds(30));
}

TEST(ClusterProcesses, AStoppedProcessIsToldFromADeadOneAndIsExpelled) {
  Ranks ranks = start(2, {"--steps", "1000000", "--pause", "1"});
  ranks.wait_until_joined();
  ranks[1].signal(SIGSTOP);
  expect_named(
      ranks, 1,
      {"Unavailable: rank 1 (worker 1", "is silent for 1", "the process is stopped or starved"},
      seconds(25));
  ranks[1].signal(SIGCONT);
  EXPECT_EQ(ranks[1].wait(seconds(20)), 1) << ranks[1].printed();
}

TEST(ClusterProcesses, AShortStopIsNoError) {
  Ranks ranks = start(2, {"--steps", "2000", "--pause", "1"});
  ranks.wait_until_joined();
  ranks[1].signal(SIGSTOP);
  std::this_thread::sleep_for(seconds(2));
  ranks[1].signal(SIGCONT);
  expect_all_done(ranks);
}

TEST(ClusterProcesses, WhoWaitsAtTheStartSaysForWhom) {
  const int port = free_port();
  ChildProcess alone({TANDEM_CLUSTER_MEMBER, "--join-timeout", "1500"}, torchrun(0, 2, port));
  EXPECT_EQ(alone.wait(), 1);
  EXPECT_TRUE(std::regex_search(
      alone.printed(), std::regex(R"(DeadlineExceeded: cluster: rank 0 \(RANK and WORLD_SIZE\) )"
                                  R"(waited \d+ s for the other ranks)")))
      << alone.printed();
}

// gRPC has been seen to abort, on a busy machine, in a process that gives up looking for a
// coordinator.
TEST(ClusterProcesses, WhoFindsNoCoordinatorSaysWhere) {
  for (int64_t i = 0; i < harness::rounds(1, 100); ++i) {
    ChildProcess lost({TANDEM_CLUSTER_MEMBER, "--join-timeout", "1500"},
                      torchrun(1, 2, free_port()));
    EXPECT_EQ(lost.wait(), 1);
    EXPECT_TRUE(std::regex_search(
        lost.printed(), std::regex(R"(waited \d+ s for the coordinator at 127\.0\.0\.1)")))
        << lost.printed();
  }
}

TEST(ClusterProcesses, OtherMachinesNeedASecret) {
  Variables variables = torchrun(0, 2, free_port());
  variables["MASTER_ADDR"] = "10.1.2.3";
  ChildProcess process({TANDEM_CLUSTER_MEMBER}, variables);
  EXPECT_EQ(process.wait(), 1);
  EXPECT_NE(process.printed().find("there is no secret to tell who may join"), std::string::npos)
      << process.printed();
}

std::string secret_file(const harness::TempFolder& folder, const std::string& name,
                        const std::string& text) {
  const std::string path = (folder.path() / name).string();
  std::ofstream(path) << text;
  chmod(path.c_str(), 0600);
  return path;
}

TEST(ClusterProcesses, AWrongSecretIsRefusedAndDoesNoHarm) {
  const harness::TempFolder folder;
  const std::string right = secret_file(folder, "right", "0123456789abcdef0123");
  const std::string wrong = secret_file(folder, "wrong", "0123456789abcdefXXXX");
  const int port = free_port();
  Variables first = torchrun(0, 2, port);
  Variables second = torchrun(1, 2, port);
  first["TANDEM_SECRET_FILE"] = second["TANDEM_SECRET_FILE"] = right;
  Variables stranger = second;
  stranger["TANDEM_SECRET_FILE"] = wrong;
  ChildProcess zero({TANDEM_CLUSTER_MEMBER}, first);
  ChildProcess other({TANDEM_CLUSTER_MEMBER}, stranger);
  EXPECT_EQ(other.wait(), 1);
  EXPECT_NE(other.printed().find("FailedPrecondition: cluster: rank 1 is not let in at"),
            std::string::npos)
      << other.printed();
  ChildProcess one({TANDEM_CLUSTER_MEMBER}, second);
  EXPECT_EQ(one.wait(), 0) << one.printed();
  EXPECT_EQ(zero.wait(), 0) << zero.printed();
  chmod(right.c_str(), 0644);
  ChildProcess open({TANDEM_CLUSTER_MEMBER}, second);
  EXPECT_EQ(open.wait(), 1);
  EXPECT_NE(open.printed().find("whose mode is 644; chmod 600 it"), std::string::npos)
      << open.printed();
}

TEST(ClusterProcesses, ADeathWhileOthersAreAwaitedIsNamed) {
  const int port = free_port();
  ChildProcess zero({TANDEM_CLUSTER_MEMBER}, torchrun(0, 3, port));
  auto one = std::make_unique<ChildProcess>(Words{TANDEM_CLUSTER_MEMBER}, torchrun(1, 3, port));
  std::this_thread::sleep_for(milliseconds(1000));
  one->signal(SIGKILL);
  EXPECT_EQ(zero.wait(seconds(20)), 1) << zero.printed();
  // A busy machine may not have let it in before it died.
  EXPECT_TRUE(zero.printed().find("rank 1 (worker 1, ") != std::string::npos &&
              zero.printed().find("died while others were awaited") != std::string::npos)
      << zero.printed();
  ChildProcess first({TANDEM_CLUSTER_MEMBER}, torchrun(0, 2, port + 1));
  one = std::make_unique<ChildProcess>(Words{TANDEM_CLUSTER_MEMBER}, torchrun(1, 3, port + 1));
  EXPECT_EQ(one->wait(seconds(20)), 1) << one->printed();
  EXPECT_NE(one->printed().find("it is one of 3 ranks, and here 2 meet"), std::string::npos)
      << one->printed();
}

TEST(ClusterProcesses, TlsIsForThoseWithCertificates) {
  const harness::TempFolder folder;
  const std::string at = folder.path().string();
  const std::string make = "cd " + at +
                           " && openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out "
                           "cert.pem -days 2 -subj /CN=tandem "
                           "-addext subjectAltName=IP:127.0.0.1 >/dev/null 2>&1";
  if (std::system(make.c_str()) != 0) GTEST_SKIP() << "there is no openssl to make certificates";
  const Variables tls = {{"TANDEM_TLS_CA", at + "/cert.pem"},
                         {"TANDEM_TLS_CERT", at + "/cert.pem"},
                         {"TANDEM_TLS_KEY", at + "/key.pem"}};
  Ranks ranks = start(2, {"--steps", "20"}, tls);
  expect_all_done(ranks);
  const int port = free_port();
  Variables zero = torchrun(0, 2, port);
  zero.insert(tls.begin(), tls.end());
  ChildProcess secured({TANDEM_CLUSTER_MEMBER, "--join-timeout", "3000"}, zero);
  ChildProcess plain({TANDEM_CLUSTER_MEMBER, "--join-timeout", "2000"}, torchrun(1, 2, port));
  EXPECT_EQ(plain.wait(), 1) << plain.printed();
  EXPECT_NE(plain.printed().find("DeadlineExceeded"), std::string::npos) << plain.printed();
  EXPECT_EQ(secured.wait(), 1);
  zero.erase("TANDEM_TLS_KEY");
  ChildProcess half({TANDEM_CLUSTER_MEMBER}, zero);
  EXPECT_EQ(half.wait(), 1);
  EXPECT_NE(half.printed().find("are set together or not at all"), std::string::npos)
      << half.printed();
}

int connect_to(int port) {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (file >= 0 && connect(file, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0)
    return file;
  if (file >= 0) close(file);
  return -1;
}

/// The ports of this machine that somebody listens at and that did not exist in `before`.
std::vector<int> listening_ports() {
  std::vector<int> ports;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      char address[64];
      unsigned port = 0;
      unsigned state = 0;
      if (std::sscanf(line.c_str(), " %*d: %63[0-9A-F]:%x %*[0-9A-F]:%*x %x", address, &port,
                      &state) == 3 &&
          state == 0x0a) {
        ports.push_back(static_cast<int>(port));
      }
    }
  }
  return ports;
}

TEST(ClusterProcesses, StrangersOnEveryPortChangeNothing) {
  const std::vector<int> before = listening_ports();
  Ranks ranks = start(2, {"--steps", "1500", "--pause", "2"});
  ranks.wait_until_joined();
  std::vector<int> ports = {ranks.port};
  for (const int port : listening_ports()) {
    if (std::ranges::find(before, port) == before.end() && port != ranks.port)
      ports.push_back(port);
  }
  std::mt19937 random(11);
  std::vector<int> idle;
  for (const int port : ports) {
    for (int i = 0; i < 20; ++i) {
      const int file = connect_to(port);
      if (file < 0) continue;
      std::string bytes(1 + random() % 3000, '\0');
      if (i % 3 == 0) bytes.insert(0, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
      if (i % 3 != 1) {
        for (char& byte : bytes) byte = static_cast<char>(random());
      }
      send(file, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      idle.push_back(file);
    }
  }
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 4096);
  setrlimit(RLIMIT_NOFILE, &limit);
  for (int i = 0; i < 1000; ++i) {
    const int file = connect_to(ranks.port);
    if (file >= 0) idle.push_back(file);
  }
  EXPECT_GT(idle.size(), 500u);
  expect_all_done(ranks);
  for (const int file : idle) close(file);
}

}  // namespace
}  // namespace tandem::cluster

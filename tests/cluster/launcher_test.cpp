/// `tandem run` with real processes.
#include <dirent.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "harness/child_process.h"
#include "harness/temp_folder.h"

namespace tandem::cluster {
namespace {

using harness::ChildProcess;
using std::chrono::milliseconds;
using std::chrono::seconds;
using LauncherWords = std::vector<std::string>;

/// `tandem run --workers N -- <words>`
std::unique_ptr<ChildProcess> tandem_run(int workers, LauncherWords words) {
  words.insert(words.begin(), {TANDEM_TOOL, "run", "--workers", std::to_string(workers), "--"});
  return std::make_unique<ChildProcess>(words);
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

/// The process that runs as a rank of a launcher; -1 where none is seen.
pid_t seen_process_of_rank(pid_t launcher, int rank) {
  std::ifstream children("/proc/" + std::to_string(launcher) + "/task/" + std::to_string(launcher) +
                         "/children");
  for (pid_t child; children >> child;) {
    std::ifstream file("/proc/" + std::to_string(child) + "/environ");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    if (text.find(std::string("\0TANDEM_RANK=", 13) + std::to_string(rank) + '\0') !=
        std::string::npos)
      return child;
  }
  return -1;
}

/// The same. A process that is becoming another program shows no environment for a moment.
pid_t process_of_rank(pid_t launcher, int rank) {
  pid_t found = -1;
  for (int i = 0; i < 500 && found < 0; ++i) {
    if (i > 0) std::this_thread::sleep_for(milliseconds(10));
    found = seen_process_of_rank(launcher, rank);
  }
  return found;
}

TEST(TandemRun, RunsWorkersWithTheirRankBeforeEachLine) {
  const auto run = tandem_run(3, {TANDEM_CLUSTER_MEMBER, "--steps", "20"});
  EXPECT_EQ(run->wait(), 0) << run->printed();
  for (const char* line : {"[0] done 6\n", "[1] done 6\n", "[2] done 6\n"}) {
    EXPECT_NE(run->printed().find(line), std::string::npos) << run->printed();
  }
}

TEST(TandemRun, GivesEachWorkerCoresOfItsOwn) {
  const auto run = tandem_run(
      2, {"sh", "-c", "grep Cpus_allowed_list /proc/self/status; echo spin $TANDEM_SPIN"});
  EXPECT_EQ(run->wait(), 0) << run->printed();
  EXPECT_EQ(count_of(run->printed(), "Cpus_allowed_list"), 2u);
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const auto many = tandem_run(cores + 1, {"sh", "-c", "echo spin $TANDEM_SPIN"});
  EXPECT_EQ(many->wait(), 0);
  EXPECT_EQ(count_of(many->printed(), "] spin 0\n"), static_cast<size_t>(cores + 1))
      << many->printed();
}

TEST(TandemRun, EndsAllWhenOneIsKilledAndSaysWhichFirst) {
  const auto run = tandem_run(3, {TANDEM_CLUSTER_MEMBER, "--steps", "1000000"});
  for (const char* line : {"[0] joined", "[1] joined", "[2] joined"})
    ASSERT_TRUE(run->prints(line)) << run->printed();
  const pid_t victim = process_of_rank(run->id(), 1);
  ASSERT_GT(victim, 0);
  std::this_thread::sleep_for(milliseconds(1500));  // Heartbeats tell what it does.
  kill(victim, SIGKILL);
  EXPECT_EQ(run->wait(seconds(20)), 128 + SIGKILL) << run->printed();
  const std::string& text = run->printed();
  const size_t report = text.find("tandem run: rank 1 on localhost failed first: SIGKILL\n");
  ASSERT_NE(report, std::string::npos) << text;
  EXPECT_NE(text.find("died: SIGKILL, in backward of step", 0), std::string::npos) << text;
  for (const char* other :
       {"[0] Unavailable: rank 1 (worker 1", "[2] Unavailable: rank 1 (worker 1"}) {
    const size_t said = text.find(other);
    ASSERT_NE(said, std::string::npos) << text;
    EXPECT_GT(said, report) << "the report comes first";
  }
}

TEST(TandemRun, ExceptionsAreReportedWithTheirText) {
  const auto run =
      tandem_run(2, {TANDEM_CLUSTER_MEMBER, "--steps", "1000000", "--at", "5", "--act", "throw"});
  EXPECT_EQ(run->wait(seconds(20)), 1) << run->printed();
  const size_t report =
      run->printed().find("tandem run: rank 1 on localhost failed first: exit code 1\n");
  ASSERT_NE(report, std::string::npos) << run->printed();
  EXPECT_NE(run->printed().find("InvalidArgument: fit: the loss is nan", report),
            std::string::npos);
  EXPECT_EQ(count_of(run->printed().substr(report), "[1] InvalidArgument: fit: the loss is nan\n"),
            1u)
      << run->printed();
}

TEST(TandemRun, AWorkerThatEndsTooEarlyIsNamedAndTheCodeIsThatOfTheOthers) {
  const auto run =
      tandem_run(2, {TANDEM_CLUSTER_MEMBER, "--steps", "1000000", "--at", "5", "--act", "leave"});
  EXPECT_EQ(run->wait(seconds(20)), 1) << run->printed();
  EXPECT_NE(run->printed().find("tandem run: rank 1 on localhost ended first: exit code 0\n"),
            std::string::npos)
      << run->printed();
  EXPECT_NE(run->printed().find("has ended its part"), std::string::npos) << run->printed();
}

TEST(TandemRun, TheExitCodeIsTheFirstFailures) {
  const auto run = tandem_run(3, {"sh", "-c", "test $TANDEM_RANK = 1 && exit 7; exec sleep 60"});
  EXPECT_EQ(run->wait(seconds(40)), 7) << run->printed();
}

TEST(TandemRun, AServerThatEndsByItselfAtOnceIsNotStartedForEver) {
  ChildProcess run(
      {TANDEM_TOOL, "run", "--workers", "1", "--ps", "1", "--", "sh", "-c",
       "case $TF_CONFIG in *'\"type\": \"ps\"'*) echo no; exit 5;; esac; exec sleep 60"});
  EXPECT_EQ(run.wait(seconds(40)), 5) << run.printed();
  size_t restarts = 0;
  for (size_t at = 0; (at = run.printed().find("it is started again", at)) != std::string::npos;
       ++at) {
    ++restarts;
  }
  EXPECT_EQ(restarts, 3u) << run.printed();
  EXPECT_NE(run.printed().find("ps 0 on localhost failed first: exit code 5"), std::string::npos)
      << run.printed();
}

TEST(TandemRun, AProgramThatJoinsNothingIsRunAsItIs) {
  const auto run = tandem_run(3, {"sh", "-c", "test $TANDEM_RANK = 0 || sleep 0.5"});
  EXPECT_EQ(run->wait(), 0);
  EXPECT_EQ(run->printed(), "");
}

TEST(TandemRun, SignalsReachTheWorkers) {
  const auto run = tandem_run(
      2, {"sh", "-c", "trap 'echo heard; exit 9' TERM; echo ready; while :; do sleep 0.05; done"});
  ASSERT_TRUE(run->prints("[0] ready"));
  ASSERT_TRUE(run->prints("[1] ready"));
  run->signal(SIGTERM);
  EXPECT_EQ(run->wait(seconds(20)), 9) << run->printed();
  EXPECT_NE(run->printed().find("] heard"), std::string::npos) << run->printed();
}

TEST(TandemRun, AWorkerThatIsSentSigtermIsTheOneThatIsNamed) {
  const harness::TempFolder folder;
  const auto run = tandem_run(2, {TANDEM_CLUSTER_TRAINER, folder.path().string(), "1000000",
                                  (folder.path() / "result.npz").string(), "auto", "mirrored"});
  ASSERT_TRUE(run->prints("[0] begun"));
  ASSERT_TRUE(run->prints("[1] begun"));
  kill(process_of_rank(run->id(), 1), SIGTERM);
  EXPECT_EQ(run->wait(seconds(40)), 128 + SIGTERM) << run->printed();
  EXPECT_NE(run->printed().find("tandem run: rank 1 on localhost failed first: SIGTERM\n"),
            std::string::npos)
      << run->printed();
}

TEST(TandemRun, WorkersThatExchangeEndWithTheirTerminal) {
  std::signal(SIGHUP, SIG_DFL);  // Whoever runs the tests may have them ignore it.
  const auto run = tandem_run(2, {TANDEM_CLUSTER_MEMBER, "--steps", "1000000", "--pause", "1"});
  ASSERT_TRUE(run->prints("[0] joined"));
  ASSERT_TRUE(run->prints("[1] joined"));
  run->signal(SIGHUP);
  EXPECT_EQ(run->wait(seconds(20)), 128 + SIGHUP) << run->printed();
}

TEST(TandemRun, WorkersEndWithTheirLauncher) {
  const auto run = tandem_run(2, {"sh", "-c", "echo ready; exec sleep 600"});
  ASSERT_TRUE(run->prints("[0] ready"));
  ASSERT_TRUE(run->prints("[1] ready"));
  const pid_t children[] = {process_of_rank(run->id(), 0), process_of_rank(run->id(), 1)};
  run->signal(SIGKILL);
  for (const pid_t child : children) {
    ASSERT_GT(child, 0);
    bool gone = false;
    for (int i = 0; i < 500 && !gone; ++i) {
      std::ifstream status("/proc/" + std::to_string(child) + "/stat");
      std::string number, name, state;
      gone = !(status >> number >> name >> state) || state == "Z" || state == "X";
      if (!gone) std::this_thread::sleep_for(milliseconds(10));
    }
    EXPECT_TRUE(gone) << child;
  }
}

TEST(TandemRun, APlaceThatCannotBeIsAnError) {
  ChildProcess more({TANDEM_TOOL, "run", "--workers", "1", "--hosts", "a,b", "--", "true"});
  EXPECT_EQ(more.wait(), 1);
  EXPECT_NE(more.printed().find("InvalidArgument: run: 2 hosts are more than 1 workers"),
            std::string::npos)
      << more.printed();
  const auto missing = tandem_run(2, {"/no/such/program"});
  EXPECT_EQ(missing->wait(), 127);
  EXPECT_NE(missing->printed().find("tandem run: the program '/no/such/program' cannot be started: "
                                    "No such file or directory\n"),
            std::string::npos)
      << missing->printed();
}

}  // namespace
}  // namespace tandem::cluster

// Parameter servers as real processes: with staleness 0 the result is that of one device, every
// batch counts once whoever dies, and who is waited for is named.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "harness/child_process.h"
#include "harness/free_port.h"
#include "harness/soak.h"
#include "harness/temp_folder.h"

namespace tandem::distribute {
namespace {

using harness::ChildProcess;
using harness::free_port;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Words = std::vector<std::string>;
using Doubles = std::vector<double>;

/// A chief, workers and servers on this machine. The chief begins when all have come.
class Tasks {
 public:
  /// Those of `late` are not started.
  Tasks(int workers, int servers, Words arguments,
        const std::set<std::pair<std::string, int>>& late = {})
      : arguments_(std::move(arguments)) {
    arguments_.insert(arguments_.begin(), TANDEM_SERVER_MEMBER);
    const auto addresses = [this](int count) {
      Words all;
      for (int i = 0; i < count; ++i) {
        ports_.push_back(free_port());
        all.push_back(fmt::format("\"127.0.0.1:{}\"", ports_.back()));
      }
      return fmt::format("[{}]", fmt::join(all, ", "));
    };
    cluster_ = fmt::format(R"({{"chief": {}, "worker": {}, "ps": {}}})", addresses(1),
                           addresses(workers), addresses(servers));
    const auto start_all = [&](const std::string& job, int count) {
      for (int i = 0; i < count; ++i) {
        if (!late.contains({job, i})) start(job, i);
      }
    };
    const size_t tasks = 1 + static_cast<size_t>(workers + servers) - late.size();
    arguments_.insert(arguments_.end(),
                      {"--gather", folder_.path().string(), "--tasks", std::to_string(tasks)});
    start_all("chief", 1);
    start_all("worker", workers);
    start_all("ps", servers);
  }

  ChildProcess& start(const std::string& job, int task) {
    auto& process = processes_[{job, task}];
    process.reset();
    const std::string config = fmt::format(
        R"({{"cluster": {}, "task": {{"type": "{}", "index": {}}}}})", cluster_, job, task);
    process = std::make_unique<ChildProcess>(
        arguments_,
        std::map<std::string, std::string>{{"TF_CONFIG", config}, {"TANDEM_SPIN", "0"}});
    return *process;
  }

  ChildProcess& at(const std::string& job, int task) { return *processes_.at({job, task}); }
  ChildProcess& chief() { return at("chief", 0); }
  const std::vector<int>& ports() const { return ports_; }

  /// All but those that were killed end well, and say `text`.
  void expect_done(const Words& texts = {},
                   const std::set<std::pair<std::string, int>>& killed = {}) {
    for (auto& [task, process] : processes_) {
      if (killed.contains(task)) continue;
      EXPECT_EQ(process->wait(), 0) << task.first << " " << task.second << ":\n"
                                    << process->printed();
      for (const std::string& text : texts) {
        EXPECT_NE(process->printed().find(text), std::string::npos)
            << task.first << " " << task.second << ":\n"
            << process->printed();
      }
    }
  }

 private:
  const harness::TempFolder folder_;
  Words arguments_;
  std::string cluster_;
  std::vector<int> ports_;
  std::map<std::pair<std::string, int>, std::unique_ptr<ChildProcess>> processes_;
};

/// The numbers of all lines that begin with these words.
std::vector<Doubles> numbers_of(const std::string& printed, const std::string& beginning) {
  std::vector<Doubles> all;
  std::istringstream lines(printed);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(beginning + " ")) continue;
    std::istringstream words(line.substr(beginning.size()));
    Doubles& numbers = all.emplace_back();
    for (double number; words >> number;) numbers.push_back(number);
  }
  return all;
}

void expect_near(const std::vector<Doubles>& a, const std::vector<Doubles>& b,
                 double tolerance = 1e-6) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_FALSE(a.empty());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].size(), b[i].size());
    for (size_t k = 0; k < a[i].size(); ++k) EXPECT_NEAR(a[i][k], b[i][k], tolerance);
  }
}

TEST(ParameterServerProcesses, InStepTheResultIsThatOfThreads) {
  ChildProcess threads({TANDEM_SERVER_MEMBER});
  ASSERT_EQ(threads.wait(), 0) << threads.printed();
  for (const auto& [workers, servers] : {std::pair{2, 1}, std::pair{2, 2}}) {
    SCOPED_TRACE(fmt::format("{} workers, {} servers", workers, servers));
    Tasks tasks(workers, servers, {"--mode", "fit", "--staleness", "0"});
    tasks.expect_done({"done"});
    for (const char* line : {"weight", "history loss", "history val_mae", "evaluated"}) {
      for (const auto& [job, task] :
           {std::pair{"chief", 0}, std::pair{"worker", 1}, std::pair{"ps", 0}}) {
        SCOPED_TRACE(fmt::format("{} of {} {}", line, job, task));
        expect_near(numbers_of(tasks.at(job, task).printed(), line),
                    numbers_of(threads.printed(), line));
      }
    }
    EXPECT_EQ(tasks.chief().printed().find("step\n"), std::string::npos) << "The chief trains.";
  }
}

/// The lines that begin with these words, as they were printed.
std::vector<std::string> lines_of(const std::string& printed, const std::string& beginning) {
  std::vector<std::string> all;
  std::istringstream lines(printed);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(beginning + " ")) all.push_back(line);
  }
  return all;
}

TEST(ParameterServerProcesses, InStepTheBitsAreThoseOfMirroredShards) {
  for (const auto& [workers, servers] : {std::pair{1, 1}, {2, 3}, {3, 2}, {4, 1}}) {
    for (const char* mode : {"fit", "normalize"}) {
      SCOPED_TRACE(fmt::format("{} workers, {} servers, {}", workers, servers, mode));
      ChildProcess mirrored(
          {TANDEM_SERVER_MEMBER, "--mode", mode, "--shards", std::to_string(workers)});
      Tasks tasks(workers, servers, {"--mode", mode, "--staleness", "0", "--reproducible", "1"});
      tasks.expect_done({"done"});
      ASSERT_EQ(mirrored.wait(), 0) << mirrored.printed();
      const auto weights = lines_of(mirrored.printed(), "weight");
      ASSERT_FALSE(weights.empty());
      EXPECT_EQ(lines_of(tasks.chief().printed(), "weight"), weights);
      EXPECT_EQ(lines_of(tasks.at("ps", 0).printed(), "weight"), weights);
    }
  }
}

TEST(ParameterServerProcesses, InStepDeathsChangeNoBit) {
  ChildProcess mirrored({TANDEM_SERVER_MEMBER, "--mode", "fit", "--shards", "2"});
  Tasks tasks(2, 2,
              {"--mode", "fit", "--staleness", "0", "--reproducible", "1", "--sleep-ms", "60"});
  ASSERT_TRUE(tasks.at("worker", 1).prints("step\nstep\n")) << tasks.at("worker", 1).printed();
  tasks.at("ps", 1).signal(SIGKILL);
  tasks.start("ps", 1);
  ASSERT_TRUE(tasks.chief().prints("tickets since are handed out again"))
      << tasks.chief().printed();
  tasks.at("worker", 0).signal(SIGKILL);
  tasks.start("worker", 0);
  EXPECT_EQ(tasks.chief().wait(), 0) << tasks.chief().printed();
  ASSERT_EQ(mirrored.wait(), 0) << mirrored.printed();
  const auto weights = lines_of(mirrored.printed(), "weight");
  ASSERT_FALSE(weights.empty());
  EXPECT_EQ(lines_of(tasks.chief().printed(), "weight"), weights);
}

/// What a run of shares that meet within steps is to equal, bit for bit.
std::vector<std::string> normalized_weights(int workers, int epochs) {
  ChildProcess mirrored({TANDEM_SERVER_MEMBER, "--mode", "normalize", "--shards",
                         std::to_string(workers), "--epochs", std::to_string(epochs)});
  EXPECT_EQ(mirrored.wait(), 0) << mirrored.printed();
  const auto weights = lines_of(mirrored.printed(), "weight");
  EXPECT_FALSE(weights.empty()) << mirrored.printed();
  return weights;
}

Words normalizing(int epochs, int sleep_ms) {
  return {"--mode", "normalize", "--staleness",          "0",          "--reproducible",
          "1",      "--epochs",  std::to_string(epochs), "--sleep-ms", std::to_string(sleep_ms)};
}

TEST(ParameterServerProcesses, InStepSharesThatMeetAreDoneByWhoIsLeft) {
  Tasks tasks(3, 2, normalizing(8, 50));
  for (int w = 0; w < 3; ++w) {  // All take part.
    ASSERT_TRUE(tasks.at("worker", w).prints("step\n")) << tasks.at("worker", w).printed();
  }
  tasks.at("worker", 1).signal(SIGKILL);
  // Worker 0 does shares beside its own, and the last worker all of them.
  ASSERT_TRUE(tasks.chief().prints("worker 1 is gone")) << tasks.chief().printed();
  std::this_thread::sleep_for(milliseconds(300));
  tasks.at("worker", 2).signal(SIGKILL);
  tasks.expect_done({"done"}, {{"worker", 1}, {"worker", 2}});
  EXPECT_EQ(lines_of(tasks.chief().printed(), "weight"), normalized_weights(3, 8));
}

TEST(ParameterServerProcesses, InStepSharesThatMeetNeedNotAllWorkersAtTheStart) {
  Tasks tasks(3, 1, normalizing(3, 30), {{"worker", 0}, {"worker", 2}});
  ASSERT_TRUE(tasks.at("worker", 1).prints("step\nstep\nstep\nstep\n"));
  tasks.start("worker", 0);
  tasks.expect_done({"done"});
  EXPECT_EQ(lines_of(tasks.chief().printed(), "weight"), normalized_weights(3, 3));
}

TEST(ParameterServerProcesses, InStepAWorkerThatIsStoppedHoldsUpNobodyForLong) {
  Tasks tasks(2, 1, normalizing(6, 60));
  ASSERT_TRUE(tasks.at("worker", 1).prints("step\nstep\n")) << tasks.at("worker", 1).printed();
  tasks.at("worker", 1).signal(SIGSTOP);
  ASSERT_TRUE(tasks.chief().prints("worker 1 is gone: it is silent")) << tasks.chief().printed();
  std::this_thread::sleep_for(milliseconds(500));
  tasks.at("worker", 1).signal(SIGCONT);
  tasks.expect_done({"done"});
  EXPECT_EQ(lines_of(tasks.chief().printed(), "weight"), normalized_weights(2, 6));
}

TEST(ParameterServerProcesses, WhoeverDiesWhileSharesMeetChangesNoBit) {
  const auto kills = static_cast<int>(harness::rounds(4, 50));
  const int epochs = 4 * kills;
  Tasks tasks(3, 2, normalizing(epochs, 20));
  ASSERT_TRUE(tasks.at("worker", 0).prints("step\n")) << tasks.at("worker", 0).printed();
  std::mt19937 random(7);
  for (int i = 0; i < kills; ++i) {
    std::this_thread::sleep_for(milliseconds(50 + random() % 400));
    const bool is_server = i % 4 == 3;
    const auto victim = is_server ? std::pair<std::string, int>{"ps", random() % 2}
                                  : std::pair<std::string, int>{"worker", random() % 3};
    tasks.at(victim.first, victim.second).signal(SIGKILL);
    std::this_thread::sleep_for(milliseconds(random() % 300));
    tasks.start(victim.first, victim.second);
  }
  EXPECT_EQ(tasks.chief().wait(std::chrono::minutes(5)), 0) << tasks.chief().printed();
  EXPECT_EQ(lines_of(tasks.chief().printed(), "weight"), normalized_weights(3, epochs));
}

TEST(ParameterServerProcesses, WhatReadsVariablesHasAllStepsBeforeIt) {
  for (const char* staleness : {"-1", "0"}) {
    SCOPED_TRACE(fmt::format("staleness {}", staleness));
    Tasks tasks(1, 2, {"--mode", "unjoined", "--staleness", staleness});
    tasks.expect_done({"done"});
    // Each of three weights is the number of steps.
    for (const char* job : {"chief", "worker"}) {
      EXPECT_NE(tasks.at(job, 0).printed().find("read 21 42 63\n"), std::string::npos)
          << tasks.at(job, 0).printed();
    }
  }
}

TEST(ParameterServerProcesses, WhenTheChiefFailsAllEndAndSaySo) {
  for (const auto& [mode, words] :
       {std::pair{"fail", "Aborted: the chief: it has left by an exception"},
        std::pair{"fail_alone", "Aborted: the chief: it has left by an exception"},
        std::pair{"fail_to_evaluate",
                  "Aborted: the chief: InvalidArgument: map: element 0: no more features"}}) {
    SCOPED_TRACE(mode);
    Tasks tasks(1, 1, {"--mode", mode, "--staleness", "-1"});
    for (const char* job : {"worker", "ps"}) {
      EXPECT_EQ(tasks.at(job, 0).wait(), 1) << tasks.at(job, 0).printed();
      EXPECT_NE(tasks.at(job, 0).printed().find(words), std::string::npos)
          << tasks.at(job, 0).printed();
    }
    EXPECT_EQ(tasks.chief().wait(), 1) << tasks.chief().printed();
  }
}

TEST(ParameterServerProcesses, WithoutStepsEveryTicketCountsOnce) {
  Tasks tasks(2, 2, {"--mode", "count", "--staleness", "-1"});
  tasks.expect_done({"counted 120 120", "done"});
}

TEST(ParameterServerProcesses, ALoopOfItsOwnIsTheSameOnAllTasks) {
  Tasks tasks(2, 1, {"--mode", "loop", "--staleness", "-1"});
  tasks.expect_done({"looped 63 63 0", "done"});
}

TEST(ParameterServerProcesses, ALoopGoesOnWhereAServerHasLostItsSteps) {
  // In step each of two shares counts, and no step sees one server ahead of another.
  for (const auto& [staleness, looped] :
       {std::pair{"-1", "looped 63 63 "}, {"0", "looped 126 126 0"}}) {
    SCOPED_TRACE(fmt::format("staleness {}", staleness));
    Tasks tasks(2, 2, {"--mode", "loop", "--staleness", staleness, "--sleep-ms", "20"});
    ASSERT_TRUE(tasks.at("worker", 0).prints("step\nstep\nstep\nstep\nstep\n"));
    tasks.at("ps", 1).signal(SIGKILL);
    tasks.start("ps", 1);
    EXPECT_EQ(tasks.chief().wait(), 0) << tasks.chief().printed();
    EXPECT_NE(tasks.chief().printed().find(looped), std::string::npos) << tasks.chief().printed();
  }
}

TEST(ParameterServerProcesses, OfATableOnlyTheRowsTouchedMove) {
  ChildProcess threads({TANDEM_SERVER_MEMBER, "--mode", "embed", "--epochs", "4"});
  ASSERT_EQ(threads.wait(), 0) << threads.printed();
  for (const char* staleness : {"0", "1", "-1"}) {
    SCOPED_TRACE(fmt::format("staleness {}", staleness));
    // Without steps one worker is one device.
    const bool in_step = std::string(staleness) == "0";
    // Steps take so long that the chief has the next tickets meanwhile.
    Tasks tasks(in_step ? 2 : 1, 2,
                {"--mode", "embed", "--staleness", staleness, "--epochs", "4", "--sleep-ms", "30"});
    tasks.expect_done({"done"});
    for (const char* line : {"history loss", "table"}) {
      expect_near(numbers_of(tasks.chief().printed(), line), numbers_of(threads.printed(), line),
                  1e-3);
    }
    // The table has 1.28 MB, and there are 24 steps.
    const auto moved = numbers_of(tasks.at("worker", 0).printed(), "moved");
    ASSERT_EQ(moved.size(), 1u);
    EXPECT_LT(moved[0][0], 24 * 30000);
    if (in_step) continue;
    // One question to the chief and one to each server for a step, and one more to the chief where
    // it did not know the next ticket yet; in the first of an epoch one more to each of them; signs
    // of life beside. Rows that do not ride on a push would be two more for each step.
    const auto asked = numbers_of(tasks.at("worker", 0).printed(), "asked");
    ASSERT_EQ(asked.size(), 1u);
    EXPECT_LT(asked[0][0], 23 * 4 + 4 * 3 + 20);
  }
}

TEST(ParameterServerProcesses, RowsThatAreForgottenAreReadAgain) {
  // More rows in a batch than a worker keeps between steps.
  const Words mode = {"--mode", "embed", "--epochs", "2", "--ids", "1800"};
  Words alone = mode;
  alone.insert(alone.begin(), TANDEM_SERVER_MEMBER);
  ChildProcess threads(alone);
  Words served = mode;
  served.insert(served.end(), {"--staleness", "-1"});
  Tasks tasks(1, 2, served);
  tasks.expect_done({"done"});
  ASSERT_EQ(threads.wait(), 0) << threads.printed();
  for (const char* line : {"history loss", "table"}) {
    expect_near(numbers_of(tasks.chief().printed(), line), numbers_of(threads.printed(), line),
                1e-2);
  }
}

TEST(ParameterServerProcesses, AModelTenTimesTheMemoryOfAWorkerTrains) {
  // 32 MB for the table alone, and as much for each of the two slots.
  const Words mode = {"--mode", "embed", "--rows", "500000", "--epochs", "1"};
  Words alone = mode;
  alone.insert(alone.begin(), TANDEM_SERVER_MEMBER);
  ChildProcess threads(alone);
  ASSERT_EQ(threads.wait(), 0) << threads.printed();
  Words limited = mode;
  limited.insert(limited.end(), {"--staleness", "0", "--limit-mb", "3"});
  Tasks tasks(2, 2, limited);
  tasks.expect_done({"done"});
  // Nobody but the servers has any of it until the epoch is over.
  for (const auto& [job, task] :
       {std::pair{"chief", 0}, std::pair{"worker", 0}, std::pair{"worker", 1}}) {
    const auto resident = numbers_of(tasks.at(job, task).printed(), "resident");
    EXPECT_FALSE(resident.empty());
    for (const Doubles& line : resident) EXPECT_LT(line[0], 1 << 20) << job;
  }
  for (const auto& [job, task] : {std::pair{"chief", 0}, std::pair{"worker", 1}}) {
    for (const char* line : {"history loss", "evaluated", "table"}) {
      SCOPED_TRACE(fmt::format("{} of {} {}", line, job, task));
      expect_near(numbers_of(tasks.at(job, task).printed(), line),
                  numbers_of(threads.printed(), line), 1e-4);
    }
  }
}

TEST(ParameterServerProcesses, GarbageOnEveryPortChangesNothing) {
  Tasks tasks(2, 1, {"--mode", "count", "--staleness", "-1", "--sleep-ms", "5"});
  ASSERT_TRUE(tasks.at("worker", 0).prints("step\n"));
  std::mt19937 random(3);
  std::vector<int> files;
  for (const int port : tasks.ports()) {
    for (int i = 0; i < 5; ++i) {
      const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      address.sin_port = htons(static_cast<uint16_t>(port));
      files.push_back(file);
      // Nobody listens at a worker's.
      if (connect(file, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) continue;
      std::string bytes = i == 0 ? "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" : "";
      for (int k = 0; k < 2000; ++k) bytes += static_cast<char>(i == 1 ? 0 : random());
      send(file, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
  }
  tasks.expect_done({"counted 120 120", "done"});
  for (const int file : files) close(file);
}

TEST(ParameterServerProcesses, AWorkersDeathCostsNothingButItsTickets) {
  for (const char* staleness : {"-1", "2", "0"}) {
    SCOPED_TRACE(fmt::format("staleness {}", staleness));
    Tasks tasks(2, 1, {"--mode", "count", "--staleness", staleness, "--sleep-ms", "10"});
    ASSERT_TRUE(tasks.at("worker", 0).prints("step\nstep\nstep\n"));
    tasks.at("worker", 0).signal(SIGKILL);
    tasks.expect_done({"counted 120 120", "done"}, {{"worker", 0}});
    EXPECT_NE(tasks.chief().printed().find("worker 0 is gone"), std::string::npos)
        << tasks.chief().printed();
  }
}

TEST(ParameterServerProcesses, WorkersComeLateAndGoAtAnyTime) {
  Tasks tasks(3, 2, {"--mode", "count", "--staleness", "3", "--sleep-ms", "15"},
              {{"worker", 1}, {"worker", 2}});
  ASSERT_TRUE(tasks.at("worker", 0).prints("step\nstep\nstep\n"));
  tasks.start("worker", 1);
  ASSERT_TRUE(tasks.at("worker", 1).prints("step\nstep\n"));
  tasks.at("worker", 0).signal(SIGKILL);
  tasks.start("worker", 2);
  ASSERT_TRUE(tasks.at("worker", 2).prints("step\n"));
  tasks.start("worker", 0);
  ASSERT_TRUE(tasks.at("worker", 0).prints("step\n"));
  tasks.expect_done({"counted 120 120", "done"});
}

TEST(ParameterServerProcesses, NobodyIsFurtherAheadOfTheSlowestThanTheBound) {
  constexpr int64_t kBound = 2;
  Tasks tasks(3, 1, {"--mode", "count", "--staleness", "2", "--sleep-ms", "4", "--uneven", "5"});
  tasks.expect_done({"counted 120 120", "done"});
  std::vector<Doubles> began;  // When each worker began its steps.
  double start = 0;            // When all were there.
  for (int w = 0; w < 3; ++w) {
    Doubles& times = began.emplace_back();
    for (const Doubles& line : numbers_of(tasks.at("worker", w).printed(), "began")) {
      times.push_back(line[0]);
    }
    ASSERT_FALSE(times.empty());
    start = std::max(start, times[0]);
  }
  // At the start, too, some were ahead of others.
  const auto begun = [&](const Doubles& times, double until) {
    return std::ranges::lower_bound(times, until) - std::ranges::lower_bound(times, start);
  };
  for (const Doubles& own : began) {
    for (const double time : own) {
      if (time < start) continue;
      for (const Doubles& other : began) {
        EXPECT_LE(begun(own, time), begun(other, time) + 2 * (kBound + 1));
      }
    }
  }
  // While a worker does a step, each of the others does as many as both bounds let it.
  const auto staleness = numbers_of(tasks.chief().printed(), "most stale");
  ASSERT_EQ(staleness.size(), 1u);
  EXPECT_LE(staleness[0][0], 2 * (2 * kBound + 1));
}

TEST(ParameterServerProcesses, AWorkerThatWasStoppedComesBackAndCountsOnce) {
  Tasks tasks(2, 1, {"--mode", "count", "--staleness", "-1", "--sleep-ms", "60"});
  ASSERT_TRUE(tasks.at("worker", 0).prints("step\nstep\n"));
  tasks.at("worker", 0).signal(SIGSTOP);
  ASSERT_TRUE(tasks.chief().prints("worker 0 is gone: it is silent")) << tasks.chief().printed();
  tasks.at("worker", 0).signal(SIGCONT);
  tasks.expect_done({"counted 120 120", "done"});
}

TEST(ParameterServerProcesses, AServerComesBackWithWhatTheChiefHadLast) {
  Tasks tasks(2, 2, {"--mode", "count", "--staleness", "-1", "--sleep-ms", "10", "--epochs", "3"});
  std::string steps;  // Into the second epoch.
  for (int i = 0; i < 50; ++i) steps += "step\n";
  ASSERT_TRUE(tasks.at("worker", 0).prints(steps)) << tasks.at("worker", 0).printed();
  tasks.at("ps", 1).signal(SIGKILL);
  ASSERT_TRUE(tasks.at("worker", 0).prints("ps 1 (127.0.0.1:")) << tasks.at("worker", 0).printed();
  tasks.start("ps", 1);
  tasks.expect_done({"counted 180 180", "done"});
  EXPECT_NE(tasks.chief().printed().find("tickets since are handed out again"), std::string::npos)
      << tasks.chief().printed();
}

TEST(ParameterServerProcesses, AServerRestoresItsOwnFileOfACheckpoint) {
  for (const char* staleness : {"-1", "0"}) {
    SCOPED_TRACE(fmt::format("staleness {}", staleness));
    const harness::TempFolder folder;
    Tasks tasks(2, 2,
                {"--mode", "count", "--staleness", staleness, "--sleep-ms", "10", "--folder",
                 folder.path().string(), "--save-at", "25"});
    // In the middle of an epoch, with all that was handed out before.
    ASSERT_TRUE(tasks.chief().prints("saved 25 25 25\n")) << tasks.chief().printed();
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(std::filesystem::exists(folder / fmt::format("ckpt-1.data-{:05}-of-00003", i)));
    }
    tasks.at("ps", 1).signal(SIGKILL);
    tasks.start("ps", 1);
    tasks.expect_done({"counted 120 120", "done"});
    for (const char* text :
         {"has restored its part from", "is back with the 25 updates that were saved last"}) {
      EXPECT_NE(tasks.chief().printed().find(text), std::string::npos) << tasks.chief().printed();
    }
  }
}

TEST(ParameterServerProcesses, TheChiefsDeathEndsAllByName) {
  Tasks tasks(1, 1, {"--mode", "count", "--sleep-ms", "20", "--patience", "2"});
  ASSERT_TRUE(tasks.at("worker", 0).prints("step\n"));
  tasks.chief().signal(SIGKILL);
  for (const char* job : {"worker", "ps"}) {
    EXPECT_EQ(tasks.at(job, 0).wait(), 1) << tasks.at(job, 0).printed();
    EXPECT_NE(tasks.at(job, 0).printed().find("Unavailable: chief 0 (127.0.0.1:"),
              std::string::npos)
        << tasks.at(job, 0).printed();
  }
}

TEST(ParameterServerProcesses, AChiefThatComesBackBeginsAnewWithTheOthers) {
  Tasks tasks(2, 2, {"--mode", "count", "--staleness", "-1", "--sleep-ms", "10"});
  ASSERT_TRUE(tasks.at("worker", 0).prints("step\nstep\nstep\n"));
  tasks.chief().signal(SIGKILL);
  tasks.start("chief", 0);
  tasks.expect_done({"counted 120 120", "done"});
}

TEST(ParameterServerProcesses, WhoeverDiesHoweverOftenEveryTicketCountsOnce) {
  const auto kills = static_cast<int>(harness::rounds(2, 50));
  const int epochs = 3 * kills;
  Tasks tasks(3, 2,
              {"--mode", "count", "--staleness", "-1", "--sleep-ms", "20", "--epochs",
               std::to_string(epochs)});
  ASSERT_TRUE(tasks.at("worker", 0).prints("step\n"));
  std::mt19937 random(5);
  for (int i = 0; i < kills; ++i) {
    std::this_thread::sleep_for(milliseconds(100 + random() % 500));
    const bool is_server = random() % 3 == 0;
    const auto victim = is_server ? std::pair<std::string, int>{"ps", random() % 2}
                                  : std::pair<std::string, int>{"worker", random() % 3};
    tasks.at(victim.first, victim.second).signal(SIGKILL);
    tasks.start(victim.first, victim.second);
  }
  EXPECT_EQ(tasks.chief().wait(std::chrono::minutes(5)), 0) << tasks.chief().printed();
  const std::string counted = fmt::format("counted {0} {0}", 60 * epochs);
  EXPECT_NE(tasks.chief().printed().find(counted), std::string::npos) << tasks.chief().printed();
  EXPECT_NE(tasks.chief().printed().find(" is gone: "), std::string::npos);
}

TEST(ParameterServerProcesses, TandemRunStartsADeadServerAgain) {
  ChildProcess run({TANDEM_TOOL, "run", "--workers", "2", "--ps", "1", "--", TANDEM_SERVER_MEMBER,
                    "--mode", "count", "--staleness", "-1", "--sleep-ms", "20"});
  ASSERT_TRUE(run.prints("[worker 1] step\n[")) << run.printed();
  // The server is the only process of the run that is a task ps.
  ChildProcess victim({"sh", "-c",
                       fmt::format("for p in $(cat /proc/{0}/task/{0}/children); do tr '\\0' '\\n' "
                                   "</proc/$p/environ | grep -q '\"type\": \"ps\"' && kill -9 $p; "
                                   "done; true",
                                   run.id())});
  ASSERT_EQ(victim.wait(), 0) << victim.printed();
  EXPECT_EQ(run.wait(), 0) << run.printed();
  for (const char* text : {"ps 0 on localhost ended: SIGKILL; it is started again",
                           "[chief 0] counted 120 120", "[worker 1] counted 120 120"}) {
    EXPECT_NE(run.printed().find(text), std::string::npos) << text << "\n" << run.printed();
  }
}

}  // namespace
}  // namespace tandem::distribute

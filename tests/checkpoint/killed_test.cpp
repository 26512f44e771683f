// Processes that are killed while they train and save.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <random>
#include <thread>

#include "harness/soak.h"
#include "harness/temp_folder.h"
#include "tandem/tandem.h"

extern char** environ;

namespace tandem::train {
namespace {

class Process {
 public:
  explicit Process(std::vector<std::string> words) {
    words.insert(words.begin(), TANDEM_CHECKPOINT_TRAINER);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) throw Unavailable("no pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    const int failed =
        ::posix_spawn(&id_, arguments[0], &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    output_ = ends[0];
    if (failed != 0) throw Unavailable("the trainer cannot be started");
  }
  ~Process() {
    if (id_ > 0) kill();
    ::close(output_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// False when it ended first.
  bool wait_for_a_line() const {
    char byte = 0;
    while (::read(output_, &byte, 1) == 1) {
      if (byte == '\n') return true;
    }
    return false;
  }

  void kill() {
    ::kill(id_, SIGKILL);
    wait();
  }

  /// Its status, as waitpid has it.
  int wait() {
    int status = 0;
    ::waitpid(id_, &status, 0);
    id_ = -1;
    return status;
  }

 private:
  pid_t id_ = -1;
  int output_ = -1;
};

bool was_killed(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; }

std::map<std::string, std::vector<uint8_t>> bytes_of(const std::filesystem::path& npz) {
  std::map<std::string, std::vector<uint8_t>> result;
  for (const auto& [name, tensor] : load_npz(npz)) {
    auto& bytes = result[name];
    bytes.resize(static_cast<size_t>(tensor.shape().count()) * size_of(tensor.dtype()));
    tensor.copy_to_host(bytes.data());
  }
  return result;
}

TEST(Killed, AHundredStepsAreFiftyAKillAndFiftyMoreBitForBit) {
  const harness::TempFolder folder;
  const std::string whole = (folder / "whole.npz").string();
  const std::string resumed = (folder / "resumed.npz").string();
  const std::string straight = (folder / "straight").string();
  const std::string broken = (folder / "broken").string();

  // Without a global seed each process draws other numbers: both go on from one beginning.
  ASSERT_EQ(Process({"train", straight, "10", whole}).wait(), 0);
  std::filesystem::copy(straight, broken, std::filesystem::copy_options::recursive);

  ASSERT_EQ(Process({"train", straight, "100", whole}).wait(), 0);
  for (const char* kill_at : {"50", "77"}) {
    ASSERT_TRUE(was_killed(Process({"train", broken, "100", resumed, kill_at}).wait())) << kill_at;
  }
  ASSERT_FALSE(std::filesystem::exists(resumed));
  ASSERT_EQ(Process({"train", broken, "100", resumed}).wait(), 0);

  const auto expected = bytes_of(whole);
  EXPECT_EQ(expected.size(), 15u);
  EXPECT_TRUE(bytes_of(resumed) == expected);
}

/// The number that every value of the latest checkpoint is, if all agree.
std::optional<int64_t> restored_number(const std::filesystem::path& folder) {
  const auto latest = latest_checkpoint(folder);
  if (!latest) return std::nullopt;
  const Variable small(zeros({3}));
  const Variable large(zeros({100, 1000}));
  Checkpoint({{"small", small}, {"large", large}}).restore(latest).assert_consumed();
  const auto number = static_cast<int64_t>(small.value().at<float>({0}));
  EXPECT_EQ(*latest, folder / ("ckpt-" + std::to_string(number)));
  EXPECT_EQ(large.value().to_vector<float>(),
            std::vector<float>(100'000, static_cast<float>(number)));
  return number;
}

TEST(Killed, AtAnyMomentTheLatestCheckpointRestores) {
  const harness::TempFolder folder;
  std::mt19937 random(2026);
  std::uniform_int_distribution<int> microseconds(0, 30'000);
  int64_t last = 0;
  const int64_t rounds = harness::rounds(100, 1000);
  for (int64_t round = 0; round < rounds; ++round) {
    Process process({"save", folder.path().string()});
    ASSERT_TRUE(process.wait_for_a_line()) << "round " << round;  // It has saved once.
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds(random)));
    process.kill();
    const auto number = restored_number(folder.path());
    ASSERT_FALSE(testing::Test::HasFailure()) << "round " << round;
    ASSERT_GT(number.value_or(0), last) << "round " << round;
    last = number.value_or(0);
  }

  // What the kills left behind is gone after one more save.
  const Variable small(zeros({3})), large(zeros({100, 1000}));
  CheckpointManager manager(Checkpoint({{"small", small}, {"large", large}}), folder.path(),
                            {.max_to_keep = 3});
  manager.restore_or_initialize();
  manager.save();
  const auto files = std::filesystem::directory_iterator(folder.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1 + 2 * 3);
}

}  // namespace
}  // namespace tandem::train

/// Other programs that tests start, watch and kill.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tandem/error.h"

namespace tandem::harness {

/// Collects what it prints to both of its outputs. Ends with this object.
class ChildProcess {
 public:
  using Clock = std::chrono::steady_clock;

  /// The environment is this process's, with `changes`.
  explicit ChildProcess(std::vector<std::string> words,
                        const std::map<std::string, std::string>& changes = {}) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw Unavailable("no pipe can be made");
    std::vector<std::string> settings;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      if (!changes.contains(text.substr(0, text.find('=')))) settings.push_back(text);
    }
    for (const auto& [name, value] : changes) settings.push_back(name + "=" + value);
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    std::vector<char*> variables;
    for (auto& setting : settings) variables.push_back(setting.data());
    variables.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    const int failed = posix_spawnp(&process_, words[0].c_str(), &actions, nullptr,
                                    arguments.data(), variables.data());
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    output_ = ends[0];
    if (failed != 0) throw Unavailable(words[0] + " cannot be started");
    started_ = Clock::now();
  }

  ~ChildProcess() {
    if (!ended_) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
    close(output_);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t id() const { return process_; }
  void signal(int number) const { kill(process_, number); }

  /// Reads until it has printed `text`; false if it ends or takes too long.
  bool prints(const std::string& text,
              std::chrono::milliseconds patience = std::chrono::seconds(60)) {
    const auto deadline = Clock::now() + patience;
    while (printed_.find(text) == std::string::npos) {
      if (!read_some(deadline)) return printed_.find(text) != std::string::npos;
    }
    return true;
  }

  /// Its exit code, or 128 and the signal that ended it; -1 if it does not end in time.
  int wait(std::chrono::milliseconds patience = std::chrono::seconds(60)) {
    const auto deadline = Clock::now() + patience;
    while (read_some(deadline)) {
    }
    int status = 0;
    while (!ended_ && waitpid(process_, &status, WNOHANG) != process_) {
      if (Clock::now() > deadline) return -1;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (!ended_) code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    ended_ = true;
    return code_;
  }

  const std::string& printed() const { return printed_; }

 private:
  bool read_some(Clock::time_point deadline) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd entry{output_, POLLIN, 0};
    if (left <= 0 || poll(&entry, 1, static_cast<int>(left)) != 1) return false;
    char bytes[4096];
    const ssize_t count = read(output_, bytes, sizeof bytes);
    if (count <= 0) return false;
    printed_.append(bytes, static_cast<size_t>(count));
    return true;
  }

  pid_t process_ = 0;
  int output_ = -1;
  bool ended_ = false;
  int code_ = -1;
  std::string printed_;
  Clock::time_point started_;
};

}  // namespace tandem::harness

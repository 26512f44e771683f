/// How the launcher starts a process.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace tandem::launcher {

struct StartOptions {
  std::vector<std::string> words;      // The program and its arguments.
  std::vector<std::string> variables;  // The whole environment: "NAME=value".
  std::string secret;                  // The child reads it as one line,
  bool reads_secret_as_input = false;  // from its input instead of descriptor 3.
  sigset_t signal_mask{};
  std::optional<cpu_set_t> cores;
};

/// A process that leads a group of its own and dies with its parent.
struct StartedProcess {
  pid_t process = -1;
  int output = -1;  // The ends from which what it prints is read.
  int errors = -1;
};

/// Throws ResourceExhausted where no process can be made. A program that cannot be started says so
/// on its errors and ends with code 127.
StartedProcess start_process(StartOptions options);

/// Writes all of the text, unless the reader has gone.
void write_all(int to, const std::string& text);

}  // namespace tandem::launcher

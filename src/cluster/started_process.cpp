#include "cluster/started_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "tandem/error.h"

namespace tandem::launcher {
namespace {

/// Two ends that children do not inherit.
struct Pipe {
  int read = -1;
  int write = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw ResourceExhausted("run: no pipe can be made");
    read = ends[0];
    write = ends[1];
  }
};

/// What execve takes: pointers into `texts` and a null pointer behind them.
std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

void write_all(int to, const std::string& text) {
  size_t at = 0;
  while (at < text.size()) {
    const ssize_t count = write(to, text.data() + at, text.size() - at);
    if (count < 0 && errno != EINTR && errno != EAGAIN) return;
    if (count > 0) at += static_cast<size_t>(count);
  }
}

StartedProcess start_process(StartOptions options) {
  const Pipe out;
  const Pipe err;
  const Pipe secret;
  // Before there is a reader, who might end before it reads.
  write_all(secret.write, options.secret + "\n");
  close(secret.write);
  const std::vector<char*> arguments = pointers(options.words);
  const std::vector<char*> environment = pointers(options.variables);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const pid_t parent = getpid();
  const std::string not_started =
      fmt::format("tandem run: the program '{}' cannot be started: ", options.words[0]);
  const pid_t process = fork();
  if (process == 0) {  // Only what is safe in a child of a process with threads.
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    sigprocmask(SIG_SETMASK, &options.signal_mask, nullptr);
    dup2(options.reads_secret_as_input ? secret.read : nothing, STDIN_FILENO);
    dup2(out.write, STDOUT_FILENO);
    dup2(err.write, STDERR_FILENO);
    if (!options.reads_secret_as_input) {
      if (secret.read == 3) {
        fcntl(3, F_SETFD, 0);
      } else {
        dup2(secret.read, 3);
      }
    }
    if (options.cores) sched_setaffinity(0, sizeof *options.cores, &*options.cores);
    execvpe(arguments[0], arguments.data(), environment.data());
    const char* why = strerrordesc_np(errno);
    for (const char* words : {not_started.c_str(), why == nullptr ? "" : why, "\n"}) {
      static_cast<void>(!write(STDERR_FILENO, words, std::strlen(words)));
    }
    _exit(127);
  }
  close(nothing);
  close(out.write);
  close(err.write);
  close(secret.read);
  if (process < 0) {
    close(out.read);
    close(err.read);
    throw ResourceExhausted("run: no process can be started");
  }
  return {.process = process, .output = out.read, .errors = err.read};
}

}  // namespace tandem::launcher

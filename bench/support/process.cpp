#include "support/process.h"

#include <fmt/format.h>
#include <sched.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "tandem/error.h"

namespace tandem::bench {
namespace {

pid_t start_self(const char* option) {
  const char* self = "/proc/self/exe";
  std::array<char*, 3> arguments{const_cast<char*>(self), const_cast<char*>(option), nullptr};
  pid_t child = 0;
  if (posix_spawn(&child, self, nullptr, nullptr, arguments.data(), environ) == 0) return child;
  throw Unavailable(fmt::format("tandem-bench {} did not start", option));
}

}  // namespace

void run_self(const char* option) {
  int status = 0;
  const pid_t child = start_self(option);
  if (waitpid(child, &status, 0) != child || status != 0) {
    throw Unavailable(fmt::format("tandem-bench {} failed", option));
  }
}

Spinner::Spinner(std::optional<int> core) : process_(start_self("--spin")) {
  if (!core) return;
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(static_cast<size_t>(*core), &only);
  if (sched_setaffinity(process_, sizeof(only), &only) == 0) return;
  throw Unavailable(fmt::format("tandem-bench --spin cannot be held on core {}", *core));
}

Spinner::~Spinner() {
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

int first_core() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return 0;
  int core = 0;
  while (!CPU_ISSET(static_cast<size_t>(core), &allowed)) ++core;
  return core;
}

void spin() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (volatile unsigned count = 0;;) count = count + 1;
}

}  // namespace tandem::bench

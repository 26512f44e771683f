#include "process.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "tandem/error.h"

namespace tandem::bench {

void run_self(const char* option) {
  const char* self = "/proc/self/exe";
  std::array<char*, 3> arguments{const_cast<char*>(self), const_cast<char*>(option), nullptr};
  pid_t child = 0;
  int status = 0;
  if (posix_spawn(&child, self, nullptr, nullptr, arguments.data(), environ) != 0 ||
      waitpid(child, &status, 0) != child || status != 0) {
    throw Unavailable(fmt::format("tandem-bench {} failed", option));
  }
}

}  // namespace tandem::bench

#include "core/background.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace tandem::core {
namespace {

thread_local bool background = false;

}  // namespace

void enter_background() {
  background = true;
  // On Linux priorities are those of threads. Ten steps are a tenth of the time where all compete:
  // behind those that compute, without being starved by a busy machine. A refusal does no harm.
  constexpr int kSteps = 10;
  constexpr int kLowest = 19;
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  const int now = getpriority(PRIO_PROCESS, thread);
  static_cast<void>(setpriority(PRIO_PROCESS, thread, std::min(now + kSteps, kLowest)));
}

bool in_background() { return background; }

}  // namespace tandem::core

#include "core/background.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tandem::core {
namespace {

thread_local bool background = false;

}  // namespace

void enter_background() {
  background = true;
  // On Linux priorities are those of threads. Half of the range: behind all that compute, without
  // being starved by a busy machine. A refusal does no harm.
  constexpr int kNice = 10;
  static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice));
}

bool in_background() { return background; }

}  // namespace tandem::core

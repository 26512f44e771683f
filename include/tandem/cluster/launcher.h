/// Starting a program several times, as processes that train together: what `tandem run` does.
#pragma once

#include <string>
#include <vector>

#include "tandem/export.h"

namespace tandem::launcher {

struct WorkersOptions {
  int workers = 1;
  /// Parameter servers. With any, a chief is started, too, and the tasks find each other by
  /// TF_CONFIG: see ParameterServerStrategy.
  int servers = 0;
  /// Where they run, in blocks of about the same size; without any all run here. Hosts other than
  /// "localhost" are reached by ssh, and have the program at the same path.
  std::vector<std::string> hosts = {};
  /// The command that reaches hosts, such as "ssh -p 2222"; it must not ask for a password.
  std::string ssh = "ssh";
  /// The program and its arguments.
  std::vector<std::string> command = {};
};

/// Runs them until all have ended, each with cores of its own where there are enough, their output
/// on this process's outputs with the rank before each line. When one fails all end: the rank, the
/// host, how it ended and its last lines are printed before what the others say of it. Signals that
/// end programs are passed on. Returns 0, or the exit code of the one that failed first, which is
/// 128 and the signal if one ended it. Call it from the thread that lives longest: workers end with
/// it.
///
/// The job and the task stand before each line where there are parameter servers. A server that
/// dies is started again, the others go on without a worker that does, and all end with the chief,
/// whose exit code is returned.
TANDEM_API int run_workers(const WorkersOptions& options);

}  // namespace tandem::launcher

/// Records what each thread and device does, and when. Off, it costs nothing measurable.
///
///   profile::start();
///   for (...) step(x, y);
///   profile::Summary summary = profile::stop("trace.json");
///   std::cout << summary.str();
///
/// The file is a Chrome trace: it opens in Perfetto and in chrome://tracing, a row for each thread
/// and device. Any thread may start and stop; one profile is taken at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tandem/export.h"

namespace tandem::profile {

/// Where the time of all rows went, in seconds.
struct Summary {
  struct Op {
    std::string name;
    int64_t calls = 0;
    double seconds = 0;  ///< Seconds over all threads.
    double flops = 0;
    double bytes = 0;
  };
  struct Replica {
    double compute = 0;
    double reduce = 0;
    double copy = 0;
    double wait = 0;
  };
  double wall = 0;                ///< Seconds from start to stop.
  int rows = 0;                   ///< Threads and devices that did anything.
  int64_t steps = 0;              ///< Runs of compiled functions, however many threads shared them.
  double compute = 0;             ///< Seconds in ops other than collectives,
  double reduce = 0;              ///< in collectives,
  double copy = 0;                ///< in copies from one memory space to another,
  double wait = 0;                ///< and in waits for other threads.
  std::vector<Op> ops;            ///< The longest first.
  std::vector<Replica> replicas;  ///< The same by replica, as far as threads worked for one.

  /// A table for people.
  TANDEM_API std::string str() const;
};

/// Throws FailedPrecondition when a profile is being taken.
TANDEM_API void start();

/// Ends the profile and, unless `path` is empty, writes it. Throws FailedPrecondition when none is
/// being taken, Unavailable when the file cannot be written.
TANDEM_API Summary stop(const std::string& path = {});

}  // namespace tandem::profile

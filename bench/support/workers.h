/// Benchmarks in several processes: each process is this program, started anew for its rank.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tandem::bench {

/// Figures by name, in the unit in which they were printed.
using WorkerFigures = std::map<std::string, double>;

/// How the processes of a benchmark are started.
struct WorkerSettings {
  int count = 2;
  std::string transport = "tcp";
  std::string address = "127.0.0.1";  ///< Rank 0's.
  /// Further variables that they find.
  std::map<std::string, std::string> variables = {};
  /// What is written before the words of a rank's process; may be null.
  std::function<std::vector<std::string>(int rank)> words_before = {};
};

/// Starts this program with `option` once for each rank and waits for all; returns what rank 0
/// reports. Throws Unavailable, with what it printed, if one fails.
WorkerFigures run_workers(const std::string& option, const WorkerSettings& settings);

/// The processes of a benchmark with parameter servers, besides the chief.
struct TaskSettings {
  int workers = 2;
  int servers = 1;
};

/// Starts this program with `option` once for each task and waits for all; returns what they
/// report, the chief first. worker_count() is the number of workers.
WorkerFigures run_tasks(const std::string& option, const TaskSettings& settings);

/// Starts this program with the first option, waits until it prints "ready", and starts it with the
/// second; returns what that reports.
WorkerFigures run_pair(const std::string& server, const std::string& client,
                       const std::map<std::string, std::string>& variables);
/// In such a process: what is to be sent.
int64_t roundtrip_bytes();

/// The figures that another program prints.
WorkerFigures run_program(const std::vector<std::string>& words);

/// In a process that run_workers started: what it was given.
int worker_rank();
int worker_count();
std::string worker_transport();

/// Keeps this process on one core, another for each rank. To be called before devices are used,
/// which are then of one thread.
void stay_on_core(int rank);

}  // namespace tandem::bench

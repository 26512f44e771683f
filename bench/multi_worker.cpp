/// Benchmarks of several processes. Each process is this program, started anew for its rank.
#include <fmt/format.h>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "bench.h"
#include "cluster/join.h"
#include "process.h"
#include "tandem/error.h"
#include "tandem/log.h"

namespace tandem::bench {
namespace {

constexpr int kPort = 29471;

void stay_on_core(int rank) {
  cpu_set_t all;
  CPU_ZERO(&all);
  if (sched_getaffinity(0, sizeof all, &all) != 0) return;
  int skip = rank % std::max(1, CPU_COUNT(&all));
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &all) || skip-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

/// The median time of a sum of `count` floats over all ranks, in seconds.
double median_seconds(op::Group& group, int64_t count, int calls) {
  std::vector<float> values(static_cast<size_t>(count), 1.0f);
  const std::vector<op::Piece> pieces = {{values.data(), count, DType::float32}};
  std::vector<double> times;
  for (int i = 0; i < calls + calls / 10 + 2; ++i) {
    const auto start = Clock::now();
    group.run({.kind = op::ExchangeKind::sum, .pieces = pieces, .name = "bench"});
    times.push_back(seconds_since(start));
    values[0] = 1.0f;
  }
  times.erase(times.begin(), times.begin() + calls / 10 + 2);
  std::ranges::nth_element(times, times.begin() + calls / 2);
  return times[static_cast<size_t>(calls / 2)];
}

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Starts two processes with `option` for a transport and waits for both.
void run_two(const char* option, const std::string& transport) {
  std::array<pid_t, 2> children{};
  for (int rank = 0; rank < 2; ++rank) {
    setenv("RANK", std::to_string(rank).c_str(), 1);
    setenv("WORLD_SIZE", "2", 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", std::to_string(kPort).c_str(), 1);
    setenv("TANDEM_BENCH_TRANSPORT", transport.c_str(), 1);
    std::string self = "/proc/self/exe";
    std::string word = option;
    std::array<char*, 3> words{self.data(), word.data(), nullptr};
    if (posix_spawn(&children[static_cast<size_t>(rank)], self.c_str(), nullptr, nullptr,
                    words.data(), environ) != 0) {
      throw Unavailable(fmt::format("tandem-bench {} did not start", option));
    }
  }
  bool failed = false;
  for (const pid_t child : children) {
    int status = 0;
    failed = waitpid(child, &status, 0) != child || status != 0 || failed;
  }
  if (failed) throw Unavailable(fmt::format("tandem-bench {} failed", option));
}

/// The same with Open MPI, where CMake found it: see bench/peers/openmpi_allreduce.cpp.
void run_open_mpi(const char* transport, const char* engine) {
  const auto peer =
      std::filesystem::canonical("/proc/self/exe").parent_path() / "openmpi_allreduce";
  if (!std::filesystem::exists(peer)) return;
  const std::string command = fmt::format(
      "mpirun --allow-run-as-root --oversubscribe --bind-to core -np 2 --mca pml ob1 --mca btl "
      "{},self {} {}",
      engine, peer.string(), transport);
  std::fflush(stdout);
  if (std::system(command.c_str()) != 0) throw Unavailable("mpirun failed");
}

}  // namespace

void measure_mw_allreduce() {
  logging::set_level(logging::Level::warning);
  const std::string transport = variable("TANDEM_BENCH_TRANSPORT");
  stay_on_core(std::atoi(variable("RANK")));
  const auto group = cluster::join(*cluster::cluster_from_environment(), {.transport = transport});
  const double small = median_seconds(*group, 2560, 20000);
  const double large = median_seconds(*group, 33'000'000 / 4, 40);
  if (group->rank() != 0) return;
  report("mw_allreduce_10KB_" + transport + ".tandem", small * 1e6, "us");
  report("mw_allreduce_33MB_" + transport + ".tandem", large * 1e6, "us");
}

void mw_allreduce() {
  for (const auto& [transport, engine] : {std::pair{"tcp", "tcp"}, {"shm", "vader"}}) {
    run_two("--mw-allreduce", transport);
    run_open_mpi(transport, engine);
  }
}

}  // namespace tandem::bench

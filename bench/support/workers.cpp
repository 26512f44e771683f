#include "support/workers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>

#include "harness/child_process.h"
#include "tandem/error.h"

namespace tandem::bench {
namespace {

using harness::ChildProcess;

constexpr const char* kPort = "29471";
constexpr std::chrono::minutes kPatience{10};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The lines `name<TAB>value<TAB>unit` of a text.
WorkerFigures figures_in(const std::string& text) {
  WorkerFigures figures;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, unit;
    double value = 0;
    if (std::getline(words, name, '\t') && words >> value >> unit) figures[name] = value;
  }
  return figures;
}

void wait_for(ChildProcess& process, const std::string& what) {
  const int code = process.wait(kPatience);
  if (code == 0) return;
  throw Unavailable(fmt::format("{} ended with {}: {}", what, code, process.printed()));
}

}  // namespace

WorkerFigures run_workers(const std::string& option, const WorkerSettings& settings) {
  const std::string self = std::filesystem::canonical("/proc/self/exe").string();
  std::vector<std::unique_ptr<ChildProcess>> processes;
  for (int rank = 0; rank < settings.count; ++rank) {
    std::vector<std::string> words;
    if (settings.words_before) words = settings.words_before(rank);
    words.insert(words.end(), {self, option});
    std::map<std::string, std::string> variables = settings.variables;
    variables["RANK"] = std::to_string(rank);
    variables["WORLD_SIZE"] = std::to_string(settings.count);
    variables["MASTER_ADDR"] = settings.address;
    variables["MASTER_PORT"] = kPort;
    variables["TANDEM_BENCH_TRANSPORT"] = settings.transport;
    processes.push_back(std::make_unique<ChildProcess>(words, variables));
  }
  for (size_t rank = 0; rank < processes.size(); ++rank) {
    wait_for(*processes[rank], fmt::format("tandem-bench {}, rank {},", option, rank));
  }
  return figures_in(processes[0]->printed());
}

WorkerFigures run_tasks(const std::string& option, const TaskSettings& settings) {
  const std::string self = std::filesystem::canonical("/proc/self/exe").string();
  int port = std::atoi(kPort);
  const auto addresses = [&](int count) {
    std::vector<std::string> all;
    for (int i = 0; i < count; ++i) all.push_back(fmt::format("\"127.0.0.1:{}\"", port++));
    return fmt::format("[{}]", fmt::join(all, ", "));
  };
  const std::string cluster =
      fmt::format(R"({{"chief": {}, "worker": {}, "ps": {}}})", addresses(1),
                  addresses(settings.workers), addresses(settings.servers));
  std::vector<std::unique_ptr<ChildProcess>> processes;
  const auto start = [&](const char* job, int count) {
    for (int task = 0; task < count; ++task) {
      std::map<std::string, std::string> variables = {
          {"WORLD_SIZE", std::to_string(settings.workers)}, {"TANDEM_SPIN", "0"}};
      variables["TF_CONFIG"] = fmt::format(
          R"({{"cluster": {}, "task": {{"type": "{}", "index": {}}}}})", cluster, job, task);
      processes.push_back(
          std::make_unique<ChildProcess>(std::vector<std::string>{self, option}, variables));
    }
  };
  start("chief", 1);
  start("worker", settings.workers);
  start("ps", settings.servers);
  WorkerFigures figures;
  for (const auto& process : processes) {
    wait_for(*process, "tandem-bench " + option);
    figures.merge(figures_in(process->printed()));
  }
  return figures;
}

WorkerFigures run_pair(const std::string& server, const std::string& client,
                       const std::map<std::string, std::string>& variables) {
  const std::string self = std::filesystem::canonical("/proc/self/exe").string();
  ChildProcess first({self, server}, variables);
  if (!first.prints("ready")) throw Unavailable(server + ": " + first.printed());
  ChildProcess second({self, client}, variables);
  wait_for(second, "tandem-bench " + client);
  return figures_in(second.printed());
}

int64_t roundtrip_bytes() { return std::atoll(variable("TANDEM_BENCH_BYTES").c_str()); }

WorkerFigures run_program(const std::vector<std::string>& words) {
  ChildProcess process(words);
  wait_for(process, words[0]);
  return figures_in(process.printed());
}

int worker_rank() { return std::atoi(variable("RANK").c_str()); }
int worker_count() { return std::atoi(variable("WORLD_SIZE").c_str()); }
std::string worker_transport() { return variable("TANDEM_BENCH_TRANSPORT"); }

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

}  // namespace tandem::bench

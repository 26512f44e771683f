/// Several processes: sums over them, and training with them.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "bench.h"
#include "cluster/join.h"
#include "device/logical_device.h"
#include "harness/classifier.h"
#include "harness/convnet.h"
#include "harness/host_pair.h"
#include "harness/transformer.h"
#include "support/workers.h"
#include "tandem/log.h"
#include "tensor/store.h"

namespace tandem::bench {
namespace {

/// What a benchmark's process prints of itself.
constexpr const char* kTime = "time";
constexpr const char* kLoss = "loss";

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

/// What a sum takes with Open MPI, where CMake found it: see bench/peers/openmpi_allreduce.cpp.
WorkerFigures sums_of_open_mpi(const std::string& engine) {
  const auto peer =
      std::filesystem::canonical("/proc/self/exe").parent_path() / "openmpi_allreduce";
  if (!std::filesystem::exists(peer)) return {};
  return run_program({"mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "core",
                      "-np", "2", "--mca", "pml", "ob1", "--mca", "btl", engine + ",self",
                      peer.string()});
}

/// Beginnings of a loss that all frameworks reach after as many steps.
constexpr int kLossSteps = 20;

/// Trains on one batch of all processes and prints the loss, and the best time of `loops` times
/// `steps` steps. All ranks do the same number of steps.
template <class Model>
void measure_training(const distribute::Strategy& strategy, const Model& model, const Tensor& x,
                      const Tensor& y, int loops, int steps) {
  const auto step = model.compiled_step();
  const auto xs = strategy.split(x);
  const auto ys = strategy.split(y);
  float loss = 0;
  for (int i = 0; i < kLossSteps; ++i) {
    const distribute::PerReplica losses = strategy.run(step, xs, ys);
    loss = strategy.reduce(distribute::ReduceOp::sum, losses).item<float>();
  }
  double best = 1e30;
  for (int loop = 0; loop < loops; ++loop) {
    const auto start = Clock::now();
    for (int i = 0; i < steps; ++i) strategy.run(step, xs, ys);
    best = std::min(best, seconds_since(start) / steps);
  }
  if (worker_rank() != 0) return;
  report(kLoss, loss, "loss");
  report(kTime, best * 1e6, "us");
}

/// A process of one thread.
distribute::MultiWorkerMirroredStrategy join_others(
    const distribute::CommunicationOptions& communication = {},
    distribute::Shard shard = distribute::Shard::nothing) {
  logging::set_level(logging::Level::warning);
  stay_on_core(worker_rank());
  distribute::MultiWorkerOptions options{.communication = communication, .shard = shard};
  options.communication.transport = worker_transport();
  return distribute::MultiWorkerMirroredStrategy(options);
}

constexpr int64_t kBatch = 128;

void measure_mlp(const std::vector<int64_t>& sizes, double learning_rate, int loops, int steps) {
  const auto strategy = join_others();
  const auto scope = strategy.scope();
  measure_training(strategy, harness::Classifier<float>(sizes, learning_rate),
                   harness::features<float>(kBatch), harness::labels<float>(kBatch), loops, steps);
}

/// Starts two workers and prints what the first found.
void report_training(const std::string& name, const std::string& option,
                     const std::string& transport) {
  const WorkerFigures found = run_workers(option, {.transport = transport});
  report(name + ".loss", found.at(kLoss), "loss");
  report(name, found.at(kTime), "us");
}

/// Eight dense layers of 1 MB each, and a last one. `bucket_bytes` decides when gradients travel.
void measure_eight_layers(int64_t bucket_bytes) {
  constexpr int64_t kRows = 256;
  const auto strategy = join_others({.bucket_bytes = bucket_bytes});
  const auto scope = strategy.scope();
  const std::vector<int64_t> sizes{512, 512, 512, 512, 512, 512, 512, 512, 512, 10};
  measure_training(strategy, harness::Classifier<float>(sizes, 0.0001),
                   harness::features<float>(kRows, 512), harness::labels<float>(kRows), 5, 5);
}

}  // namespace

void measure_mw_allreduce() {
  logging::set_level(logging::Level::warning);
  stay_on_core(worker_rank());
  const auto group =
      cluster::join(*cluster::cluster_from_environment(), {.transport = worker_transport()});
  const double small = median_seconds(*group, 2560, 20000);
  const double large = median_seconds(*group, 33'000'000 / 4, 40);
  if (group->rank() != 0) return;
  report("10KB", small * 1e6, "us");
  report("33MB", large * 1e6, "us");
}

void mw_allreduce() {
  for (const auto& [transport, engine] : {std::pair{"tcp", "tcp"}, {"shm", "vader"}}) {
    const WorkerFigures own = run_workers("--mw-allreduce", {.transport = transport});
    const WorkerFigures others = sums_of_open_mpi(engine);
    for (const auto& [size, time] : own) {
      const std::string name = fmt::format("mw_allreduce_{}_{}", size, transport);
      report(name + ".tandem", time, "us");
      if (others.empty()) continue;
      report(name + ".openmpi", others.at(size), "us");
      report(name, time / others.at(size), "x");
    }
  }
}

void measure_mw_mlp10() { measure_mlp({784, 10, 10}, 0.01, 30, 1000); }
void measure_mw_mlp1024() { measure_mlp({784, 1024, 1024, 10}, 0.0001, 20, 10); }

void mw_mlp10() { report_training("mw_mlp10", "--mw-mlp10", "tcp"); }

void mw_mlp1024() {
  for (const char* transport : {"tcp", "shm"}) {
    report_training(fmt::format("mw_mlp1024_{}", transport), "--mw-mlp1024", transport);
  }
}

void measure_mw_convnet() {
  const int64_t rows = 64 * worker_count();
  const auto strategy = join_others();
  const auto scope = strategy.scope();
  measure_training(strategy, harness::Convnet<float>(), harness::images<float>(rows),
                   harness::classes(rows), 20, 5);
}

void mw_convnet() {
  // A step of two workers is two batches of one: times are of one batch. Others may use the machine
  // too, so the best of several turns counts.
  double one = 1e30, two = 1e30;
  for (int turn = 0; turn < 3; ++turn) {
    one = std::min(one, run_workers("--mw-convnet", {.count = 1}).at(kTime));
    two = std::min(two, run_workers("--mw-convnet", {.count = 2}).at(kTime) / 2);
  }
  report("mw_convnet.one", one, "us");
  report("mw_convnet.two", two, "us");
  report("mw_convnet", one / two, "x");
}

namespace {

/// The bytes of a variable's value that are in memory.
double resident_bytes(const Variable& variable) {
  const StoreRange& range = variable.body()->range;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(range.data(*devices::host_device()));
  const uintptr_t end = begin + static_cast<size_t>(range.count) * size_of(variable.dtype());
  double bytes = 0;
  for (uintptr_t at = begin / page * page; at < end; at += page) {
    unsigned char is_there = 0;
    if (mincore(reinterpret_cast<void*>(at), page, &is_there) != 0 || (is_there & 1) == 0) continue;
    bytes += static_cast<double>(std::min(at + page, end) - std::max(at, begin));
  }
  return bytes;
}

}  // namespace

void measure_pp_torch() {
  constexpr int64_t kTexts = 32;
  logging::set_level(logging::Level::warning);
  stay_on_core(worker_rank());
  config::set_logical_cpus({{.threads = 1}});
  const distribute::PipelineStrategy strategy(
      {.stages = 2, .microbatches = 8, .communication = {.transport = worker_transport()}});
  const auto scope = strategy.scope();
  const auto [read, next] = harness::texts(kTexts, {});
  measure_training(strategy, harness::Transformer<float>(), read, next, 5, 3);
}

void pp_torch() { report_training("pp_torch", "--pp-torch", "tcp"); }

void measure_zero1_memory() {
  constexpr int kSteps = 3;
  const auto strategy = join_others({}, distribute::Shard::state);
  const auto scope = strategy.scope();
  const harness::Classifier<float> model({784, 1024, 1024, 10}, 0.0001);
  const auto step = model.compiled_step();
  const auto x = strategy.split(harness::features<float>(kBatch));
  const auto y = strategy.split(harness::labels<float>(kBatch));
  for (int i = 0; i < kSteps; ++i) strategy.run(step, x, y);
  double resident = 0, whole = 0;
  for (const Variable& slot : model.optimizer.variables()) {
    if (slot.shape().rank() == 0) continue;  // Its step and its rate.
    resident += resident_bytes(slot);
    whole += static_cast<double>(slot.shape().count()) * static_cast<double>(size_of(slot.dtype()));
  }
  if (worker_rank() != 0) return;
  report("resident", resident / 1e6, "MB");
  report("whole", whole / 1e6, "MB");
}

void zero1_memory() {
  const WorkerFigures found = run_workers("--zero1-memory", {.count = 4});
  report("zero1_memory.rank", found.at("resident"), "MB");
  report("zero1_memory.whole", found.at("whole"), "MB");
  report("zero1_memory", found.at("resident") / found.at("whole"), "x");
}

void measure_mw_overlapped() { measure_eight_layers(int64_t{1} << 20); }
void measure_mw_apart() { measure_eight_layers(int64_t{8} << 20); }

void mw_overlap() {
  std::unique_ptr<harness::HostPair> hosts;
  try {
    hosts = std::make_unique<harness::HostPair>();
    if (!hosts->slow_down("2gbit", "256kb")) throw Unavailable("links cannot be made slow here");
  } catch (const Unavailable& reason) {
    std::fprintf(stderr, "mw_overlap: skipped: %s\n", reason.what());
    return;
  }
  const WorkerSettings settings{
      .address = hosts->address(0),
      .variables = {{"TANDEM_INSECURE", "1"}},
      .words_before = [&](int rank) { return hosts->words_before(rank); }};
  const WorkerFigures overlapped = run_workers("--mw-overlapped", settings);
  const WorkerFigures apart = run_workers("--mw-apart", settings);
  if (std::abs(overlapped.at(kLoss) - apart.at(kLoss)) > 1e-3 * std::abs(apart.at(kLoss))) {
    throw DataLoss(fmt::format("mw_overlap: the loss is {} with overlap and {} without",
                               overlapped.at(kLoss), apart.at(kLoss)));
  }
  report("mw_overlap.overlapped", overlapped.at(kTime), "us");
  report("mw_overlap.apart", apart.at(kTime), "us");
  report("mw_overlap", overlapped.at(kTime) / apart.at(kTime), "x");
}

}  // namespace tandem::bench

/// Parameter servers as processes: a chief, workers and servers on this machine.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bench.h"
#include "cluster/service.h"
#include "distribute/server/remote_server.h"
#include "distribute/server/server_task.h"
#include "distribute/server/server_worker.h"
#include "distribute/strategy_body.h"
#include "harness/classifier.h"
#include "support/workers.h"
#include "tandem/distribute/parameter_server.h"
#include "tandem/log.h"

namespace tandem::bench {
namespace {

using distribute::ParameterServerOptions;
using distribute::ParameterServerStrategy;

constexpr const char* kTime = "time";
constexpr const char* kLoss = "loss";
constexpr int64_t kBatch = 128;

/// What all tasks do: `loops` times `steps` steps. The chief prints the best time of a step and
/// worker.
void measure_mlp(const std::vector<int64_t>& sizes, double learning_rate, int loops, int steps) {
  logging::set_level(logging::Level::warning);
  const ParameterServerStrategy strategy({.staleness = distribute::unbounded});
  const auto scope = strategy.scope();
  const harness::Classifier<float> model(sizes, learning_rate);
  const auto step = model.compiled_step();
  const auto batch =
      strategy.split(Tensors{harness::features<float>(kBatch), harness::labels<float>(kBatch)});
  distribute::ClusterCoordinator coordinator(strategy);
  // That of the first weights: what comes of later steps depends on chance.
  const Tensor loss = coordinator.schedule(step, batch).fetch()[0];
  const auto run = [&] {
    for (int i = 0; i < steps; ++i) coordinator.schedule(step, batch);
    coordinator.join();
  };
  run();
  double best = 1e30;
  for (int loop = 0; loop < loops; ++loop) {
    const auto start = Clock::now();
    run();
    best = std::min(best, seconds_since(start) / steps);
  }
  if (!strategy.is_chief()) return;
  report(kLoss, loss.item<float>(), "loss");
  report(kTime, best * worker_count() * 1e6, "us");
}

void report_training(const std::string& name, const std::string& option) {
  const WorkerFigures found = run_tasks(option, {.workers = 2, .servers = 1});
  report(name + ".loss", found.at(kLoss), "loss");
  report(name, found.at(kTime), "us");
}

/// Seconds of a row on three workers, of which the first takes five times as long. They sleep for
/// much longer than they compute: two cores, which others may use as well, then do not count.
double seconds_per_row(int64_t staleness, int64_t rows, int steps) {
  ParameterServerOptions options{.staleness = staleness};
  options.before_step = [](int worker) {
    std::this_thread::sleep_for(std::chrono::milliseconds(worker == 0 ? 60 : 12));
  };
  const ParameterServerStrategy strategy(options);
  const auto scope = strategy.scope();
  const harness::Classifier<float> model;
  const auto step = model.compiled_step();
  const auto batch =
      strategy.split(Tensors{harness::features<float>(rows), harness::labels<float>(rows)});
  distribute::ClusterCoordinator coordinator(strategy);
  double best = 1e30;
  for (int loop = 0; loop < 4; ++loop) {
    const auto start = Clock::now();
    for (int i = 0; i < steps; ++i) coordinator.schedule(step, batch);
    coordinator.join();
    if (loop > 0) best = std::min(best, seconds_since(start) / static_cast<double>(rows * steps));
  }
  return best;
}

/// A table of which each batch touches some rows.
constexpr int64_t kTableRows = 1'000'000;
constexpr int64_t kTableWidth = 64;

std::vector<int32_t> table_ids() {
  std::vector<int32_t> ids(512 * 20);
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>(harness::hashed(3, i) % static_cast<uint64_t>(kTableRows));
  }
  return ids;
}

/// A stream of frames with nothing else: when `bytes` have come, as many go back.
class Echo final : public cluster::FrameHandler {
 public:
  Echo(std::shared_ptr<cluster::FrameStream> stream, size_t bytes)
      : stream_(std::move(stream)), bytes_(bytes) {}
  void on_frame(std::string frame) override {
    here_ += frame.size();
    frames_.push_back(std::move(frame));
    if (here_ < bytes_) return;
    for (std::string& each : frames_) stream_->send(std::move(each));
    frames_.clear();
    here_ = 0;
  }
  void on_end(const std::string&) override {}

 private:
  std::shared_ptr<cluster::FrameStream> stream_;
  const size_t bytes_;
  std::vector<std::string> frames_;
  size_t here_ = 0;
};

class Arrivals final : public cluster::FrameHandler {
 public:
  void on_frame(std::string frame) override {
    const std::lock_guard lock(mutex_);
    bytes_ += frame.size();
    changed_.notify_all();
  }
  void on_end(const std::string&) override {}
  void wait_for(size_t bytes) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return bytes_ >= bytes; });
    bytes_ -= bytes;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t bytes_ = 0;
};

/// The bytes there and back, in frames as large as they may be.
std::function<void()> bare_stream(const std::string& address, size_t bytes) {
  auto arrivals = std::make_shared<Arrivals>();
  std::string error;
  const auto stream = cluster::frame_plugin().connect(address, {}, arrivals, error);
  return [arrivals, stream, bytes] {
    for (size_t sent = 0; sent < bytes;) {
      const size_t count = std::min(bytes - sent, cluster::kMostFrameBytes);
      stream->send(std::string(count, 'x'));
      sent += count;
    }
    arrivals->wait_for(bytes);
  };
}

/// One variable, which a server updates by plain descent.
class RoundtripModel {
 public:
  explicit RoundtripModel(int64_t bytes)
      : strategy_({.workers = 1}),
        scope_(strategy_.scope()),
        variable_(zeros({bytes / 4}), {.name = "variable"}),
        sgd_(0.001),
        step_([this](const Tensors& arguments) {
          GradientTape tape;
          const Tensor loss = reduce_sum(variable_.value()) + reduce_sum(arguments[0]);
          const Variables variables = {variable_};
          sgd_.apply_gradients(tape.gradient(loss, variables), variables);
          return Tensors();
        }),
        server_step_(step_, 1),
        worker_(strategy_, {.device = strategy_.body().devices()[0],
                            .owner = strategy_.body().targets().owner}) {
    worker_.compile(server_step_, strategy_.split(Tensors{ones({1})}));
    servers_ = distribute::make_servers(strategy_, server_step_, {}, 1, strategy_.body().devices());
  }
  distribute::RangeServer& server() { return *servers_[0]; }

 private:
  const ParameterServerStrategy strategy_;
  const distribute::Strategy::Scope scope_;
  const Variable variable_;
  const keras::optimizers::SGD sgd_;
  const FlatFunction step_;
  distribute::ServerStep server_step_;
  distribute::ServerWorker worker_;
  std::vector<std::unique_ptr<distribute::RangeServer>> servers_;
};

constexpr int kPorts[] = {29481, 29482};

distribute::ServerCluster roundtrip_cluster(const std::string& job) {
  distribute::ServerCluster cluster;
  cluster.config.spec = train::ClusterSpec({{"chief", {"127.0.0.1:29480"}},
                                            {"worker", {"127.0.0.1:29483"}},
                                            {"ps", {fmt::format("127.0.0.1:{}", kPorts[0])}}});
  cluster.config.job = job;
  cluster.service.cluster = "roundtrip";
  cluster.patience = std::chrono::seconds(60);
  return cluster;
}

constexpr uint64_t kChief = 1;

/// A push, on whose answer the values come.
std::function<void()> exchange_with_server(distribute::RemoteServer& server, int64_t bytes) {
  auto gradient = std::make_shared<std::vector<float>>(static_cast<size_t>(bytes / 4));
  auto values = std::make_shared<std::vector<float>>(gradient->size());
  auto ticket = std::make_shared<int64_t>(0);
  return [&server, gradient, values, ticket] {
    void* const to[] = {values->data()};
    server.start_push({.worker = 0, .incarnation = 1, .sequence = *ticket, .ticket = *ticket},
                      {.pieces = {gradient->data()}, .conditions = {true}, .owner = gradient}, {},
                      to);
    ++*ticket;
    server.finish_push();
    server.start_pull({}, {}, to);
    server.finish_pull();
  };
}

}  // namespace

void measure_ps_mlp10() { measure_mlp({784, 10, 10}, 0.001, 10, 400); }
void measure_ps_mlp1024() { measure_mlp({784, 1024, 1024, 10}, 0.0001, 5, 20); }
void ps_mlp10() { report_training("ps_mlp10", "--ps-mlp10"); }
void ps_mlp1024() { report_training("ps_mlp1024", "--ps-mlp1024"); }

/// The worker reports the bytes that it sends and receives in a step.
void measure_ps_embedding() {
  logging::set_level(logging::Level::warning);
  std::vector<uint64_t> moved;  // Before each step.
  ParameterServerOptions options{.staleness = distribute::unbounded};
  options.before_step = [&](int) { moved.push_back(cluster::service_bytes()); };
  const ParameterServerStrategy strategy(options);
  const auto scope = strategy.scope();
  const Variable table(zeros({kTableRows, kTableWidth}), {.name = "table"});
  const keras::optimizers::SGD sgd(0.01);
  const auto step = function([&](const Tensor& ids) {
    GradientTape tape;
    const Tensor loss = reduce_mean(square(gather(table.value(), ids) - 1.0));
    const Variables variables = {table};
    sgd.apply_gradients(tape.gradient(loss, variables), variables);
  });
  distribute::ClusterCoordinator coordinator(strategy);
  const auto batch = strategy.split(Tensors{Tensor::from(table_ids(), {512, 20})});
  for (int i = 0; i < 6; ++i) coordinator.schedule(step, batch);
  coordinator.join();
  if (moved.size() < 3) return;
  report("bytes",
         static_cast<double>(moved.back() - moved[1]) / static_cast<double>(moved.size() - 2), "B");
}

void ps_embedding() {
  std::vector<int32_t> ids = table_ids();
  std::ranges::sort(ids);
  const auto rows = static_cast<double>(std::ranges::unique(ids).begin() - ids.begin());
  const double touched = 2 * rows * kTableWidth * sizeof(float);  // There and back.
  const double moved = run_tasks("--ps-embedding", {.workers = 1, .servers = 1}).at("bytes");
  report("ps_embedding.moved", moved, "B");
  report("ps_embedding.touched", touched, "B");
  report("ps_embedding", moved / touched, "x");
}

void measure_ps_straggler() {
  logging::set_level(logging::Level::warning);
  // A share of a batch has as many rows as a batch of one's own.
  const double unbounded = seconds_per_row(distribute::unbounded, 32, 120);
  const double in_step = seconds_per_row(0, 96, 10);
  report("unbounded", unbounded * 1e6, "us");
  report("in_step", in_step * 1e6, "us");
}

void ps_straggler() {
  const WorkerFigures found = run_tasks("--ps-straggler", {.workers = 3, .servers = 1});
  report("ps_straggler.in_step", found.at("in_step"), "us");
  report("ps_straggler.unbounded", found.at("unbounded"), "us");
  report("ps_straggler", found.at("in_step") / found.at("unbounded"), "x");
}

/// The process that answers, until somebody ends it.
void serve_ps_roundtrip() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  stay_on_core(1);
  const int64_t bytes = roundtrip_bytes();
  RoundtripModel model(bytes);
  const auto task = std::make_shared<distribute::ServerTask>();
  task->open(model.server(), 0);
  const distribute::ServerCluster cluster = roundtrip_cluster("ps");
  const cluster::ServiceHost host(cluster.own_address(), cluster.service, task);
  std::string error;
  const auto echo = cluster::frame_plugin().listen(
      fmt::format("127.0.0.1:{}", kPorts[1]), {},
      [bytes](const std::shared_ptr<cluster::FrameStream>& stream) {
        return std::make_shared<Echo>(stream, static_cast<size_t>(bytes));
      },
      error);
  std::printf("ready\n");
  std::fflush(stdout);
  for (;;) pause();
}

void measure_ps_roundtrip() {
  stay_on_core(0);
  const int64_t bytes = roundtrip_bytes();
  RoundtripModel model(bytes);
  const distribute::ServerCluster cluster = roundtrip_cluster("worker");
  distribute::PatientLine chief(cluster, "ps", 0);
  distribute::MessageWriter write = distribute::question_of(distribute::ServerQuestion::write, 0);
  write.add(kChief).add(uint64_t{0}).add_text(distribute::UpdateLedger({}).save()).add(int64_t{0});
  write.add_list(std::vector<int64_t>{0}).add_list(std::vector<uint64_t>()).add(true);
  chief.answer_to(write.take());
  distribute::RemoteServer server(cluster, 0, model.server(), 0, false);
  server.set_chief(kChief);
  const auto best = best_by_turns(
      exchange_with_server(server, bytes),
      bare_stream(fmt::format("127.0.0.1:{}", kPorts[1]), static_cast<size_t>(bytes)), 5);
  report("tandem", best.first * 1e6, "us");
  report("stream", best.second * 1e6, "us");
}

void ps_roundtrip() {
  for (const auto& [size, bytes] : {std::pair{"40KB", "40960"}, {"4MB", "4194304"}}) {
    const WorkerFigures found =
        run_pair("--ps-roundtrip-server", "--ps-roundtrip", {{"TANDEM_BENCH_BYTES", bytes}});
    const std::string name = fmt::format("ps_roundtrip_{}", size);
    report(name + ".tandem", found.at("tandem"), "us");
    report(name + ".stream", found.at("stream"), "us");
    report(name, found.at("tandem") / found.at("stream"), "x");
  }
}

}  // namespace tandem::bench

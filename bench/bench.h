/// What the benchmarks share: timing, and the lines they print.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>

namespace tandem::bench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Seconds of one call: the best of `repetitions` loops of about `loop_seconds` each, after a
/// warm-up.
template <class F>
double best_seconds(F call, int repetitions = 10, double loop_seconds = 0.05) {
  call();
  const auto warm = Clock::now();
  int calls = 0;
  while (seconds_since(warm) < loop_seconds) {
    call();
    ++calls;
  }
  double best = 1e30;
  for (int r = 0; r < repetitions; ++r) {
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    best = std::min(best, seconds_since(start) / calls);
  }
  return best;
}

/// One figure: "name<TAB>value<TAB>unit".
inline void report(const std::string& name, double value, const char* unit) {
  std::printf("%s\t%.9g\t%s\n", name.c_str(), value, unit);
  std::fflush(stdout);
}

/// Seconds of a call of each of two, the best of many short loops taken by turns. Where others use
/// a machine's cores too, one core is often slower than the other, and only the best moments show
/// what two can do: that takes many loops, and short ones.
template <class First, class Second>
std::pair<double, double> best_by_turns(const First& first, const Second& second,
                                        double seconds = 20) {
  constexpr double kLoopSeconds = 0.003;
  const auto calls_in_loop = [](const auto& call) {
    return std::max(1, static_cast<int>(kLoopSeconds / best_seconds(call, 3, kLoopSeconds)));
  };
  const auto seconds_of = [](const auto& call, int calls) {
    if (calls > 1) call();  // Wakes the threads that the other's turn left to sleep.
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    return seconds_since(start) / calls;
  };
  const int first_calls = calls_in_loop(first);
  const int second_calls = calls_in_loop(second);
  std::pair<double, double> best{1e30, 1e30};
  for (const auto start = Clock::now(); seconds_since(start) < seconds;) {
    best.first = std::min(best.first, seconds_of(first, first_calls));
    best.second = std::min(best.second, seconds_of(second, second_calls));
  }
  return best;
}

/// Prints two times measured by turns and the first over the second, which is the benchmark's
/// figure.
template <class First, class Second>
void report_quotient(const std::string& name, const char* first_name, const First& first,
                     const char* second_name, const Second& second) {
  const auto best = best_by_turns(first, second);
  report(name + "." + first_name, best.first * 1e6, "us");
  report(name + "." + second_name, best.second * 1e6, "us");
  report(name, best.first / best.second, "x");
}

/// A benchmark by name; the table is in main.cpp.
struct Benchmark {
  const char* name;
  const char* what;
  std::function<void()> run;
};

void mlp10();
void mlp1024();
void convnet();
void mirrored_mlp1024();
void gpt_block();
void peak_memory();
void seed_mirrored();

/// The small classifier: two replicas of one thread against one, and four against two, on two
/// cores.
void mirrored_gain();
void oversubscribed();

/// Throughput of the convnet with 64 rows each: two replicas of one thread against one.
void mirrored_scaling();

/// CentralStorageStrategy against MirroredStrategy: mlp1024 on two logical CPUs.
void central_overhead();

/// The GPT on 32 texts: two stages of one thread in 8 micro-batches against one thread; on 8 texts
/// in 4 micro-batches against whole.
void pp_gpt();
void micro_overhead();

/// A GPT of layers on 8 texts, whose weights are cut over two logical CPUs of one thread, against
/// one.
void tp_gpt();
void shard_memory();

/// The error of distribute::plan on a step of that GPT, on one CPU and on two in three ways.
void plan_error();

void eager_add();
void local_allreduce();
void startup();
void reduce_sum_16M();
void reduce_rows();
void transpose_4096();
void gather_rows();

/// One function of single elements, called eagerly on all cores.
void elementwise(const std::string& function);
void matmul4096();
void conv_3x3_32_64();
void conv_first();
void conv_1x1_256();
void conv_depthwise();
void pool_max();
void pool_avg();
void norm_batch();
void norm_layer();
void softmax_1024();
void softmax_10();
void random_normal_16M();
void random_uniform_16M();
void dropout_16M();
void ckpt_save();
void ckpt_restore();
void input();
void seed_fit();

/// The same under MirroredStrategy on two logical CPUs.
void mirrored_fit();
void convnet_fit();
void inception();

/// Training steps while another process spins.
void busy_mlp10();
void busy_seed_fit();
void busy_gpt();

/// One row: calls from two threads of an application against one, and an eager call.
void infer_threads();
void infer_eager();

/// On an OpenCL device.
void gpu_mlp10();
void gpu_mlp1024();
void gpu_matmul1024();
void gpu_convnet();
void gpu_gpt_block();
void gpu_issue();
void gpu_overlap();
void gpu_first_step();

/// What the process of gpu_first_step does.
void measure_gpu_first_step();

/// Sums over two processes, each on a core of its own; beside Open MPI's where it is installed.
void mw_allreduce();

/// Training with two workers of one thread: small and large dense layers.
void mw_mlp10();
void mw_mlp1024();

/// Throughput of the convnet with 64 rows each: two workers of one thread against one.
void mw_convnet();

/// Sums of gradients behind the backward pass, over a link of 2 Gbit/s, against sums after it. It
/// is skipped where such a link cannot be made.
void mw_overlap();

/// A step of the small GPT on 32 texts, 8 micro-batches through two processes of one thread.
void pp_torch();

/// What each of four processes keeps in memory of Adam's state of mlp1024, of all of it.
void zero1_memory();

/// What the processes of these do.
void measure_mw_allreduce();
void measure_mw_mlp10();
void measure_mw_mlp1024();
void measure_mw_convnet();
void measure_mw_overlapped();
void measure_mw_apart();
void measure_zero1_memory();
void measure_pp_torch();

/// Parameter servers as processes: two workers and a server, per step and worker; a push and a pull
/// against a bare stream of the same bytes; the bytes moved of a table against those of the rows
/// touched; three workers, one of them slow, unbounded against in step.
void ps_mlp10();
void ps_mlp1024();
void ps_roundtrip();
void ps_embedding();
void ps_straggler();

/// What the processes of these do.
void measure_ps_mlp10();
void measure_ps_mlp1024();
void measure_ps_embedding();
void measure_ps_straggler();
void measure_ps_roundtrip();
void serve_ps_roundtrip();

void first_step();

/// What the processes of `first_step` do.
void measure_first_mlp10();
void measure_first_convnet();
void measure_first_gpt();

/// What the process of `startup` does.
void train_one_step();

/// What the process of `peak_memory` does.
void measure_peak_memory();

}  // namespace tandem::bench

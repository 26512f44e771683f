/// What the benchmarks share: timing, and the lines they print.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>

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
void mirrored_gain();

/// Throughput of the convnet with 64 rows each: two replicas of one thread against one.
void mirrored_scaling();

/// CentralStorageStrategy against MirroredStrategy: mlp1024 on two logical CPUs.
void central_overhead();
void oversubscribed();
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

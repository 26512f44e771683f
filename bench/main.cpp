/// tandem-bench NAME...: prints one line `name<TAB>value<TAB>unit` per figure; without names, all
/// of them. With --help it lists the benchmarks.
#include <cstring>
#include <exception>
#include <vector>

#include "bench.h"
#include "support/process.h"

namespace tandem::bench {
namespace {

const std::vector<Benchmark>& benchmarks() {
  static const std::vector<Benchmark> all = {
      {"mlp10", "784-10-10, Adam, batch 128: a whole compiled step on one batch", mlp10},
      {"mlp1024", "784-1024-1024-10, the same", mlp1024},
      {"convnet", "conv32-pool-conv64-pool-dense on 28x28, Adam, batch 128: the same", convnet},
      {"gpt_block", "a 4-layer GPT of width 256, 8 texts of 128 tokens, AdamW: a compiled step",
       gpt_block},
      {"peak_memory", "the memory that gpt_block takes, in a process of its own", peak_memory},
      {"seed_mirrored", "mlp10 on two replicas, streaming 60,000 x 784", seed_mirrored},
      {"mirrored_mlp1024", "mlp1024 on two replicas", mirrored_mlp1024},
      {"mirrored_gain", "mlp10 on two replicas of one thread against one", mirrored_gain},
      {"mirrored_scaling", "convnet, 64 rows each: throughput of two replicas against one",
       mirrored_scaling},
      {"central_overhead", "mlp1024: CentralStorageStrategy against MirroredStrategy",
       central_overhead},
      {"pp_gpt", "gpt_block on 32 texts, two stages of one thread against one thread", pp_gpt},
      {"tp_gpt", "a GPT whose weights are cut over two CPUs of one thread against one", tp_gpt},
      {"plan_error", "planned over measured steps of that GPT, on one CPU and on two", plan_error},
      {"shard_memory", "the fullest of 4 CPUs with parts of mlp1024's state, against one with all",
       shard_memory},
      {"micro_overhead", "gpt_block in 4 micro-batches against whole, and the memory of both",
       micro_overhead},
      {"oversubscribed", "mlp10 on four logical CPUs against two", oversubscribed},
      {"eager_add", "a small eager add", eager_add},
      {"local_allreduce", "all_reduce between two replicas, 10 KB and 33 MB", local_allreduce},
      {"elementwise_add", "a sum, 64K and 16M elements, eager", [] { elementwise("add"); }},
      {"elementwise_broadcast_add", "the sum of a matrix and a row, 64K and 16M elements, eager",
       [] { elementwise("broadcast_add"); }},
      {"elementwise_where", "a choice, 64K and 16M elements, eager", [] { elementwise("where"); }},
      {"elementwise_exp", "the exponential, 64K and 16M elements, eager",
       [] { elementwise("exp"); }},
      {"elementwise_tanh", "the hyperbolic tangent, 64K and 16M elements, eager",
       [] { elementwise("tanh"); }},
      {"elementwise_gelu", "gelu, 64K and 16M elements, eager", [] { elementwise("gelu"); }},
      {"reduce_sum_16M", "the sum of 16M floats", reduce_sum_16M},
      {"reduce_rows_4096x4096", "the sum of each row", reduce_rows},
      {"transpose_4096", "a transposed matrix of 4096 x 4096", transpose_4096},
      {"gather_rows", "64K rows out of a table of 1M x 64", gather_rows},
      {"matmul4096", "a product of two matrices of 4096 x 4096", matmul4096},
      {"conv_3x3_32_64", "convolution of 128 x 13 x 13, forward and training", conv_3x3_32_64},
      {"conv_first", "3x3 convolution of 128 x 28 x 28, 1 to 32 channels", conv_first},
      {"conv_1x1_256", "1x1 convolution of 32 x 14 x 14, 256 channels", conv_1x1_256},
      {"conv_depthwise", "3x3 depthwise convolution of 32 x 28 x 28, 128 channels", conv_depthwise},
      {"pool_max", "max pooling of 128 x 26 x 26, 32 channels", pool_max},
      {"pool_avg", "average pooling of the same", pool_avg},
      {"norm_batch", "batch normalisation of the same", norm_batch},
      {"norm_layer", "layer normalisation of 8192 x 512", norm_layer},
      {"softmax_1024", "softmax of 8192 x 1024", softmax_1024},
      {"softmax_10", "softmax of 8192 x 10", softmax_10},
      {"random_normal_16M", "16M normal numbers", random_normal_16M},
      {"random_uniform_16M", "16M uniform numbers", random_uniform_16M},
      {"dropout_16M", "16M floats, a tenth of them dropped", dropout_16M},
      {"ckpt_save", "a checkpoint of 256 MB, until it is on the disk", ckpt_save},
      {"ckpt_restore", "the same, restored", ckpt_restore},
      {"input", "a sample of Fashion-MNIST: shuffle, batch 128, prefetch", input},
      {"mirrored_fit", "the same as seed_fit on two replicas", mirrored_fit},
      {"seed_fit", "`fit` of mlp10 on 60,000 x 784, shuffled, with accuracy: per step", seed_fit},
      {"convnet_fit", "`fit` of the convnet, the same", convnet_fit},
      {"inception", "InceptionV3 on 8 images of 299x299, Adam: a compiled step", inception},
      {"busy_mlp10", "mlp10 while another process spins: the median step", busy_mlp10},
      {"busy_seed_fit", "seed_fit while another process spins: the median epoch, per step",
       busy_seed_fit},
      {"busy_gpt", "gpt_block while another process spins: the median step", busy_gpt},
      {"infer_threads", "784-256-10, one row: calls of two threads against those of one",
       infer_threads},
      {"infer_eager", "784-64-10, one row, op by op", infer_eager},
      {"gpu_mlp10", "mlp10 on OpenCL against the same step written by hand", gpu_mlp10},
      {"gpu_mlp1024", "mlp1024 on OpenCL, the same", gpu_mlp1024},
      {"gpu_matmul1024", "a product of 1024 x 1024 on OpenCL against CLBlast", gpu_matmul1024},
      {"gpu_convnet", "convnet on OpenCL against our CPU", gpu_convnet},
      {"gpu_gpt_block", "gpt_block on OpenCL, the same", gpu_gpt_block},
      {"gpu_issue", "the host's time for an instruction of a step on OpenCL", gpu_issue},
      {"gpu_overlap", "sums of gradients that two OpenCL devices hide behind the backward pass",
       gpu_overlap},
      {"gpu_first_step", "mlp10 on OpenCL, a process from start to end", gpu_first_step},
      {"mw_allreduce", "a sum over two processes, 10 KB and 33 MB, over TCP and shared memory",
       mw_allreduce},
      {"mw_mlp10", "mlp10 on two workers of one thread, over TCP", mw_mlp10},
      {"mw_mlp1024", "mlp1024 on two workers of one thread, over TCP and shared memory",
       mw_mlp1024},
      {"mw_convnet", "convnet, 64 rows each: throughput of two workers against one", mw_convnet},
      {"mw_overlap", "eight layers of 1 MB over a link of 2 Gbit/s: sums behind the backward pass",
       mw_overlap},
      {"pp_torch", "gpt_block on 32 texts, two stages in two processes: a step", pp_torch},
      {"zero1_memory", "Adam's state of mlp1024 that each of 4 processes keeps, of all of it",
       zero1_memory},
      {"ps_mlp10", "mlp10 on two workers and a parameter server, unbounded, per step and worker",
       ps_mlp10},
      {"ps_mlp1024", "mlp1024, the same", ps_mlp1024},
      {"ps_roundtrip", "a push and a pull of 40 KB and of 4 MB against a bare gRPC stream",
       ps_roundtrip},
      {"ps_embedding",
       "1M x 64, batch 512 of 20 ids: bytes moved in a step against the rows touched",
       ps_embedding},
      {"ps_straggler", "three workers, one five times slower: throughput unbounded against in step",
       ps_straggler},
      {"first_step", "the first call of mlp10, convnet and gpt_block: trace, compile, run",
       first_step},
      {"startup", "a process that trains one step of mlp10, from start to end", startup},
  };
  return all;
}

void list_benchmarks(std::FILE* file) {
  for (const Benchmark& benchmark : benchmarks()) {
    std::fprintf(file, "  %-26s %s\n", benchmark.name, benchmark.what);
  }
}

int help() {
  std::printf(
      "tandem-bench [NAME...]: measures the benchmarks of these names, or all, and prints a line\n"
      "`name<TAB>value<TAB>unit` for each figure. The benchmarks:\n");
  list_benchmarks(stdout);
  return 0;
}

int refuse(const char* unknown) {
  std::fprintf(stderr, "tandem-bench: there is no benchmark '%s'; there are:\n", unknown);
  list_benchmarks(stderr);
  return 2;
}

int run(int count, char** names) {
  // What the benchmarks that need a process of their own run in it.
  const std::pair<const char*, void (*)()> inner[] = {
      {"--train-one-step", train_one_step},
      {"--measure-peak-memory", measure_peak_memory},
      {"--first-step-mlp10", measure_first_mlp10},
      {"--first-step-convnet", measure_first_convnet},
      {"--first-step-gpt", measure_first_gpt},
      {"--spin", spin},
      {"--gpu-first-step", measure_gpu_first_step},
      {"--mw-allreduce", measure_mw_allreduce},
      {"--mw-mlp10", measure_mw_mlp10},
      {"--mw-mlp1024", measure_mw_mlp1024},
      {"--mw-convnet", measure_mw_convnet},
      {"--mw-overlapped", measure_mw_overlapped},
      {"--mw-apart", measure_mw_apart},
      {"--zero1-memory", measure_zero1_memory},
      {"--pp-torch", measure_pp_torch},
      {"--ps-mlp10", measure_ps_mlp10},
      {"--ps-mlp1024", measure_ps_mlp1024},
      {"--ps-straggler", measure_ps_straggler},
      {"--ps-embedding", measure_ps_embedding},
      {"--ps-roundtrip", measure_ps_roundtrip},
      {"--ps-roundtrip-server", serve_ps_roundtrip},
  };
  for (const auto& [option, measure] : inner) {
    if (count != 2 || std::strcmp(names[1], option) != 0) continue;
    measure();
    return 0;
  }
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(names[i], "--help") == 0 || std::strcmp(names[i], "-h") == 0) return help();
  }
  std::vector<const Benchmark*> chosen;
  for (int i = 1; i < count; ++i) {
    const auto found = std::ranges::find_if(
        benchmarks(), [&](const Benchmark& b) { return std::strcmp(b.name, names[i]) == 0; });
    if (found == benchmarks().end()) return refuse(names[i]);
    chosen.push_back(&*found);
  }
  if (chosen.empty()) {
    for (const Benchmark& benchmark : benchmarks()) chosen.push_back(&benchmark);
  }
  for (const Benchmark* benchmark : chosen) benchmark->run();
  return 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int count, char** names) {
  try {
    return tandem::bench::run(count, names);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tandem-bench: %s\n", error.what());
    return 1;
  }
}

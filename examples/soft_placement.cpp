/// Soft placement: a GPU has no kernels for int32 variables. One there is refused with the reason;
/// with soft placement it falls back to the CPU.
#include "program.h"

namespace td = tandem;
using td::Tensor;

int main(int count, char** words) {
  example::Flags flags("Places a variable on a GPU that refuses it, then lets it fall back",
                       "Where there is no GPU: soft_placement --opencl-cpu 1, with PoCL installed, "
                       "or --test-gpus 1");
  example::Gpus gpus;
  gpus.add_to(flags);
  return flags.run(count, words, [&] {
    gpus.configure();
    td::config::set_log_device_placement(true);
    const td::Variable a_cpu = [] {
      const auto scope = td::device("/cpu:0");
      return td::Variable(Tensor(0), {.name = "a_cpu"});
    }();

    const auto scope = td::device("/gpu:0");
    const td::Variable b_gpu(Tensor(0.0f), {.name = "b_gpu"});
    try {
      const td::Variable a_gpu(Tensor(0), {.name = "a_gpu"});
    } catch (const td::NotFound& error) {
      std::printf("refused: %s\n", error.what());
    }

    td::config::set_soft_device_placement(true);
    const td::Variable a_gpu(Tensor(0), {.name = "a_gpu"});
    a_gpu.assign_add(Tensor(1));
    std::printf("a_gpu = %d on %s\n", a_gpu.value().item<int>(), a_gpu.value().device().c_str());
    std::printf("a_cpu + b_gpu = %f\n",
                (td::cast(a_cpu, td::DType::float32) + b_gpu).item<float>());
  });
}

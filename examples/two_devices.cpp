/// Ops on two GPUs: a product on each; their sum needs one of them to be copied.
#include "program.h"

namespace td = tandem;
using td::Tensor;

int main(int count, char** words) {
  example::Flags flags("Multiplies matrices on two GPUs, adds them, and reports what was copied",
                       "Where there are no two GPUs: two_devices --opencl-cpu 2, with PoCL "
                       "installed, or --test-gpus 2");
  example::DeviceSetup placement;
  placement.add_to(flags);
  int64_t size = 500;
  flags.add("--size", size, "Rows and columns of the matrices");
  return flags.run(count, words, [&] {
    placement.configure();
    Tensor b;
    Tensor d;
    {
      const auto scope = td::device("/gpu:0");
      const Tensor a = td::random_normal({size, size});
      b = td::matmul(a, a);
    }
    {
      const auto scope = td::device("/gpu:1");
      const Tensor c = td::random_normal({size, size});
      d = td::matmul(c, c);
    }
    const Tensor e = b + d;  // Default placement puts it on the first device.
    std::printf("mean of the sum, computed on %s: %f\n", e.device().c_str(),
                td::reduce_mean(e).item<float>());
    example::print_reports();
  });
}

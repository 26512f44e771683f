/// Device scopes: what is inside one runs on its device; other GPUs stay idle.
#include "program.h"

namespace td = tandem;
using td::Tensor;

int main(int count, char** words) {
  example::Flags flags(
      "Multiplies a matrix on the first GPU and reports what ran where",
      "Where there is no GPU: device_scope --opencl-cpu 1, with PoCL installed, or --test-gpus 1");
  example::DeviceSetup placement;
  placement.add_to(flags);
  int64_t size = 1000;
  flags.add("--size", size, "Rows and columns of the matrix");
  return flags.run(count, words, [&] {
    placement.configure();
    {
      const auto scope = td::device("/gpu:0");
      const Tensor a = td::random_normal({size, size});
      const Tensor b = td::matmul(a, a);
      std::printf("mean of the product: %f\n", td::reduce_mean(b).item<float>());
    }
    example::print_reports();
  });
}

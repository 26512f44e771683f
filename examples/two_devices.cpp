/// Article 002, example 2: two products on two GPUs; their sum needs one of them to be copied.
///
///   two_devices [--size 500] [--test-gpus 2] [--soft-placement]
#include "program.h"

namespace td = tandem;
using td::Tensor;

int main(int count, char** words) {
  return example::run([&] {
    example::configure(count, words);
    const int64_t size = example::flag(count, words, "--size", 500);
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
    const Tensor e = b + d;  // Where default placement says: on the first device.
    std::printf("mean of the sum, computed on %s: %f\n", e.device().c_str(),
                td::reduce_mean(e).item<float>());
    example::print_reports();
  });
}

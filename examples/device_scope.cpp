/// Article 002, example 1: what is inside a scope runs on its device; other GPUs stay idle.
///
///   device_scope [--size 1000] [--test-gpus 1] [--soft-placement]
#include "program.h"

namespace td = tandem;
using td::Tensor;

int main(int count, char** words) {
  return example::run([&] {
    example::configure(count, words);
    const int64_t size = example::flag(count, words, "--size", 1000);
    {
      const auto scope = td::device("/gpu:0");
      const Tensor a = td::random_normal({size, size});
      const Tensor b = td::matmul(a, a);
      std::printf("mean of the product: %f\n", td::reduce_mean(b).item<float>());
    }
    example::print_reports();
  });
}

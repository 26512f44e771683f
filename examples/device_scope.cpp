/// Article 002, example 1: what is inside a scope runs on its device; other GPUs stay idle.
///
///   device_scope [--size 1000] [--test-gpus 1] [--soft-placement]
#include "program.h"

using namespace tandem;  // NOLINT: an example

int main(int count, char** words) {
  return example::run([&] {
    example::configure(count, words);
    const int64_t size = example::flag(count, words, "--size", 1000);
    {
      const auto scope = device("/gpu:0");
      const Tensor a = random_normal({size, size});
      const Tensor b = matmul(a, a);
      std::printf("mean of the product: %f\n", reduce_mean(b).item<float>());
    }
    example::print_reports();
  });
}

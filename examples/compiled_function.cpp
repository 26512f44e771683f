/// A compiled function with a loop, a branch and a device of its own inside, and what it looks like
/// to the machine.
#include "program.h"

namespace td = tandem;
using td::Tensor;

namespace {

/// The square root by Newton's method, as many iterations as it takes.
Tensor square_root(const Tensor& x) {
  return td::while_loop(
      [&](const Tensor& root) { return td::reduce_max(td::abs(root * root - x)) > 1e-4; },
      [&](const Tensor& root) { return (root + x / root) / 2; }, x, {.maximum_iterations = 50});
}

/// A gradient that is scaled down only where it is long.
Tensor clipped(const Tensor& gradient) {
  const Tensor norm = square_root(td::reshape(td::reduce_sum(gradient * gradient), {1}));
  return td::cond(
      td::reduce_max(norm) > 1, [&] { return gradient / norm; }, [&] { return gradient; });
}

}  // namespace

int main(int count, char** words) {
  example::Flags flags("Compiles a function with a loop and a branch, runs it and explains it");
  int gpus = 0;
  flags.add("--test-gpus", gpus, "Make so many GPUs, which compute on the CPU, and use the first",
            0);
  return flags.run(count, words, [&] {
    for (int i = 0; i < gpus; ++i) td::config::add_test_device();

    const auto step = td::function([&](const Tensor& x) {
      td::GradientTape tape;
      tape.watch(x);
      Tensor loss;
      {
        const auto scope = td::device(gpus > 0 ? "/GPU:0" : "/CPU:0");
        loss = td::reduce_sum(x * x * x);
      }
      return clipped(tape.gradient(loss, x));
    });

    std::printf("long:  %s\n", step(Tensor::from<float>({1, 2, 2}, {3})).str().c_str());
    std::printf("short: %s\n", step(Tensor::from<float>({0.1f, 0.2f, 0.2f}, {3})).str().c_str());
    std::printf("traced %d time\n\n%s", step.trace_count(), step.explain().c_str());
    for (const auto& device : step.memory_plan(3).devices) {
      std::printf("%s takes %zu bytes\n", device.name.c_str(), device.bytes());
    }
  });
}

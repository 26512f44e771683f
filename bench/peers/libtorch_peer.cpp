/// Times libtorch, PyTorch's C++ library, on benchmarks of tandem-bench: `libtorch_peer --threads N
/// NAME...`. Data and weights are those of bench/peers/data.py.
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

double uniform(uint64_t seed, uint64_t i) {
  uint64_t z = seed * 0x9E3779B97F4A7C15u + (i + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return static_cast<double>((z ^ (z >> 31)) >> 40) * 0x1p-24;
}

torch::Tensor row() {
  std::vector<float> values(784);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(uniform(1, i));
  return torch::tensor(values).reshape({1, 784});
}

torch::nn::Linear dense(uint64_t layer, int64_t in, int64_t out) {
  std::vector<float> kernel(static_cast<size_t>(in * out));
  const double limit = std::sqrt(6.0 / static_cast<double>(in + out));
  for (size_t i = 0; i < kernel.size(); ++i) {
    kernel[i] = static_cast<float>((2 * uniform(10 + layer, i) - 1) * limit);
  }
  torch::nn::Linear result(in, out);
  const torch::NoGradGuard unrecorded;
  result->weight.copy_(torch::tensor(kernel).reshape({in, out}).t());
  result->bias.zero_();
  return result;
}

/// Seconds of a call: the best of loops of at least 0.3 s, as in data.py.
template <class F>
double best_seconds(const F& call) {
  using Clock = std::chrono::steady_clock;
  double best = 1e30;
  for (int64_t calls = 1, repetitions = 0; repetitions < 5;) {
    const auto start = Clock::now();
    for (int64_t i = 0; i < calls; ++i) call();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (seconds < 0.3) {
      calls *= 2;
      continue;
    }
    best = std::min(best, seconds / static_cast<double>(calls));
    ++repetitions;
  }
  return best;
}

/// 784-64-10, one row, as a chain of modules and as calls of them. In the place of a loss stands
/// the sum of the scores.
void infer_eager() {
  const c10::InferenceMode inference;
  torch::nn::Linear first = dense(0, 784, 64);
  torch::nn::Linear second = dense(1, 64, 10);
  torch::nn::Sequential chain(first, torch::nn::ReLU(), second);
  const torch::Tensor x = row();
  const double loss = chain->forward(x).sum().item<float>();
  const double seconds =
      std::min(best_seconds([&] { chain->forward(x); }),
               best_seconds([&] { second->forward(torch::relu(first->forward(x))); }));
  std::printf("infer_eager\t%.9g\tus\ninfer_eager.loss\t%.9g\tloss\n", seconds * 1e6, loss);
}

}  // namespace

int main(int count, char** words) {
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(words[i], "--threads") == 0 && i + 1 < count) {
      at::set_num_threads(std::atoi(words[++i]));
    } else if (std::strcmp(words[i], "infer_eager") == 0) {
      infer_eager();
    } else {
      std::fprintf(stderr, "libtorch_peer: there is no benchmark '%s'; there is infer_eager\n",
                   words[i]);
      return 2;
    }
  }
}

// Uses an installed Tandem as a stranger would: trains on two devices through the public headers
// alone, and catches an exception thrown inside the shared library with its type.
#include <tandem/tandem.h>

#include <cstdio>

namespace td = tandem;
namespace keras = td::keras;
using td::Tensor;

namespace {

double train() {
  td::config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  const td::distribute::MirroredStrategy strategy;
  const auto scope = strategy.scope();
  td::random::set_seed(7);
  const td::Variables model = {td::Variable(td::random_normal({4, 3}))};
  const keras::optimizers::Adam optimizer(0.1);
  const auto step = td::function([&](const Tensor& x, const Tensor& y) {
    td::GradientTape tape;
    const Tensor loss =
        td::compute_average_loss(td::softmax_cross_entropy_with_logits(y, td::matmul(x, model[0])));
    optimizer.apply_gradients(tape.gradient(loss, model), model);
    return loss;
  });
  const Tensor x =
      td::random_uniform({5, 4});  // Not negative, so weights that favour a class exist.
  const Tensor y = td::broadcast_to(Tensor::from({1.F, 0.F, 0.F}, {3}), {5, 3});
  double first = 0;
  double last = 0;
  for (int i = 0; i < 50; ++i) {
    const auto loss = strategy.run(step, strategy.split(x), strategy.split(y));
    last = strategy.reduce(td::distribute::ReduceOp::sum, loss).item<float>();
    if (i == 0) first = last;
  }
  std::printf("trained: %f -> %f\n", first, last);
  return last / first;
}

}  // namespace

int main() {
  if (!(train() < 0.5)) {
    std::puts("the loss did not fall");
    return 1;
  }
  try {
    td::DeviceSpec::parse("//gpu:0");
  } catch (const td::InvalidArgument& error) {
    const td::Error& base = error;
    std::printf("caught: %s\n", base.what());
    return 0;
  } catch (const std::exception& error) {
    std::printf("lost its type: %s\n", error.what());
    return 1;
  }
  std::puts("no error was thrown");
  return 1;
}

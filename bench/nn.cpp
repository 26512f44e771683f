/// Layers of neural networks, compiled: forward, and with all gradients where they have weights.
#include "bench.h"
#include "device/logical_device.h"
#include "harness/classifier.h"
#include "support/triad.h"
#include "tandem/tandem.h"

namespace tandem::bench {
namespace {

Tensor values(uint64_t seed, const Shape& shape) {
  std::vector<float> numbers(static_cast<size_t>(shape.count()));
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<float>(2 * harness::uniform(seed, i) - 1);
  }
  return Tensor::from(numbers, shape);
}

using LayerFn = std::function<Tensor(const Tensors&)>;

/// One layer: `flops` of its forward pass if those bound it, else its bytes do: inputs and result.
struct MeasuredLayer {
  std::vector<Shape> inputs;
  LayerFn f;
  double flops = 0;
};

double mean_square(const Tensor& x) {
  const auto numbers = x.to_vector<float>();
  double sum = 0;
  for (const float number : numbers) sum += static_cast<double>(number) * number;
  return sum / static_cast<double>(numbers.size());
}

/// Operations per second of a large product on all cores: what bounds layers that multiply.
double product_rate() {
  constexpr int64_t kSize = 1536;
  const Tensor a = values(1, {kSize, kSize});
  const Tensor b = values(2, {kSize, kSize});
  return 2.0 * kSize * kSize * kSize / best_seconds([&] { matmul(a, b); }, 5);
}

/// Bytes per second of a triad over arrays beyond every cache.
double memory_rate() {
  constexpr size_t kCount = 8 << 20;
  return 3.0 * kCount * sizeof(float) / triad_seconds(kCount);
}

double bytes_of(const Tensors& tensors) {
  double bytes = 0;
  for (const Tensor& tensor : tensors) bytes += 4.0 * static_cast<double>(tensor.shape().count());
  return bytes;
}

/// Prints the mean square of the first result, which says what was computed, the time, and how many
/// times as long that is as what bounds it.
void measure(const std::string& name, const Tensors& inputs, const FlatFunction::TensorFn& f,
             double flops) {
  const FlatFunction compiled(f);
  Tensors results;
  const double seconds = best_seconds([&] { results = compiled(inputs); }, 5);
  const double bound =
      flops > 0 ? flops / product_rate() : (bytes_of(inputs) + bytes_of(results)) / memory_rate();
  report(name + ".loss", mean_square(results[0]), "loss");
  report(name, seconds * 1e6, "us");
  report(name + ".bound", seconds / bound, "x");
}

/// Forward, then forward with the gradients of all inputs (the last one first), for a given
/// gradient of the result.
void measure_layer(const std::string& name, const MeasuredLayer& layer) {
  devices::reset_devices();
  Tensors inputs;
  for (const Shape& shape : layer.inputs) inputs.push_back(values(inputs.size() + 1, shape));
  measure(
      name, inputs, [&](const Tensors& t) { return Tensors{layer.f(t)}; }, layer.flops);
  const auto train = [&](const Tensors& t) {
    const Tensors sources(t.begin(), t.end() - 1);
    GradientTape tape;
    for (const Tensor& source : sources) tape.watch(source);
    const Tensor y = layer.f(sources);
    Tensors results = tape.gradient(y, sources, {.output_gradients = {t.back()}});
    std::reverse(results.begin(), results.end());
    results.push_back(y);
    return results;
  };
  inputs.push_back(values(9, layer.f(inputs).shape()));
  measure(name + "_train", inputs, train, 3 * layer.flops);
}

MeasuredLayer convolution(const Shape& image, const Shape& filter, const Conv2dOptions& options) {
  const auto f = [options](const Tensors& t) { return conv2d(t[0], t[1], options); };
  const Shape result = f({fill(image, 0), fill(filter, 0)}).shape();
  const auto places = static_cast<double>(result[0] * result[1] * result[2]);
  return {{image, filter}, f, 2 * places * static_cast<double>(filter.count())};
}

}  // namespace

void matmul4096() {
  devices::reset_devices();
  const Tensors inputs{values(1, {4096, 4096}), values(2, {4096, 4096})};
  measure(
      "matmul4096", inputs, [](const Tensors& t) { return Tensors{matmul(t[0], t[1])}; },
      2.0 * 4096 * 4096 * 4096);
}

void conv_3x3_32_64() {
  measure_layer("conv_3x3_32_64", convolution({128, 13, 13, 32}, {3, 3, 32, 64}, {}));
}

void conv_first() { measure_layer("conv_first", convolution({128, 28, 28, 1}, {3, 3, 1, 32}, {})); }

void conv_1x1_256() {
  measure_layer("conv_1x1_256", convolution({32, 14, 14, 256}, {1, 1, 256, 256}, {}));
}

void conv_depthwise() {
  measure_layer("conv_depthwise", {{{32, 28, 28, 128}, {3, 3, 128, 1}}, [](const Tensors& t) {
                                     return depthwise_conv2d(t[0], t[1],
                                                             {.padding = Padding::same});
                                   }});
}

void pool_max() {
  measure_layer("pool_max",
                {{{128, 26, 26, 32}}, [](const Tensors& t) { return max_pool2d(t[0]); }});
}

void pool_avg() {
  measure_layer("pool_avg",
                {{{128, 26, 26, 32}}, [](const Tensors& t) { return avg_pool2d(t[0]); }});
}

void norm_batch() {
  measure_layer("norm_batch", {{{128, 26, 26, 32}, {32}, {32}},
                               [](const Tensors& t) { return batch_norm(t[0], t[1], t[2]).y; }});
}

void norm_layer() {
  measure_layer("norm_layer", {{{8192, 512}, {512}, {512}},
                               [](const Tensors& t) { return layer_norm(t[0], t[1], t[2]); }});
}

void softmax_1024() {
  measure_layer("softmax_1024", {{{8192, 1024}}, [](const Tensors& t) { return softmax(t[0]); }});
}

void softmax_10() {
  measure_layer("softmax_10", {{{8192, 10}}, [](const Tensors& t) { return softmax(t[0]); }});
}

}  // namespace tandem::bench

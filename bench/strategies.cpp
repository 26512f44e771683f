/// Strategies against each other, and against one replica.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "bench.h"
#include "device/logical_device.h"
#include "harness/classifier.h"
#include "harness/convnet.h"
#include "harness/transformer.h"

namespace tandem::bench {
namespace {

/// A model under training with a strategy.
template <class Model>
class Trained {
 public:
  template <class... Args>
  Trained(const distribute::Strategy& strategy, const Tensor& x, const Tensor& y, Args... args)
      : strategy_(strategy),
        model_(made_in(strategy, args...)),
        step_(model_.compiled_step()),
        x_(strategy_.split(x)),
        y_(strategy_.split(y)) {}

  void operator()() const { strategy_.run(step_, x_, y_); }
  MemoryPlan memory_plan(int64_t rows) const { return step_.memory_plan(rows); }

 private:
  template <class... Args>
  static Model made_in(const distribute::Strategy& strategy, Args... args) {
    const auto scope = strategy.scope();
    return Model(args...);
  }

  const distribute::Strategy strategy_;
  const Model model_;
  const decltype(model_.compiled_step()) step_;
  const distribute::PerReplica x_, y_;
};

/// Logical CPUs of one thread.
void use_cpus(size_t count) {
  devices::reset_devices();
  config::set_logical_cpus(std::vector<config::LogicalCpu>(count, {.threads = 1}));
}

using Mlp = Trained<harness::Classifier<float>>;

/// The small classifier on 128 rows, split over these devices.
Mlp mlp10_on(const std::vector<std::string>& devices) {
  return {distribute::MirroredStrategy(devices), harness::features<float>(128),
          harness::labels<float>(128), std::vector<int64_t>{784, 10, 10}, 0.01};
}

}  // namespace

void mirrored_gain() {
  use_cpus(2);
  const Mlp one = mlp10_on({"/CPU:0"});
  const Mlp two = mlp10_on({"/CPU:0", "/CPU:1"});
  report_quotient("mirrored_gain", "two", two, "one", one);
}

void oversubscribed() {
  use_cpus(4);
  const Mlp two = mlp10_on({"/CPU:0", "/CPU:1"});
  const Mlp four = mlp10_on({"/CPU:0", "/CPU:1", "/CPU:2", "/CPU:3"});
  report_quotient("oversubscribed", "four", four, "two", two);
}

void mirrored_scaling() {
  constexpr int64_t kEach = 64;
  use_cpus(2);
  using Net = Trained<harness::Convnet<float>>;
  const auto make = [](const std::vector<std::string>& devices) {
    const auto rows = kEach * static_cast<int64_t>(devices.size());
    return Net(distribute::MirroredStrategy(devices), harness::images<float>(rows),
               harness::classes(rows));
  };
  const Net one = make({"/CPU:0"});
  const Net two = make({"/CPU:0", "/CPU:1"});
  // A step of two replicas is two batches of one: times are of one batch.
  const auto best = best_by_turns(one, two);
  report("mirrored_scaling.one", best.first * 1e6, "us");
  report("mirrored_scaling.two", best.second / 2 * 1e6, "us");
  report("mirrored_scaling", 2 * best.first / best.second, "x");
}

namespace {

using Gpt = Trained<harness::Transformer<float>>;

Gpt gpt_with(const distribute::Strategy& strategy, int64_t texts) {
  const auto [read, next] = harness::texts(texts, {});
  return {strategy, read, next};
}

}  // namespace

void pp_gpt() {
  constexpr int64_t kTexts = 32;
  use_cpus(2);
  const Gpt one = gpt_with(distribute::OneDeviceStrategy("/CPU:0"), kTexts);
  const Gpt two = gpt_with(distribute::PipelineStrategy({.stages = 2, .microbatches = 8}), kTexts);
  report_quotient("pp_gpt", "one", one, "two", two);
}

namespace {

/// What is learnt about each place in a text.
struct Places : keras::LayerBody {
  Places() : LayerBody("places") {}
  void build(const keras::TensorSpecs& inputs) override {
    const Shape& x = inputs[0].shape;
    places = add_weight("places", {x.extent(1), x.extent(2)}, {.initializer = "uniform"});
  }
  Tensors call(const Tensors& inputs, const keras::CallContext&) override {
    return {inputs[0] + places.value()};
  }
  Variable places;
};

/// The GPT of harness/transformer.h as layers, whose weights can be cut, with tied embeddings.
class LayeredGpt {
 public:
  LayeredGpt() : model_(made({})), optimizer_(1e-4) {}

  auto compiled_step() const {
    return function(
        [model = model_, optimizer = optimizer_](const Tensor& read, const Tensor& next) {
          const keras::losses::SparseCategoricalCrossentropy loss_of({.from_logits = true});
          GradientTape tape;
          const Tensor loss = loss_of(next, model(read, {.training = true}));
          const Variables weights = model.trainable_weights();
          optimizer.apply_gradients(tape.gradient(loss, weights), weights);
          return loss;
        });
  }

  const keras::Model& model() const { return model_; }

  /// Attention is cut by heads, products by columns and rows, the embedding by vocabulary.
  static distribute::LayoutMap layouts(const distribute::DeviceMesh& mesh) {
    distribute::LayoutMap map(mesh);
    map["embeddings"] = {"model"};
    map["(query|key|value)/kernel"] = {"", "model"};
    map["up.*/kernel"] = {"", "model"};
    map["(attention_output|down.*)/kernel"] = {"model"};
    return map;
  }

 private:
  static keras::Model made(const harness::TransformerSizes& sizes) {
    namespace layers = keras::layers;
    const auto read = keras::Input({sizes.tokens}, DType::int32);
    const layers::Embedding table(sizes.vocabulary, sizes.width);
    auto x = keras::make_layer<Places>()(table(read));
    for (int64_t i = 0; i < sizes.layers; ++i) {
      const layers::MultiHeadAttention attention(sizes.heads, sizes.width / sizes.heads,
                                                 {.use_causal_mask = true});
      x = layers::Add()({x, attention(layers::LayerNormalization()(x))});
      const std::string number = std::to_string(i);
      const layers::Dense up(4 * sizes.width, {.activation = "gelu", .name = "up_" + number});
      const layers::Dense down(sizes.width, {.name = "down_" + number});
      x = layers::Add()({x, down(up(layers::LayerNormalization()(x)))});
    }
    return {{read}, {table.reverse()(layers::LayerNormalization()(x))}};
  }

  keras::Model model_;
  keras::optimizers::AdamW optimizer_;
};

}  // namespace

void tp_gpt() {
  constexpr int64_t kTexts = 8;
  use_cpus(2);
  const auto [read, next] = harness::texts(kTexts, {});
  const Trained<LayeredGpt> one(distribute::OneDeviceStrategy("/CPU:0"), read, next);
  const distribute::ModelParallel cut(
      LayeredGpt::layouts(distribute::DeviceMesh({1, 2}, {"data", "model"})));
  const Trained<LayeredGpt> two(cut, read, next);
  report_quotient("tp_gpt", "one", one, "two", two);
}

void plan_error() {
  constexpr int64_t kTexts = 8;
  constexpr int kMicrobatches = 4;
  use_cpus(2);
  const LayeredGpt model;
  const auto [read, next] = harness::texts(kTexts, {});
  const distribute::DeviceMesh mesh({1, 2}, {"data", "model"});
  struct Way {
    const char* name;
    distribute::Strategy strategy;
    distribute::PlannedMesh mesh;
  };
  const std::vector<Way> ways{
      {"one", distribute::OneDeviceStrategy("/CPU:0"), {}},
      {"data", distribute::MirroredStrategy(), {.data = 2}},
      {"model", distribute::ModelParallel(LayeredGpt::layouts(mesh)), {.model = 2}},
      {"stage",
       distribute::PipelineStrategy({.stages = 2, .microbatches = kMicrobatches}),
       {.stage = 2, .microbatches = kMicrobatches, .schedule = "1f1b"}}};
  double worst = 0;
  for (const Way& way : ways) {
    const int devices = way.mesh.data * way.mesh.stage * way.mesh.model;
    double planned = 0;
    for (const auto& each :
         distribute::plan(model.model(), {.devices = devices, .batch = kTexts}).meshes) {
      const bool is_way = each.data == way.mesh.data && each.stage == way.mesh.stage &&
                          each.model == way.mesh.model && each.schedule == way.mesh.schedule &&
                          each.microbatches == way.mesh.microbatches;
      if (is_way) planned = each.seconds;
    }
    const Trained<LayeredGpt> trained(way.strategy, read, next);
    const double measured = best_seconds([&] { trained(); }, 8, 0.3);
    report(std::string("plan_error.") + way.name, planned / measured, "x");
    worst = std::max({worst, planned / measured - 1, measured / planned - 1});
  }
  report("plan_error", worst, "x");
}

void micro_overhead() {
  constexpr int64_t kTexts = 8;
  constexpr int kParts = 4;
  devices::reset_devices();
  const Gpt whole = gpt_with(distribute::OneDeviceStrategy("/CPU:0"), kTexts);
  const Gpt parts =
      gpt_with(distribute::PipelineStrategy({.stages = 1, .microbatches = kParts}), kTexts);
  report_quotient("micro_overhead", "parts", parts, "whole", whole);
  const auto bytes = [](const Gpt& model, int64_t rows) {
    return static_cast<double>(model.memory_plan(rows).devices[0].bytes());
  };
  report("micro_overhead.memory", bytes(parts, kTexts / kParts) / bytes(whole, kTexts), "x");
}

void shard_memory() {
  constexpr int64_t kBatch = 128;
  constexpr int kSteps = 3;
  constexpr int kCpus = 4;
  // The most memory of the fullest device.
  const auto peak_of = [](const std::function<distribute::Strategy()>& strategy) {
    use_cpus(kCpus);
    const Mlp trained(strategy(), harness::features<float>(kBatch), harness::labels<float>(kBatch),
                      std::vector<int64_t>{784, 1024, 1024, 10}, 0.0001);
    for (int i = 0; i < kSteps; ++i) trained();
    size_t peak = 0;
    for (const config::LogicalDevice& cpu : config::list_logical_devices("CPU")) {
      peak = std::max(peak, config::get_memory_info(cpu.name).peak);
    }
    return static_cast<double>(peak);
  };
  const auto sharded = [&](distribute::Shard shard) {
    return peak_of([=] { return distribute::MirroredStrategy({}, {.shard = shard}); });
  };
  using enum distribute::Shard;
  const double whole = peak_of([] { return distribute::OneDeviceStrategy("/CPU:0"); });
  report("shard_memory.one", whole / 1e6, "MB");
  report("shard_memory.state", sharded(state) / whole, "x");
  report("shard_memory.gradients", sharded(gradients) / whole, "x");
  report("shard_memory", sharded(variables) / whole, "x");
}

void central_overhead() {
  constexpr int64_t kBatch = 128;
  use_cpus(2);
  const std::vector<int64_t> sizes{784, 1024, 1024, 10};
  const Tensor x = harness::features<float>(kBatch);
  const Tensor y = harness::labels<float>(kBatch);
  const Mlp mirrored(distribute::MirroredStrategy(), x, y, sizes, 0.0001);
  const Mlp central(distribute::CentralStorageStrategy(), x, y, sizes, 0.0001);
  report_quotient("central_overhead", "central", central, "mirrored", mirrored);
}

}  // namespace tandem::bench

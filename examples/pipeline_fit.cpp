/// `fit` under PipelineStrategy: the layers of a model on several devices, the batch in
/// micro-batches that go through them one behind the other. The result is that of one device.
#include "program.h"

namespace td = tandem;
namespace keras = td::keras;
namespace layers = keras::layers;

int main(int count, char** words) {
  example::Flags flags("Trains a model that is cut into stages, each on a device of its own",
                       "With --stages 1 the micro-batches go one after another through one device, "
                       "in the memory of one");
  td::distribute::PipelineOptions options{.stages = 2, .microbatches = 4};
  int epochs = 1;
  int64_t rows = 60000;
  flags.add("--stages", options.stages, "Parts of the model, each on a logical CPU", 1);
  flags.add("--microbatches", options.microbatches, "Parts of each batch", 2);
  flags.add("--schedule", options.schedule, "1f1b, gpipe or interleaved");
  flags.add("--chunks", options.chunks, "Parts of the model on each stage, when interleaved");
  flags.add("--epochs", epochs, "Passes over the data");
  flags.add("--rows", rows, "Pictures to learn from");
  return flags.run(count, words, [&] {
    example::use_logical_cpus(options.stages);
    td::random::set_seed(3);
    const td::distribute::PipelineStrategy strategy(options);
    std::printf("%s", strategy.explain().c_str());

    const auto scope = strategy.scope();
    const keras::Sequential model({
        layers::Dense(128, {.activation = "relu", .input_shape = {784}}),
        layers::Dense(128, {.activation = "relu"}),
        layers::Dense(128, {.activation = "relu"}),
        layers::Dense(10),
    });
    model.compile({.optimizer = keras::optimizers::Adam(0.001),
                   .loss = keras::losses::CategoricalCrossentropy({.from_logits = true}),
                   .metrics = {"accuracy"}});
    const auto [train, test] = example::flat_fashion_mnist(rows);
    model.fit(train.x, train.y, {.batch_size = 128, .epochs = epochs});
    model.evaluate(test.x, test.y, {.batch_size = 128});
  });
}

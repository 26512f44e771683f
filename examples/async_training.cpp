/// Synchronous and asynchronous training of one model, with workers of which one is slow on
/// purpose: in step, with a bounded staleness, without any bound, and without a bound but with
/// damping. Draws the loss against time and against steps, and how stale the updates were, as SVG
/// files. Workers are threads, or processes:
///
///   tandem run --workers 2 --ps 1 -- async_training
#include <chrono>
#include <fstream>
#include <thread>

#include "program.h"
#include "svg_plot.h"
#include "tandem/distribute/parameter_server.h"

namespace td = tandem;
namespace keras = td::keras;
namespace layers = keras::layers;
namespace distribute = td::distribute;

namespace {

struct Way {
  const char* name;
  int64_t staleness;
  bool damping;
};

/// The loss after each epoch, and when that was.
class LossCurve final : public keras::Callback {
 public:
  void on_train_begin(keras::TrainingRun&) override { start_ = Clock::now(); }
  void on_epoch_end(keras::TrainingRun&, int, keras::Logs& logs) override {
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start_).count());
    losses.push_back(logs.at("loss"));
  }

  std::vector<double> seconds, losses;

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_;
};

struct Trained {
  bool is_chief = true;
  std::shared_ptr<LossCurve> curve = std::make_shared<LossCurve>();
  std::map<int64_t, int64_t> staleness;
  double accuracy = 0;
};

struct Setup {
  int workers = 3;
  int epochs = 8;
  int rows = 6000;
  int slow_ms = 10;
};

Trained train(const Way& way, const Setup& setup, const keras::datasets::TrainAndTest& data) {
  td::random::set_seed(1);
  const distribute::ParameterServerStrategy strategy(
      {.staleness = way.staleness,
       .damping = way.damping,
       .workers = setup.workers,
       .before_step = [&](int worker) {
         if (worker == 0) std::this_thread::sleep_for(std::chrono::milliseconds(setup.slow_ms));
       }});
  const auto scope = strategy.scope();
  const keras::Sequential model(
      {layers::Dense(64, {.activation = "relu", .input_shape = {784}}), layers::Dense(10)});
  model.compile({.optimizer = keras::optimizers::SGD(0.02, {.momentum = 0.9}),
                 .loss = keras::losses::CategoricalCrossentropy({.from_logits = true}),
                 .metrics = {"accuracy"}});
  Trained trained;
  model.fit(data.train.x, data.train.y,
            {.batch_size = 64,
             .epochs = setup.epochs,
             .verbose = keras::Verbose::silent,
             .callbacks = {keras::callbacks::TerminateOnNaN(), trained.curve}});
  trained.is_chief = strategy.is_chief();
  trained.staleness = strategy.staleness_histogram();
  trained.accuracy = model
                         .evaluate(data.test.x, data.test.y,
                                   {.batch_size = 256, .verbose = keras::Verbose::silent})
                         .at("accuracy");
  return trained;
}

}  // namespace

int main(int count, char** words) {
  example::Flags flags(
      "Trains a classifier of Fashion-MNIST in step, with bounded staleness and without a bound");
  Setup setup;
  std::string folder = ".";
  flags.add("--workers", setup.workers, "Threads that compute; the first one is slow");
  flags.add("--epochs", setup.epochs, "Passes over the data");
  flags.add("--rows", setup.rows, "Examples to train with");
  flags.add("--slow-ms", setup.slow_ms, "What the first worker sleeps before each step", 0);
  flags.add("--out", folder, "The folder that the plots are written to");
  return flags.run(count, words, [&] {
    example::use_logical_cpus(setup.workers);
    const auto data = example::flat_fashion_mnist(setup.rows);
    const Way ways[] = {{"in step", 0, false},
                        {"at most 2 ahead", 2, false},
                        {"unbounded", distribute::unbounded, false},
                        {"unbounded, damped", distribute::unbounded, true}};
    example::SvgPlot by_time("Loss against time", "seconds", "loss");
    example::SvgPlot by_step("Loss against steps", "steps", "loss");
    example::SvgPlot staleness("Staleness", "updates since the variables were read", "updates");
    const double steps = (setup.rows + 63) / 64;
    for (const Way& way : ways) {
      const Trained trained = train(way, setup, data);
      if (!trained.is_chief) continue;  // Workers and servers of a cluster draw nothing.
      const LossCurve& curve = *trained.curve;
      std::printf("%-18s loss %.3f, test accuracy %.3f, %.1f s\n", way.name, curve.losses.back(),
                  trained.accuracy, curve.seconds.back());
      example::Series of_steps{way.name, {}, curve.losses};
      for (size_t e = 0; e < curve.losses.size(); ++e) {
        of_steps.x.push_back(steps * static_cast<double>(e + 1));
      }
      by_step.add(std::move(of_steps));
      by_time.add({way.name, curve.seconds, curve.losses});
      example::Series of_updates{way.name, {}, {}};
      for (const auto& [stale, updates] : trained.staleness) {
        of_updates.x.push_back(static_cast<double>(stale));
        of_updates.y.push_back(static_cast<double>(updates));
      }
      staleness.add(std::move(of_updates));
    }
    if (by_time.is_empty()) return;
    const bool written = by_time.write(folder + "/loss_by_time.svg", example::Marks::lines) &&
                         by_step.write(folder + "/loss_by_step.svg", example::Marks::lines) &&
                         staleness.write(folder + "/staleness.svg", example::Marks::bars);
    if (!written) throw td::NotFound("the plots cannot be written to '" + folder + "'");
    std::printf("plots: %s/loss_by_time.svg, loss_by_step.svg, staleness.svg\n", folder.c_str());
  });
}

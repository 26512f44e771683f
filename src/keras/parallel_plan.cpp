#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "execution/pipeline/schedule.h"
#include "keras/training_cost.h"
#include "tandem/distribute/plan.h"
#include "tandem/error.h"

namespace tandem::distribute {
namespace {

using graph::PipelineKind;

constexpr double kBytesOfAFloat = 4;

/// Adds up the elements of the weights of a model, and of those that its layers can have in parts.
class WeightCount {
 public:
  explicit WeightCount(const keras::Layer& layer) { add(layer); }

  double all() const { return all_; }
  /// The elements, and the number, of the layers that can be cut into so many equal parts.
  double in_parts(int parts) const {
    double elements = 0;
    for (const Cuttable& layer : layers_) elements += layer.divides_by(parts) ? layer.elements : 0;
    return elements;
  }
  int layers_in_parts(int parts) const {
    return static_cast<int>(std::ranges::count_if(
        layers_, [&](const Cuttable& layer) { return layer.divides_by(parts); }));
  }

 private:
  struct Cuttable {
    double elements;
    std::vector<int64_t> sizes;  ///< The sizes of the axes that can be cut, of which one is.

    bool divides_by(int parts) const {
      return std::ranges::any_of(sizes, [&](int64_t size) { return size % parts == 0; });
    }
  };

  void add(const keras::Layer& layer) {
    const std::string& kind = layer.body()->kind();
    const bool has_form = kind == "dense" || kind == "multi_head_attention" || kind == "embedding";
    if (!has_form && !layer.layers().empty()) {
      for (const keras::Layer& inside : layer.layers()) add(inside);
      return;
    }
    const auto count = static_cast<double>(layer.count_params());
    all_ += count;
    if (!has_form) return;
    // The columns or rows of a kernel, the heads of an attention, or the rows of a table.
    const Shape shape = layer.weights().front().shape();
    if (kind == "dense") layers_.push_back({count, {shape[0], shape[1]}});
    if (kind == "multi_head_attention") layers_.push_back({count, {shape[1]}});
    if (kind == "embedding") layers_.push_back({count, {shape[0]}});
  }

  double all_ = 0;
  std::vector<Cuttable> layers_;
};

/// Prices meshes for one model.
class MeshPricer {
 public:
  MeshPricer(const keras::Model& model, const PlanOptions& options)
      : options_(options), cost_(model, options.device), weights_(model) {}

  bool is_possible(const PlannedMesh& mesh) const {
    const int64_t least = int64_t{mesh.data} * mesh.microbatches;
    const bool has_pipeline = mesh.stage == 1 || mesh.microbatches > 1;
    return mesh.stage <= cost_.most_stages() && least <= options_.batch && has_pipeline &&
           (mesh.model == 1 || weights_.layers_in_parts(mesh.model) > 1);
  }

  void price(PlannedMesh& mesh) const {
    const int64_t rows = rows_of(mesh);
    const auto [pipeline, held] = schedule_of(mesh);
    const double passes = pass_seconds(rows, mesh);
    mesh.computing = mesh.microbatches * passes + update_seconds(mesh);
    mesh.waiting = (pipeline - mesh.microbatches) * passes;
    price_exchange(mesh, rows, passes);
    mesh.seconds = mesh.computing + mesh.waiting + mesh.communicating;
    const double activations = activation_bytes(rows) * kept_share(mesh) / mesh.stage;
    mesh.memory_bytes = weight_bytes(mesh) * (2 + options_.slots) + activations * held;
  }

 private:
  int64_t rows_of(const PlannedMesh& mesh) const {
    const int64_t parts = int64_t{mesh.data} * mesh.microbatches;
    return (options_.batch + parts - 1) / parts;
  }

  /// The passes of the slowest stage for one micro-batch.
  double pass_seconds(int64_t rows, const PlannedMesh& mesh) const {
    const double of_those = weights_.in_parts(mesh.model) / std::max(weights_.in_parts(1), 1.0);
    const double cut = cut_share(rows) * of_those;
    const double slowest = slowest_stage(mesh.stage);
    return seconds(rows) * (cut / mesh.model + 1 - cut) * slowest;
  }

  /// How many passes through a stage a step takes as long as, with those that it waits, and how
  /// many micro-batches' activations the fullest stage holds.
  std::pair<double, double> schedule_of(const PlannedMesh& mesh) const {
    if (mesh.stage == 1) return {mesh.microbatches, 1};
    const graph::PipelineShape shape{.kind = graph::pipeline_kind(mesh.schedule),
                                     .stages = mesh.stage,
                                     .microbatches = mesh.microbatches};
    const auto report = graph::check_schedule(shape, graph::make_schedule(shape));
    constexpr double kOfAPass = 3;  // A forward and a backward pass in the report's unit.
    return {report.time / kOfAPass, *std::ranges::max_element(report.held)};
  }

  /// The share of the weights that each device along the axis of the model has.
  double kept_share(const PlannedMesh& mesh) const {
    const double in_parts = weights_.in_parts(mesh.model) / std::max(weights_.all(), 1.0);
    return in_parts / mesh.model + 1 - in_parts;
  }
  double weight_bytes(const PlannedMesh& mesh) const {
    return weights_.all() * kBytesOfAFloat * kept_share(mesh) / mesh.stage;
  }

  /// Reads gradients, weights and slots, and writes the last two.
  double update_seconds(const PlannedMesh& mesh) const {
    return weight_bytes(mesh) * (3 + 2 * options_.slots) / cost_.memory_speed();
  }

  /// A sum over a ring of devices.
  struct Sum {
    double bytes, seconds;
  };
  Sum sum_over(int devices, double bytes) const {
    if (devices == 1) return {0, 0};
    const double sent = bytes * 2 * (devices - 1) / devices;
    return {sent, sent / options_.link.bytes + 2 * (devices - 1) * options_.link.latency};
  }

  void price_exchange(PlannedMesh& mesh, int64_t rows, double passes) const {
    // Half of the layers in parts sum their results, and the gradients of these on the way back.
    const double activations = cost_.boundary_bytes() * static_cast<double>(rows);
    const Sum layer = sum_over(mesh.model, activations);
    const double layers =
        weights_.layers_in_parts(mesh.model) * mesh.microbatches / double(mesh.stage);
    // Gradients are summed while the last micro-batch goes back.
    const Sum gradients = sum_over(mesh.data, weight_bytes(mesh));
    constexpr double kBackward = 2.0 / 3;
    const double hidden = std::min(gradients.seconds, passes * kBackward);
    // Each stage hands activations on and gets gradients back, while it computes other ones.
    const double handed = mesh.stage == 1 ? 0 : 2 * activations * mesh.microbatches;
    const double hops = mesh.stage == 1 ? 0 : 2 * (mesh.stage - 1);
    const double hop = activations / options_.link.bytes + options_.link.latency;
    mesh.communicating = layers * layer.seconds + gradients.seconds - hidden + hops * hop;
    mesh.exchanged_bytes = layers * layer.bytes + gradients.bytes + handed;
  }

  // What is asked for again and again.
  double seconds(int64_t rows) const {
    return kept(seconds_, rows, [&] { return cost_.seconds(rows); });
  }
  double cut_share(int64_t rows) const {
    return kept(cut_shares_, rows, [&] { return cost_.cut_share(rows); });
  }
  double activation_bytes(int64_t rows) const {
    return kept(activations_, rows, [&] { return cost_.activation_bytes(rows); });
  }
  double slowest_stage(int stages) const {
    return kept(slowest_, stages, [&] { return cost_.slowest_stage(stages); });
  }

  using Kept = std::map<int64_t, double>;
  template <class Make>
  static double kept(Kept& known, int64_t key, const Make& make) {
    const auto found = known.find(key);
    return found != known.end() ? found->second : known.emplace(key, make()).first->second;
  }

  const PlanOptions options_;
  const keras::TrainingCost cost_;
  const WeightCount weights_;
  mutable Kept seconds_, cut_shares_, activations_, slowest_;
};

void check(const PlanOptions& options) {
  const auto check_from = [](const char* what, double value, double least) {
    if (value >= least && std::isfinite(value)) return;
    throw InvalidArgument(
        fmt::format("plan: {} is {}, a number from {} on is accepted", what, value, least));
  };
  check_from("devices", options.devices, 1);
  check_from("batch", static_cast<double>(options.batch), 1);
  check_from("memory", options.memory, 0);
  check_from("link.bytes", options.link.bytes, 1);
  check_from("link.latency", options.link.latency, 0);
  check_from("device.operations", options.device.operations, 0);
  check_from("device.bytes", options.device.bytes, 0);
  check_from("slots", options.slots, 0);
}

/// All ways to cut for so many devices: micro-batches in powers of two.
std::vector<PlannedMesh> all_meshes(const PlanOptions& options) {
  std::vector<PlannedMesh> meshes;
  for (int data = 1; data <= options.devices; ++data) {
    for (int stage = 1; data * stage <= options.devices; ++stage) {
      if (options.devices % (data * stage) != 0) continue;
      const int model = options.devices / (data * stage);
      for (int micro = 1; int64_t{micro} * data <= options.batch; micro *= 2) {
        PlannedMesh mesh{.data = data, .stage = stage, .model = model, .microbatches = micro};
        if (stage == 1) {
          meshes.push_back(mesh);
          continue;
        }
        for (const char* schedule : {"1f1b", "gpipe"}) {
          mesh.schedule = schedule;
          meshes.push_back(mesh);
        }
      }
    }
  }
  return meshes;
}

std::string milliseconds(double seconds) { return fmt::format("{:.3g} ms", seconds * 1e3); }
std::string megabytes(double bytes) { return fmt::format("{:.3g} MB", bytes / 1e6); }

}  // namespace

std::string PlannedMesh::str() const {
  std::string text = fmt::format("data {} x stage {} x model {}", data, stage, model);
  if (microbatches > 1) text += fmt::format(", {} micro-batches", microbatches);
  if (!schedule.empty()) text += ", " + schedule;
  return text + fmt::format(
                    ": {} a step (computes {}, waits {}, communicates {}), {} memory, {} "
                    "sent by each device",
                    milliseconds(seconds), milliseconds(computing), milliseconds(waiting),
                    milliseconds(communicating), megabytes(memory_bytes),
                    megabytes(exchanged_bytes));
}

const PlannedMesh& TrainingPlan::best() const {
  if (meshes.empty()) {
    throw InvalidArgument(
        "plan: no mesh has rows, layers or equal parts of weights for each of so many devices; "
        "fewer devices or a larger batch are accepted");
  }
  if (memory == 0 || meshes[0].memory_bytes <= memory) return meshes[0];
  throw ResourceExhausted(
      fmt::format("plan: no way to train fits into {} on each device; the smallest takes {}",
                  megabytes(memory), megabytes(meshes[0].memory_bytes)));
}

std::string TrainingPlan::str() const {
  constexpr size_t kShown = 10;
  std::string text;
  for (size_t i = 0; i < std::min(meshes.size(), kShown); ++i) {
    const bool fits = memory == 0 || meshes[i].memory_bytes <= memory;
    text += fmt::format("{}{}\n", meshes[i].str(), fits ? "" : ", which does not fit");
  }
  return text;
}

TrainingPlan plan(const keras::Model& model, const PlanOptions& options) {
  check(options);
  const MeshPricer pricer(model, options);
  TrainingPlan plan{.meshes = {}, .memory = options.memory};
  for (PlannedMesh& mesh : all_meshes(options)) {
    if (!pricer.is_possible(mesh)) continue;
    pricer.price(mesh);
    plan.meshes.push_back(mesh);
  }
  const auto is_better = [&](const PlannedMesh& a, const PlannedMesh& b) {
    const auto fits = [&](const PlannedMesh& mesh) {
      return options.memory == 0 || mesh.memory_bytes <= options.memory;
    };
    if (fits(a) != fits(b)) return fits(a);
    return fits(a) ? a.seconds < b.seconds : a.memory_bytes < b.memory_bytes;
  };
  std::ranges::stable_sort(plan.meshes, is_better);
  return plan;
}

}  // namespace tandem::distribute

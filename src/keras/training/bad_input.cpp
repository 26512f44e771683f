#include "keras/training/bad_input.h"

#include <fmt/format.h>

#include "graph/trace.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::keras {
namespace {

void check_count(const char* who, const char* what, const Layer& model, size_t given, size_t wanted,
                 const char* kind) {
  if (given == wanted) return;
  throw InvalidArgument(fmt::format("{}: {} has {} tensors, model '{}' has {} {}{}", who, what,
                                    given, model.name(), wanted, kind, wanted == 1 ? "" : "s"));
}

/// The shapes of the outputs for such inputs, from a trace that is thrown away.
std::vector<Shape> output_shapes(const Layer& model, const Tensors& x) {
  op::TensorTypes types;
  for (const Tensor& input : x) types.push_back({input.dtype(), input.shape().with(0, -1)});
  const graph::Graph graph =
      graph::Trace::of([&](const Tensors& inputs) { return model(inputs); }, types);
  std::vector<Shape> shapes;
  for (graph::ValueId result : graph.results) shapes.push_back(graph.at(result).type.shape);
  return shapes;
}

int64_t classes_of(const Shape& output) { return output.rank() == 0 ? 0 : output.extents().back(); }

void check_labels(const char* who, size_t index, const Tensor& y, int64_t classes,
                  std::optional<int64_t> ignored) {
  const auto labels = cast(y, DType::float64).to_vector<double>();
  const auto each_row = std::max<size_t>(labels.size() / static_cast<size_t>(y.shape()[0]), 1);
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= 0 && labels[i] < static_cast<double>(classes)) continue;
    if (ignored && labels[i] == static_cast<double>(*ignored)) continue;
    throw InvalidArgument(
        fmt::format("{}: y {} has the label {} in row {}; the output has {} classes, 0 to {} are "
                    "accepted",
                    who, index, labels[i], i / each_row, classes, classes - 1));
  }
}

void check_class_weight(const char* who, const std::map<int64_t, double>& class_weight,
                        size_t outputs, int64_t width) {
  if (class_weight.empty()) return;
  if (outputs > 1) {
    throw InvalidArgument(
        fmt::format("{}: class_weight goes with one output, the model has {}; use sample_weight",
                    who, outputs));
  }
  const int64_t classes = std::max<int64_t>(width, 2);  // One number tells two classes apart.
  for (const auto& [label, weight] : class_weight) {
    if (label >= 0 && label < classes) continue;
    throw InvalidArgument(
        fmt::format("{}: class_weight names class {}; the output has {} classes, 0 to {} are "
                    "accepted",
                    who, label, classes, classes - 1));
  }
}

}  // namespace

void check_arrays(const char* who, const Layer& model, const Trainer& trainer, const Tensors& x,
                  const Tensors& y, const std::map<int64_t, double>& class_weight) {
  const auto scope = trainer.strategy().scope();  // The trace may make the weights.
  check_count(who, "x", model, x.size(), trainer.inputs(), "input");
  if (trainer.has_own_steps()) {
    if (class_weight.empty()) return;
    throw InvalidArgument(fmt::format(
        "{}: class_weight with a step of one's own; give sample_weight, or weigh in the step",
        who));
  }
  check_count(who, "y", model, y.size(), trainer.outputs(), "output");
  const std::vector<Shape> outputs = output_shapes(model, x);
  check_count(who, "y", model, y.size(), outputs.size(), "output");
  check_class_weight(who, class_weight, outputs.size(), classes_of(outputs[0]));
  for (size_t i = 0; i < y.size(); ++i) {
    const LossLabels& labels = trainer.options().loss[i].labels();
    if (labels.are_classes) check_labels(who, i, y[i], classes_of(outputs[i]), labels.ignored);
  }
}

}  // namespace tandem::keras

// How the layers of a model are connected, for those who ask, and as a picture.
#include <fmt/format.h>

#include "keras/models/functional.h"
#include "keras/models/sequential.h"
#include "tandem/error.h"
#include "tandem/keras/utils.h"

namespace tandem::keras {

std::vector<LayerCall> Model::calls() const {
  const LayerBody* own = body().get();
  if (const auto* functional = dynamic_cast<const FunctionalBody*>(own)) return functional->calls();
  if (const auto* sequential = dynamic_cast<const SequentialBody*>(own)) {
    if (sequential->is_described()) return sequential->calls();
  }
  std::vector<LayerCall> all;
  for (const Layer& layer : layers()) all.push_back({layer, {}, layer.body()->outputs()});
  return all;
}

namespace utils {
namespace {

/// Names are the user's: quotes and backslashes mean something to dot.
std::string escaped(const std::string& text) {
  std::string result;
  for (char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    result += letter;
  }
  return result;
}

std::string text_of(const CallArgument& value) {
  return std::visit([](const auto& plain) { return fmt::format("{}", plain); }, value);
}

/// What the call is told whenever the model runs: "training=false", "use_causal_mask=true".
std::vector<std::string> told(const LayerCall& call) {
  std::vector<std::string> all;
  if (call.training) all.push_back(fmt::format("training={}", *call.training));
  if (call.has_mask) all.emplace_back("mask");
  for (const auto& [name, value] : call.arguments) {
    all.push_back(fmt::format("{}={}", name, text_of(value)));
  }
  return all;
}

std::string label_of(const LayerCall& call, const DotOptions& options) {
  const std::string type = call.layer.body()->type_name();
  std::string label =
      options.show_layer_names ? fmt::format("{} ({})", escaped(call.layer.name()), type) : type;
  const std::vector<std::string> arguments = told(call);
  if (!arguments.empty()) label += "\\n" + escaped(fmt::format("{}", fmt::join(arguments, ", ")));
  if (!options.show_shapes) return label;
  for (const TensorSpec& output : call.outputs) label += "\\n" + output.shape.str();
  return label;
}

}  // namespace

std::string model_to_dot(const Model& model, const DotOptions& options) {
  if (options.rankdir != "TB" && options.rankdir != "LR") {
    throw InvalidArgument(
        fmt::format("model_to_dot: rankdir is '{}', TB or LR is accepted", options.rankdir));
  }
  std::string text = fmt::format("digraph \"{}\" {{\n  rankdir={};\n  node [shape=box];\n",
                                 escaped(model.name()), options.rankdir);
  const std::vector<LayerCall> calls = model.calls();
  for (size_t i = 0; i < calls.size(); ++i) {
    text += fmt::format("  n{} [label=\"{}\"];\n", i, label_of(calls[i], options));
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    for (const LayerCall::Source& input : calls[i].inputs) {
      text += fmt::format("  n{} -> n{};\n", input.call, i);
    }
  }
  return text + "}\n";
}

}  // namespace utils
}  // namespace tandem::keras

// Model::summary(): the table of layers that Keras prints, with the same columns and widths.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "keras/models/functional.h"
#include "keras/models/text_table.h"
#include "tandem/error.h"
#include "tandem/keras/model.h"

namespace tandem::keras {
namespace {

/// "1,570,000"
std::string with_commas(int64_t count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string size_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return fmt::format("{:.2f} {}", bytes, kUnits[unit]);
}

/// "7,960 (31.09 KB)"
std::string params_text(const Variables& weights) {
  int64_t count = 0;
  size_t bytes = 0;
  for (const Variable& weight : weights) {
    count += weight.shape().total_extent();
    bytes += static_cast<size_t>(weight.shape().total_extent()) * size_of(weight.dtype());
  }
  return fmt::format("{} ({})", with_commas(count), size_text(static_cast<double>(bytes)));
}

std::string shape_text(const Shape& shape) {
  std::vector<std::string> sizes;
  for (int64_t size : shape.extents()) {
    sizes.push_back(size < 0 ? "None" : std::to_string(size));
  }
  return fmt::format("({})", fmt::join(sizes, ", "));
}

std::string shape_text(const TensorSpecs& outputs) {
  if (outputs.empty()) return "?";
  std::vector<std::string> shapes;
  for (const TensorSpec& output : outputs) shapes.push_back(shape_text(output.shape));
  return shapes.size() == 1 ? shapes[0] : fmt::format("[{}]", fmt::join(shapes, ", "));
}

TextTable table_of(const Layer& model) {
  const auto* functional = dynamic_cast<const FunctionalBody*>(model.body().get());
  const bool connected = functional != nullptr && !functional->is_chain();
  TextTable table(connected
                      ? std::vector<TextTable::Column>{{"Layer (type)", 19},
                                                       {"Output Shape", 17},
                                                       {"Param #", 10, true},
                                                       {"Connected to", 17}}
                      : std::vector<TextTable::Column>{
                            {"Layer (type)", 31}, {"Output Shape", 22}, {"Param #", 13, true}});
  for (const Layer& layer : model.layers()) {
    const LayerBody& body = *layer.body();
    std::vector<std::string> row{fmt::format("{} ({})", body.name(), body.type_name()),
                                 shape_text(body.outputs()),
                                 layer.built() ? with_commas(layer.count_params()) : "0 (unbuilt)"};
    if (connected) {
      const std::vector<std::string> sources = functional->connections(body);
      row.push_back(sources.empty() ? "-" : fmt::format("{}", fmt::join(sources, ", ")));
    }
    table.add(std::move(row));
  }
  return table;
}

}  // namespace

std::string Model::summary() const {
  if (!built()) {
    throw FailedPrecondition(fmt::format(
        "{}: its weights are made when it is first called; call it or build() it before summary()",
        name()));
  }
  return fmt::format(
      "Model: \"{}\"\n{} Total params: {}\n Trainable params: {}\n Non-trainable params: {}\n",
      name(), table_of(*this).str(), params_text(weights()), params_text(trainable_weights()),
      params_text(non_trainable_weights()));
}

}  // namespace tandem::keras

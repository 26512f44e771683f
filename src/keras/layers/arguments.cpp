#include "keras/layers/arguments.h"

#include <fmt/format.h>

#include "tandem/error.h"

namespace tandem::keras::layers {
namespace {

template <class List>
const auto& only_of(const List& inputs) {
  if (inputs.size() == 1) return inputs[0];
  throw InvalidArgument(fmt::format("called with {} inputs, it takes one", inputs.size()));
}

void check_image_shape(const Shape& shape) {
  if (shape.rank() == 4) return;
  throw InvalidArgument(
      fmt::format("the input is {}, [batch,height,width,channels] is needed", shape.str()));
}

}  // namespace

DType FloatingBody::accepted(DType given) const {
  return given == DType::float64 ? given : DType::float32;
}

void at_least_one(const char* layer, const char* argument, int64_t value) {
  if (value >= 1) return;
  throw InvalidArgument(fmt::format("{}: {} is {}, at least 1 is needed", layer, argument, value));
}

std::array<int64_t, 2> at_least_one(const char* layer, const char* argument,
                                    const HeightWidth& value) {
  if (!value.given()) {
    throw InvalidArgument(
        fmt::format("{}: {} is left out, a number or two are needed", layer, argument));
  }
  for (int64_t size : value.sizes()) at_least_one(layer, argument, size);
  return value.sizes();
}

void check_rate(const char* layer, const char* argument, double rate) {
  if (rate >= 0 && rate < 1) return;
  throw InvalidArgument(
      fmt::format("{}: {} is {}, a number within [0, 1) is needed", layer, argument, rate));
}

void check_data_format(const char* layer, const std::string& data_format) {
  if (data_format == "channels_last") return;
  throw InvalidArgument(fmt::format(
      "{}: data_format is '{}', only 'channels_last' is accepted: [batch,height,width,channels]",
      layer, data_format));
}

Padding padding_of(const char* layer, const std::string& padding) {
  if (padding == "valid") return Padding::valid;
  if (padding == "same") return Padding::same;
  throw InvalidArgument(
      fmt::format("{}: padding is '{}', 'valid' and 'same' are accepted", layer, padding));
}

bool flag_of(const CallContext& context, const char* name, bool otherwise) {
  const auto given = context.arguments.find(name);
  if (given == context.arguments.end()) return otherwise;
  if (const bool* flag = std::get_if<bool>(&given->second)) return *flag;
  throw InvalidArgument(fmt::format("{} is given what is neither true nor false", name));
}

const TensorSpec& only(const TensorSpecs& inputs) { return only_of(inputs); }
const Tensor& only(const Tensors& inputs) { return only_of(inputs); }

int64_t width_of(const TensorSpec& input, int least_rank) {
  if (input.shape.rank() < least_rank) {
    throw InvalidArgument(
        fmt::format("the input is {}, at least {} axes are needed", input.shape.str(), least_rank));
  }
  return input.shape.extent(input.shape.rank() - 1);
}

int64_t channels_of(const TensorSpec& input) {
  check_image_shape(input.shape);
  return width_of(input, 4);
}

void check_images(const Tensor& input) { check_image_shape(input.shape()); }

}  // namespace tandem::keras::layers

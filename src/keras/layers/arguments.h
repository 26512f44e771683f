/// What several layers ask of their arguments and inputs. Errors name what is accepted; those about
/// inputs leave the layer's name to the caller, who puts it before them.
#pragma once

#include <string>

#include "tandem/keras/layers.h"
#include "tandem/ops/convolution.h"

namespace tandem::keras::layers {

/// A layer that computes with floating numbers: others become float32, as in Keras.
class FloatingBody : public LayerBody {
 public:
  using LayerBody::LayerBody;
  DType accepted(DType given) const override;
};

/// Throws InvalidArgument "dense: units is 0, at least 1 is needed".
void at_least_one(const char* layer, const char* argument, int64_t value);
std::array<int64_t, 2> at_least_one(const char* layer, const char* argument,
                                    const HeightWidth& value);

/// Throws InvalidArgument unless it is within [0, 1).
void check_rate(const char* layer, const char* argument, double rate);

/// Throws InvalidArgument unless it is "channels_last".
void check_data_format(const char* layer, const std::string& data_format);

/// "valid" or "same"; throws InvalidArgument for another.
Padding padding_of(const char* layer, const std::string& padding);

/// Whether a call is told so; `otherwise` where it is told nothing. Throws InvalidArgument for a
/// value that is no bool.
bool flag_of(const CallContext& context, const char* name, bool otherwise = false);

/// Throws InvalidArgument when there is not exactly one.
const TensorSpec& only(const TensorSpecs& inputs);
const Tensor& only(const Tensors& inputs);

/// The size of the last axis of an input with at least so many axes.
int64_t width_of(const TensorSpec& input, int least_rank);

/// The channels of [batch, height, width, channels].
int64_t channels_of(const TensorSpec& input);
void check_images(const Tensor& input);

}  // namespace tandem::keras::layers

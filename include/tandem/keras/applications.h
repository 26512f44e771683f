/// Well-known models with Keras's layers, names and numbers of parameters.
#pragma once

#include <optional>
#include <string>

#include "tandem/keras/layers.h"
#include "tandem/keras/model.h"

namespace tandem::keras::applications {

struct InceptionV3Options {
  bool include_top = true;               ///< The classifier at the end.
  std::optional<std::string> weights{};  ///< None: the weights are random.
  Shape input_shape{299, 299, 3};        ///< At least 75 high and wide.
  std::string pooling{};                 ///< "avg" or "max" over the last images, without a top.
  int64_t classes = 1000;
  keras::Activation classifier_activation = "softmax";
  std::string name = "inception_v3";
};

/// Szegedy and others, "Rethinking the Inception Architecture for Computer Vision": images
/// [batch, height, width, channels] with values from -1 to 1 to [batch, classes]. Throws
/// InvalidArgument for images that are too small, no classes, an unknown pooling, and for any
/// weights: nothing is downloaded, a checkpoint can be restored into the model.
TANDEM_API Model InceptionV3(const InceptionV3Options& options = {});

}  // namespace tandem::keras::applications

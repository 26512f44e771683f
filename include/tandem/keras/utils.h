/// Small things around models.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tandem/keras/model.h"
#include "tandem/tensor.h"

namespace tandem::keras::utils {

/// Classes as one-hot rows of float32: [n] becomes [n, num_classes], and so does [n, 1]. The labels
/// are whole numbers of any dtype; num_classes is one more than the largest unless given. Throws
/// InvalidArgument for a label that is no class, naming it and its place.
TANDEM_API Tensor to_categorical(const Tensor& labels, std::optional<int64_t> num_classes = {});

struct DotOptions {
  bool show_shapes = false;
  bool show_layer_names = true;
  std::string rankdir = "TB";  ///< From the top down, or "LR", from left to right.
};

/// The model's calls as a picture in the language of Graphviz, for `dot -Tsvg`.
TANDEM_API std::string model_to_dot(const Model& model, const DotOptions& options = {});

}  // namespace tandem::keras::utils

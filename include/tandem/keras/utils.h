/// Small things around models.
#pragma once

#include <cstdint>
#include <optional>

#include "tandem/tensor.h"

namespace tandem::keras::utils {

/// Classes as one-hot rows of float32: [n] becomes [n, num_classes], and so does [n, 1]. The labels
/// are whole numbers of any dtype; num_classes is one more than the largest unless given. Throws
/// InvalidArgument for a label that is no class, naming it and its place.
TANDEM_API Tensor to_categorical(const Tensor& labels, std::optional<int64_t> num_classes = {});

}  // namespace tandem::keras::utils

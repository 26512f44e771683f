/// The values of a tensor as NumPy lays them out.
#pragma once

#include <string>

#include "tandem/tensor.h"

namespace tandem {

/// Rows in brackets, columns aligned, lines of at most 75 characters; beyond 1000 elements only
/// three at each end of an axis. Lines after the first are indented by `indent` more.
std::string values_text(const Tensor& tensor, size_t indent);

}  // namespace tandem

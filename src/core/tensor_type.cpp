#include "core/tensor_type.h"

#include <fmt/format.h>

namespace tandem {

std::string TensorType::str() const { return fmt::format("{}{}", name_of(dtype), shape.str()); }

std::string listed(const TensorTypes& types) {
  std::string text;
  for (const TensorType& type : types) text += (text.empty() ? "" : ", ") + type.str();
  return text;
}

}  // namespace tandem

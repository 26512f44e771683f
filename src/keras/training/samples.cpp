#include "keras/training/samples.h"

#include <fmt/format.h>

#include <algorithm>

#include "tandem/error.h"

namespace tandem::keras {

int64_t Samples::rows(const char* who) const {
  std::optional<int64_t> rows;
  const auto check = [&](const char* what, size_t index, const Tensor& tensor) {
    if (!tensor.defined() || tensor.rank() == 0) {
      throw InvalidArgument(
          fmt::format("{}: {} {} has no rows; a tensor with a leading axis of samples is needed",
                      who, what, index));
    }
    if (rows && *rows != tensor.shape()[0]) {
      throw InvalidArgument(fmt::format("{}: {} {} has {} rows, x has {}", who, what, index,
                                        tensor.shape()[0], *rows));
    }
    rows = int64_t{tensor.shape()[0]};
  };
  for (size_t i = 0; i < x.size(); ++i) check("x", i, x[i]);
  for (size_t i = 0; i < y.size(); ++i) check("y", i, y[i]);
  if (weight.defined()) check("sample_weight", 0, weight);
  if (!rows || *rows == 0) throw InvalidArgument(fmt::format("{}: there are no samples", who));
  return *rows;
}

Samples Samples::part(int64_t begin, int64_t end) const {
  const auto of = [&](const Tensors& tensors) {
    Tensors part;
    for (const Tensor& tensor : tensors) part.push_back(tensor.rows(begin, end));
    return part;
  };
  return {of(x), of(y), weight.defined() ? weight.rows(begin, end) : Tensor()};
}

data::Dataset Samples::slices() const {
  Tensors all = x;
  all.insert(all.end(), y.begin(), y.end());
  if (weight.defined()) all.push_back(weight);
  return data::Dataset::from_tensor_slices(all);
}

int64_t batch_size_of(const char* who, std::optional<int64_t> given, std::optional<int64_t> steps,
                      int64_t rows) {
  constexpr int64_t kUsual = 32;
  if (given && *given < 1) {
    throw InvalidArgument(fmt::format("{}: batch_size is {}, 1 or more is accepted", who, *given));
  }
  if (!given && steps && *steps > 0) return rows / *steps + (rows % *steps == 0 ? 0 : 1);
  return std::min(given.value_or(kUsual), rows);
}

}  // namespace tandem::keras

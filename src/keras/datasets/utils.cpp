#include "tandem/keras/utils.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::keras::utils {
namespace {

/// The labels as numbers. A fraction is no class.
std::vector<int64_t> classes_of(const Tensor& labels) {
  const std::vector<double> numbers = cast(labels, DType::float64).to_vector<double>();
  std::vector<int64_t> classes;
  classes.reserve(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    constexpr double kMost = 0x1p53;
    if (!(numbers[i] >= 0 && numbers[i] < kMost) || numbers[i] != std::floor(numbers[i])) {
      throw InvalidArgument(fmt::format(
          "to_categorical: label {} is {}; classes are whole numbers from 0 on", i, numbers[i]));
    }
    classes.push_back(static_cast<int64_t>(numbers[i]));
  }
  return classes;
}

}  // namespace

Tensor to_categorical(const Tensor& labels, std::optional<int64_t> num_classes) {
  Shape shape = labels.shape();
  if (shape.rank() > 1 && shape.extent(shape.rank() - 1) == 1)
    shape = shape.without(shape.rank() - 1);
  const std::vector<int64_t> classes = classes_of(labels);
  const auto largest = std::ranges::max_element(classes);
  const int64_t needed = classes.empty() ? 0 : *largest + 1;
  const int64_t depth = num_classes.value_or(needed);
  if (needed > depth) {
    throw InvalidArgument(fmt::format("to_categorical: label {} is {}, but there are {} classes",
                                      largest - classes.begin(), *largest, depth));
  }
  return one_hot(Tensor::from(classes, shape), depth);
}

}  // namespace tandem::keras::utils

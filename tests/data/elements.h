/// What a data set gives, in a form that tests can compare.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tandem/data.h"
#include "tandem/tandem.h"

namespace tandem::data {

/// Each element's tensors as text.
inline std::string text_of(const Element& element) {
  std::string text;
  for (const Tensor& tensor : element) text += tensor.str();
  return text;
}

/// The rest of the elements, at most `most`.
inline std::vector<std::string> texts_of(Iterator iterator, int most = 1000) {
  std::vector<std::string> texts;
  while (static_cast<int>(texts.size()) < most) {
    const auto element = iterator.next();
    if (!element) break;
    texts.push_back(text_of(*element));
  }
  return texts;
}

/// The int64 numbers of the first tensors of an epoch's elements, one after another.
inline std::vector<int64_t> numbers_of(Iterator iterator, size_t most = 1000) {
  std::vector<int64_t> numbers;
  while (numbers.size() < most) {
    const auto element = iterator.next();
    if (!element) break;
    for (const int64_t number : (*element)[0].to_vector<int64_t>()) numbers.push_back(number);
  }
  return numbers;
}

inline std::vector<int64_t> numbers_of(const Dataset& dataset, int64_t epoch = 0) {
  return numbers_of(dataset.iterator(epoch));
}

/// The sizes of an epoch's batches.
inline std::vector<int64_t> sizes_of(const Dataset& dataset) {
  std::vector<int64_t> sizes;
  for (const Element& element : dataset) sizes.push_back(element[0].shape()[0]);
  return sizes;
}

using Numbers = std::vector<int64_t>;

/// 0, 1, .. as an array in memory.
inline Tensor counting(int64_t rows) {
  Numbers numbers;
  for (int64_t i = 0; i < rows; ++i) numbers.push_back(i);
  return Tensor::from(numbers, {rows});
}

}  // namespace tandem::data

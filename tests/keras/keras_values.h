/// The tensors of tests/fixtures/keras_losses.txt by name, float64.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tandem/tensor.h"

namespace tandem::keras {

struct KerasValue {
  Shape shape;
  std::vector<double> numbers;
};

inline std::map<std::string, KerasValue> read_keras_values() {
  std::map<std::string, KerasValue> values;
  std::ifstream file(TANDEM_FIXTURES_DIR "/keras_losses.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name, sizes;
    words >> name >> sizes;
    KerasValue& value = values[name];
    if (sizes != "scalar") {
      std::istringstream axes(sizes);
      for (std::string size; std::getline(axes, size, 'x');) {
        value.shape = value.shape.inserted(value.shape.rank(), std::stoll(size));
      }
    }
    for (double number; words >> number;) value.numbers.push_back(number);
  }
  return values;
}

/// On the devices there are now. Throws std::out_of_range for a name that the file does not have.
inline Tensor keras_value(const std::string& name) {
  static const std::map<std::string, KerasValue> values = read_keras_values();
  const KerasValue& value = values.at(name);
  return Tensor::from(value.numbers, value.shape);
}

inline void expect_near(const Tensor& got, const Tensor& expected, double tolerance,
                        const std::string& what) {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  const auto numbers = got.to_vector<double>();
  const auto wanted = expected.to_vector<double>();
  for (size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_NEAR(numbers[i], wanted[i], tolerance) << what << " " << i;
  }
}

}  // namespace tandem::keras

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "device/test/test_device.h"
#include "harness/fresh_devices.h"
#include "tandem/tandem.h"

namespace tandem {
namespace {

struct Case {
  std::string dtype;
  std::vector<int64_t> sizes;
  std::vector<double> values;
  std::string text;
};

DType dtype_named(const std::string& name) {
  using enum DType;
  for (DType dtype : {float32, float64, float16, bfloat16, uint8, int32, int64, boolean}) {
    if (name_of(dtype) == name) return dtype;
  }
  throw NotFound("no dtype " + name);
}

std::vector<double> values_in(const std::string& line, int64_t count) {
  std::istringstream words(line);
  std::vector<double> values;
  std::string word;
  if (line.starts_with("range")) {
    double start = 0;
    double step = 0;
    words >> word >> start >> step;
    for (int64_t i = 0; i < count; ++i) values.push_back(start + step * static_cast<double>(i));
  } else {
    while (words >> word) values.push_back(std::strtod(word.c_str(), nullptr));
  }
  return values;
}

std::vector<Case> numpy_cases() {
  std::ifstream file(std::string(TANDEM_FIXTURES_DIR) + "/numpy_print.txt");
  std::vector<Case> cases;
  for (std::string line; std::getline(file, line);) {
    Case found;
    std::istringstream head(line);
    head >> found.dtype;
    for (int64_t size = 0; head >> size;) found.sizes.push_back(size);
    std::getline(file, line);
    found.values = values_in(line, Shape(found.sizes).count());
    std::getline(file, line);
    for (int lines = std::stoi(line); lines > 0; --lines) {
      std::getline(file, line);
      found.text += (found.text.empty() ? "" : "\n") + line;
    }
    cases.push_back(std::move(found));
  }
  return cases;
}

Tensor tensor_of(const Case& c) {
  const Shape shape(c.sizes);
  if (c.dtype == "float32") {  // A cast would make zeros of the smallest.
    return Tensor::from(std::vector<float>(c.values.begin(), c.values.end()), shape);
  }
  return cast(Tensor::from(c.values, shape), dtype_named(c.dtype));
}

class Print : public harness::FreshDevices {};

TEST_F(Print, ValuesLookAsInNumpy) {
  const auto cases = numpy_cases();
  EXPECT_GT(cases.size(), 150u);
  for (const Case& c : cases) {
    const Shape shape(c.sizes);
    const Tensor tensor = tensor_of(c);
    EXPECT_EQ(tensor.str(), "Tensor(" + c.text + ", shape=" + shape.str() + ", dtype=" + c.dtype +
                                ", device=/device:CPU:0)");
  }
}

TEST_F(Print, Bfloat16HasFewDigits) {
  EXPECT_EQ(cast(Tensor::of({1.0, 0.1, -3.140625}), DType::bfloat16).str(),
            "Tensor([ 1.    0.1  -3.14], shape=[3], dtype=bfloat16, device=/device:CPU:0)");
  EXPECT_EQ(cast(Tensor(0.1), DType::bfloat16).str(),
            "Tensor(0.1, shape=[], dtype=bfloat16, device=/device:CPU:0)");
}

TEST_F(Print, ATensorGoesToAStream) {
  std::ostringstream stream;
  stream << Tensor::of({{1.F, 2.F}, {3.F, 4.F}});
  EXPECT_EQ(stream.str(),
            "Tensor([[1. 2.]\n        [3. 4.]], shape=[2,2], dtype=float32, "
            "device=/device:CPU:0)");
}

TEST_F(Print, ATensorOnAnotherDeviceShowsItsValues) {
  devices::test::add_test_gpu();
  const auto scope = device("GPU:0");
  EXPECT_EQ(fill({2}, 2).str(), "Tensor([2. 2.], shape=[2], dtype=float32, device=/device:GPU:0)");
}

TEST_F(Print, ATracedTensorHasNoValues) {
  std::string text;
  function([&](const Tensor& x) {
    text = x.str();
    return x;
  })(Tensor::of({1.F, 2.F}));
  EXPECT_EQ(text, "Tensor(shape=[None], dtype=float32, traced)");
}

}  // namespace
}  // namespace tandem

// What goes along an axis, on OpenCL in both forms: reductions, softmax, losses, normalisations. In
// sizes around those of groups and lanes, and with the dtypes that the rows of tests/ops do not
// have. Results are compared with the CPU's, and with those of a second run.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "harness/fresh_devices.h"
#include "harness/op_check.h"
#include "harness/opencl.h"
#include "harness/throws.h"
#include "op/apply.h"
#include "op/registry.h"

namespace tandem::harness {
namespace {

using Axes = std::vector<int>;

struct Plain {
  DType dtype;
  Shape shape;
  std::vector<char> bytes;

  bool operator==(const Plain&) const = default;
  double at(size_t i) const {
    const auto number = [&](auto zero) {
      std::memcpy(&zero, bytes.data() + i * sizeof zero, sizeof zero);
      return static_cast<double>(zero);
    };
    switch (dtype) {
      case DType::float32:
        return number(float());
      case DType::float64:
        return number(double());
      case DType::int32:
        return number(int32_t());
      case DType::int64:
        return number(int64_t());
      default:
        return number(uint8_t());
    }
  }
};

Plain plain_of(const Tensor& tensor) {
  Plain plain{tensor.dtype(), tensor.shape(), {}};
  plain.bytes.resize(static_cast<size_t>(tensor.shape().count()) * size_of(tensor.dtype()));
  if (!plain.bytes.empty()) tensor.copy_to_host(plain.bytes.data());
  return plain;
}

Tensor tensor_of(const Plain& plain) {
  return Tensor::copy_of(plain.bytes.data(), plain.dtype, plain.shape);
}

template <class T>
Plain numbers(DType dtype, const Shape& shape, const std::function<double(int64_t)>& number) {
  Plain plain{dtype, shape, {}};
  const int64_t count = shape.count();
  std::vector<T> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = static_cast<T>(number(i));
  plain.bytes.resize(values.size() * sizeof(T));
  if (count > 0) std::memcpy(plain.bytes.data(), values.data(), plain.bytes.size());
  return plain;
}

/// Spread over [-2, 2], or over whole numbers from 0 to 99, or over truth values.
Plain spread_of(DType dtype, const Shape& shape, int64_t seed = 1) {
  const auto u = [seed](int64_t i) {
    return static_cast<double>((static_cast<uint64_t>(i * 7919 + seed) * 2654435761u) % 10007) /
           10007;
  };
  const auto whole = [&](int64_t i) { return std::floor(u(i) * 100); };
  switch (dtype) {
    case DType::float32:
      return numbers<float>(dtype, shape, [&](int64_t i) { return u(i) * 4 - 2; });
    case DType::float64:
      return numbers<double>(dtype, shape, [&](int64_t i) { return u(i) * 4 - 2; });
    case DType::int32:
      return numbers<int32_t>(dtype, shape, whole);
    case DType::int64:
      return numbers<int64_t>(dtype, shape, whole);
    case DType::boolean:
      return numbers<uint8_t>(dtype, shape, [&](int64_t i) { return u(i) < 0.01 ? 1 : 0; });
    default:
      return numbers<uint8_t>(dtype, shape, whole);
  }
}

struct Case {
  std::string name;
  std::vector<Plain> inputs;
  std::function<Tensors(const Tensors&)> f;
  double magnitude = 1;  // How large what is added up to one number is.
};
using Outcome = std::vector<Plain>;

/// All cases as one function, so that their kernels are compiled together.
std::vector<Outcome> outcomes_of(const std::vector<Case>& cases) {
  Tensors inputs;
  for (const Case& one : cases) {
    for (const Plain& input : one.inputs) inputs.push_back(tensor_of(input));
  }
  std::vector<size_t> results(cases.size());
  const FlatFunction all([&](const Tensors& arguments) {
    Tensors everything;
    auto next = arguments.begin();
    for (size_t i = 0; i < cases.size(); ++i) {
      const auto end = next + static_cast<int64_t>(cases[i].inputs.size());
      const Tensors own = cases[i].f({next, end});
      next = end;
      results[i] = own.size();
      everything.insert(everything.end(), own.begin(), own.end());
    }
    return everything;
  });
  const Tensors everything = all(inputs);
  std::vector<Outcome> outcomes(cases.size());
  size_t next = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    for (size_t k = 0; k < results[i]; ++k) outcomes[i].push_back(plain_of(everything[next++]));
  }
  return outcomes;
}

void expect_near(const Outcome& got, const Outcome& wanted, double magnitude,
                 const std::string& name) {
  ASSERT_EQ(got.size(), wanted.size()) << name;
  for (size_t k = 0; k < got.size(); ++k) {
    ASSERT_EQ(got[k].shape, wanted[k].shape) << name;
    ASSERT_EQ(got[k].dtype, wanted[k].dtype) << name;
    const double tolerance = got[k].dtype == DType::float32   ? 1e-5
                             : got[k].dtype == DType::float64 ? 1e-12
                                                              : 0;
    for (size_t i = 0; i < got[k].bytes.size() / size_of(got[k].dtype); ++i) {
      const double g = got[k].at(i), w = wanted[k].at(i);
      if (g == w || (std::isnan(g) && std::isnan(w))) continue;
      ASSERT_LE(std::abs(g - w), tolerance * std::max(magnitude, std::abs(w)))
          << name << ", result " << k << ", element " << i << ": " << g << " instead of " << w;
    }
  }
}

std::string text_of(KernelForm form) {
  return form == KernelForm::serial ? " in the serial form" : " in the parallel form";
}

class GpuAxis : public FreshDevices {
 protected:
  /// On the CPU, and on OpenCL in both forms, twice.
  static void check(const std::vector<Case>& cases) {
    const std::vector<Outcome> wanted = outcomes_of(cases);
    for (const KernelForm form : {KernelForm::serial, KernelForm::parallel}) {
      restart();
      use_opencl(form);
      const std::vector<Outcome> got = outcomes_of(cases);
      const std::vector<Outcome> again = outcomes_of(cases);
      for (size_t i = 0; i < cases.size(); ++i) {
        const std::string name = cases[i].name + text_of(form);
        expect_near(got[i], wanted[i], cases[i].magnitude, name);
        EXPECT_TRUE(again[i] == got[i]) << name << ": a second run gives other bits";
      }
    }
  }
};

Tensors call(const char* op, const Tensors& inputs, const op::Attrs& attrs = {}) {
  return op::apply(op::find_op(op), inputs, attrs);
}

std::string named(const std::string& name, const Plain& input) {
  return name + " of " + std::string(name_of(input.dtype)) + input.shape.str();
}

using ReduceFn = Tensor (*)(const Tensor&, const ReduceOptions&);

Case reduction(const std::string& name, ReduceFn reduce, const Plain& x, const Axes& axes) {
  std::string text = named(name, x) + " over";
  for (int axis : axes) text += " " + std::to_string(axis);
  int64_t meeting = 1;
  for (int axis : axes) meeting *= x.shape[axis];
  return {text,
          {x},
          [=](const Tensors& t) -> Tensors { return {reduce(t[0], {.axes = axes})}; },
          1 + 0.1 * static_cast<double>(meeting)};
}

TEST_F(GpuAxis, SumsOfAllSizes) {
  std::vector<Case> cases;
  const auto add = [&](const Shape& shape, const Axes& axes) {
    cases.push_back(reduction("sum", reduce_sum, spread_of(DType::float32, shape), axes));
  };
  for (int64_t n : {0, 1, 3, 255, 256, 257, 1000}) {
    for (int64_t m : {0, 1, 7, 64, 65, 300}) {
      add({n, m}, {0});
      add({n, m}, {1});
    }
    add({5, n, 3}, {1});
    add({5, n, 3}, {0, 2});
    add({n}, {0});
  }
  add({3, 4, 5, 6, 7, 2}, {1, 3, 5});
  add({3, 4, 5, 6, 7, 2}, {0, 2, 4});
  add({2, 1, 3}, {});
  // So many elements meet in few that they are reduced in parts.
  add({100003}, {0});
  add({3, 70001}, {1});
  add({20011, 7}, {0});
  add({4001, 65}, {0});
  add({2, 9001, 5}, {1});
  add({501, 2, 130}, {0, 2});
  check(cases);
}

TEST_F(GpuAxis, SumsOfMillionsStayExact) {
  for (const KernelForm form : {KernelForm::serial, KernelForm::parallel}) {
    restart();
    use_opencl(form);
    for (const Shape& shape : {Shape{1 << 20, 1}, Shape{1 << 20, 3}}) {
      const Tensor tenths = fill(shape, 0.1);
      for (float sum : reduce_sum(tenths, {.axes = Axes{0}}).to_vector<float>()) {
        EXPECT_NEAR(sum / (double{0.1f} * (1 << 20)), 1, 1e-6) << text_of(form);
      }
    }
  }
}

/// The rows of tests/ops have float32 and float64.
TEST_F(GpuAxis, ReductionsOfOtherDtypes) {
  using enum DType;
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, ReduceFn reduce, DType dtype, int axis) {
    cases.push_back(reduction(name, reduce, spread_of(dtype, {37, 300}), {axis}));
    if (axis == 0) cases.push_back(reduction(name, reduce, spread_of(dtype, {0, 3}), {0}));
  };
  add("sum", reduce_sum, int32, 1);
  add("sum", reduce_sum, int64, 0);
  add("prod", reduce_prod, int32, 0);
  add("prod", reduce_prod, int64, 1);
  add("max", reduce_max, uint8, 0);
  add("max", reduce_max, int32, 1);
  add("min", reduce_min, uint8, 1);
  add("min", reduce_min, int64, 0);
  add("any", reduce_any, boolean, 0);
  add("all", reduce_all, boolean, 1);
  check(cases);
}

TEST_F(GpuAxis, PlacesOfTheLargestAndSmallest) {
  using enum DType;
  std::vector<Case> cases;
  const auto add = [&](const Plain& x, int axis) {
    cases.push_back({named("places", x), {x}, [axis](const Tensors& t) -> Tensors {
                       return {argmax(t[0], axis), argmin(t[0], axis)};
                     }});
  };
  add(spread_of(float32, {300, 70}), 0);
  for (int64_t n : {1, 3, 31, 33, 255, 256, 257, 1000}) {
    add(spread_of(float32, {3, n}), 1);
    add(spread_of(float32, {2, n, 3}), 1);
  }
  const auto largest = [](const Tensors& t) -> Tensors { return {argmax(t[0], 0)}; };
  cases.push_back({"bytes", {spread_of(uint8, {300})}, largest});
  cases.push_back({"whole numbers", {spread_of(int64, {300, 70})}, largest});
  // NaN is never the largest; where there is nothing else, the first is.
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto holes = [&](int64_t i) { return i % 2 == 0 || i < 70 ? nan : -double(i); };
  for (const Shape& shape : {Shape{3, 70}, Shape{70, 3}, Shape{3, 3}}) {
    add(numbers<float>(float32, shape, holes), 0);
    add(numbers<float>(float32, shape, holes), 1);
  }
  check(cases);
}

TEST_F(GpuAxis, CumulativeSums) {
  using enum DType;
  std::vector<Case> cases;
  const auto add = [&](const Plain& x, int axis) {
    cases.push_back({named("sums", x), {x}, [axis](const Tensors& t) -> Tensors {
                       return {cumsum(t[0], {.axis = axis}),
                               cumsum(t[0], {.axis = axis, .exclusive = true}),
                               cumsum(t[0], {.axis = axis, .reverse = true}),
                               cumsum(t[0], {.axis = axis, .exclusive = true, .reverse = true})};
                     }});
  };
  add(spread_of(int64, {3, 300}), 1);
  add(spread_of(int32, {30, 70}), 0);
  // Whole numbers, which float32 adds exactly in any order.
  for (int64_t n : {0, 1, 3, 64, 255, 256, 257, 1000}) {
    const auto whole = [](int64_t i) { return static_cast<double>(i % 7); };
    add(numbers<float>(float32, {3, n}, whole), 1);
    add(numbers<float>(float32, {2, n, 3}, whole), 1);
    add(numbers<float>(float32, {n, 300}, whole), 0);
  }
  check(cases);
}

TEST_F(GpuAxis, SoftmaxAndItsGradients) {
  using enum DType;
  std::vector<Case> cases;
  const auto add = [&](DType dtype, const Shape& shape, int64_t axis) {
    const Plain x = spread_of(dtype, shape), y = spread_of(dtype, shape, 5);
    cases.push_back({named("softmax", x), {x, y}, [axis](const Tensors& t) -> Tensors {
                       const op::Attrs attrs = {{"axis", axis}};
                       return {call("softmax", {t[0]}, attrs)[0],
                               call("log_softmax", {t[0]}, attrs)[0],
                               call("softmax_grad", {t[0], t[1]}, attrs)[0],
                               call("log_softmax_grad", {t[0], t[1]}, attrs)[0]};
                     }});
  };
  add(float32, {40, 70}, 0);
  for (int64_t n : {0, 1, 3, 31, 33, 255, 256, 257, 1000}) {
    add(float32, {3, n}, 1);
    add(float32, {2, n, 3}, 1);
  }
  // NaN and infinities take their line with them.
  const auto odd = [](int64_t i) {
    return i == 7    ? std::numeric_limits<double>::quiet_NaN()
           : i == 50 ? std::numeric_limits<double>::infinity()
           : i < 40  ? static_cast<double>(i)
                     : -std::numeric_limits<double>::infinity();
  };
  const Plain x = numbers<float>(float32, {4, 40}, odd);
  for (int64_t axis : {0, 1}) {
    cases.push_back({"softmax of infinities", {x}, [axis](const Tensors& t) {
                       return Tensors{call("softmax", t, {{"axis", axis}})[0],
                                      call("log_softmax", t, {{"axis", axis}})[0]};
                     }});
  }
  check(cases);
}

TEST_F(GpuAxis, Losses) {
  using enum DType;
  std::vector<Case> cases;
  const auto add = [&](DType dtype, int64_t rows, int64_t classes) {
    const Shape shape{rows, classes};
    const Plain logits = spread_of(dtype, shape);
    const Plain labels = spread_of(dtype, shape, 9);
    for (const bool one : {false, true}) {
      cases.push_back({named("softmax", logits), {logits, labels}, [one](const Tensors& t) {
                         return call("softmax_cross_entropy", t, {{"labels_sum_to_one", one}});
                       }});
    }
    cases.push_back({named("sigmoid", logits), {logits, labels}, [](const Tensors& t) {
                       return call("sigmoid_cross_entropy", t);
                     }});
    if (classes == 0) return;
    const auto picked = [=](int64_t row) { return static_cast<double>(row * 31 % classes); };
    for (const Plain& picks :
         {numbers<int32_t>(int32, {rows}, picked), numbers<int64_t>(int64, {rows}, picked)}) {
      cases.push_back({named("sparse", logits), {logits, picks}, [](const Tensors& t) {
                         return call("sparse_softmax_cross_entropy", t);
                       }});
    }
  };
  for (int64_t classes : {0, 1, 3, 10, 255, 256, 257, 1000}) add(float32, 9, classes);
  add(float32, 0, 3);
  add(float32, 300, 10);
  check(cases);
}

TEST_F(GpuAxis, LabelsOutOfRangeAreNamed) {
  for (const KernelForm form : {KernelForm::serial, KernelForm::parallel}) {
    restart();
    use_opencl(form);
    for (int64_t bad : {int64_t{10}, int64_t{-1}, int64_t{1} << 60}) {
      std::vector<int64_t> labels(300, 3);
      labels[257] = bad;
      const std::string text = "sparse_softmax_cross_entropy_with_logits: label " +
                               std::to_string(bad) + " of row 257 is not within the 10 classes";
      EXPECT_TRUE(throws<InvalidArgument>(
          [&] {
            sparse_softmax_cross_entropy_with_logits(Tensor::from(labels, {300}),
                                                     fill({300, 10}, 1.0))
                .to_vector<float>();
          },
          {text}))
          << text_of(form);
    }
  }
}

TEST_F(GpuAxis, LayerNormAndItsGradients) {
  using enum DType;
  std::vector<Case> cases;
  const auto add = [&](DType dtype, int64_t lines, int64_t length) {
    const Plain x = spread_of(dtype, {lines, length}), g = spread_of(dtype, {lines, length}, 3);
    const Plain gamma = spread_of(dtype, {length}, 5), beta = spread_of(dtype, {length}, 7);
    cases.push_back(
        {named("layer_norm", x),
         {x, g, gamma, beta},
         [](const Tensors& t) {
           const op::Attrs attrs = {{"axis", int64_t{1}}, {"epsilon", 1e-3}};
           Tensors all = call("layer_norm", {t[0], t[2], t[3]}, attrs);
           const Tensors by_x = call("layer_norm_grad", {t[1], t[0], all[1], all[2], t[2]}, attrs);
           const Tensors by_parameters =
               call("layer_norm_parameter_grad", {t[1], t[0], all[1], all[2]}, attrs);
           all.push_back(by_x[0]);
           all.insert(all.end(), by_parameters.begin(), by_parameters.end());
           return all;
         },
         1 + 0.1 * static_cast<double>(lines)});
  };
  add(float32, 300, 70);
  for (int64_t n : {0, 1, 3, 255, 256, 257, 1000}) {
    add(float32, 3, n);
    if (n != 1) add(float32, n, 5);
  }
  add(float32, 5001, 9);
  check(cases);
}

TEST_F(GpuAxis, BatchNormAndItsGradients) {
  using enum DType;
  std::vector<Case> cases;
  const auto add = [&](DType dtype, const Shape& shape) {
    const Plain x = spread_of(dtype, shape), g = spread_of(dtype, shape, 3);
    const Shape channels{shape[shape.rank() - 1]};
    const Plain gamma = spread_of(dtype, channels, 5), beta = spread_of(dtype, channels, 7);
    cases.push_back(
        {named("batch_norm", x),
         {x, g, gamma, beta},
         [](const Tensors& t) {
           Tensors all = call("channel_moments", {t[0]});
           const Tensor inverse = call("inverse_deviation", {all[1]}, {{"epsilon", 1e-3}})[0];
           all.push_back(inverse);
           all.push_back(call("batch_normalize", {t[0], all[0], inverse, t[2], t[3]},
                              {{"own_statistics", true}})[0]);
           const Tensors sums = call("channel_sums", {t[1], t[0], all[0]});
           all.insert(all.end(), sums.begin(), sums.end());
           all.push_back(call("batch_normalize_grad",
                              {t[1], t[0], all[0], inverse, t[2], sums[0], sums[1]})[0]);
           return all;
         },
         1 + 0.1 * static_cast<double>(shape.count() / std::max<int64_t>(1, channels[0]))});
  };
  add(float32, {4, 5, 300});
  for (int64_t n : {0, 1, 3, 255, 256, 257, 1000}) {
    add(float32, {3, 2, n});
    add(float32, {n, 6});
  }
  add(float32, {40, 30, 9});
  add(float32, {9001, 32});
  check(cases);
}

}  // namespace
}  // namespace tandem::harness

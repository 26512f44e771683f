// The kernels of single elements on OpenCL, in both forms, against the CPU's: each function over
// all magnitudes, broadcasting over odd sizes, whole numbers, casts, epilogues.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

#include "harness/fresh_devices.h"
#include "harness/opencl.h"
#include "kernels/cpu/elementwise/epilogue.h"
#include "kernels/cpu/elementwise/pointwise.h"
#include "kernels/gpu/elementwise/gpu_epilogue.h"
#include "op/apply.h"
#include "op/expression.h"
#include "op/registry.h"
#include "tandem/tandem.h"
#include "tensor/body.h"

namespace tandem::harness {
namespace {

template <class T>
using Limits = std::numeric_limits<T>;

using kernels::cpu::Table;

class GpuElementwise : public FreshDevices, public testing::WithParamInterface<KernelForm> {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    use_opencl(GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(, GpuElementwise,
                         testing::Values(KernelForm::serial, KernelForm::parallel),
                         [](const auto& form) {
                           return form.param == KernelForm::serial ? "Serial" : "Parallel";
                         });

using Compute = std::function<Tensors()>;

Tensors on(std::string_view name, const Compute& f) {
  const DeviceScope scope = device(name);
  return f();
}

std::vector<char> bytes_of(const Tensor& tensor) {
  std::vector<char> bytes(static_cast<size_t>(tensor.shape().count()) * size_of(tensor.dtype()));
  if (!bytes.empty()) tensor.copy_to_host(bytes.data());
  return bytes;
}

/// What is made of inputs on both devices has the same bits, also when it is made again.
void expect_equal(const std::string& what, const Compute& f) {
  const Tensors wanted = on("/CPU:0", f);
  for (int time = 0; time < 2; ++time) {
    const Tensors got = on("/GPU:0", f);
    ASSERT_EQ(got.size(), wanted.size()) << what;
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].shape(), wanted[i].shape()) << what;
      EXPECT_EQ(bytes_of(got[i]), bytes_of(wanted[i])) << what << ", result " << i;
    }
  }
}

/// Both signs of: powers of two through the whole range with points between, grids where most
/// functions bend, zero, infinity; and NaN.
template <class T>
std::vector<T> points() {
  std::vector<T> positive = {0, Limits<T>::infinity()};
  for (int e = Limits<T>::min_exponent; e < Limits<T>::max_exponent; ++e) {
    for (double m : {1.0, 1.37, 1.83}) positive.push_back(static_cast<T>(std::ldexp(m, e - 1)));
  }
  for (int i = 1; i < 4'000; ++i) positive.push_back(static_cast<T>(i * 0.00373));
  for (int i = 1; i < 1'000; ++i) positive.push_back(static_cast<T>(i * 0.917));
  std::vector<T> all = {Limits<T>::quiet_NaN()};
  for (T x : positive) {
    all.push_back(x);
    all.push_back(-x);
  }
  return all;
}

/// The distance in units in the last place. Next to the subnormal numbers, which are zero, products
/// of small factors are good to fewer digits.
template <class T>
double units_apart(T got, T wanted) {
  if (std::isnan(wanted)) return std::isnan(got) ? 0 : Limits<double>::infinity();
  if (got == wanted) return 0;
  if (!std::isfinite(wanted) || !std::isfinite(got)) return Limits<double>::infinity();
  const T magnitude = std::max({std::abs(wanted), std::abs(got), 1000 * Limits<T>::min()});
  const T unit = std::nextafter(magnitude, Limits<T>::infinity()) - magnitude;
  return static_cast<double>(std::abs(got - wanted) / unit);
}

op::Attrs attributes_of(std::string_view op) {
  if (op.starts_with("clip")) return {{"low", -0.75}, {"high", 1.25}};
  if (op.starts_with("elu") || op.starts_with("leaky")) return {{"alpha", 0.3}};
  return {};
}

/// All functions of x and another number, in a few fused kernels.
template <class T>
void compare_functions() {
  const std::vector<T> x = points<T>();
  std::vector<T> other(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    other[i] = static_cast<T>(static_cast<double>(i % 7 + 1) * (i % 2 == 0 ? 0.37 : -0.61));
  }
  std::vector<const kernels::cpu::Pointwise<T>*> functions;
  for (const auto& family : {kernels::cpu::arithmetic_functions<T>(Table::printing),
                             kernels::cpu::math_functions<T>(Table::printing),
                             kernels::cpu::activation_functions<T>(Table::printing),
                             kernels::cpu::selection_functions<T>(Table::printing)}) {
    for (const auto& function : family) functions.push_back(&function);
  }
  const Shape shape{static_cast<int64_t>(x.size())};
  const auto all = [&] {
    const Tensor one = Tensor::from(std::vector<T>(x.size(), 1), shape);
    const Tensors inputs = {Tensor::from(x, shape), Tensor::from(other, shape), one, one};
    return FlatFunction([&](const Tensors& t) {
      // Calls are fused with the one that they take their operand from, up to 32 of them.
      const Tensors bases = {t[0] * t[2], t[0] * t[3]};
      Tensors results;
      for (const auto* function : functions) {
        const Tensor& base = bases[results.size() < functions.size() / 2 ? 0 : 1];
        Tensors operands = {base};
        if (function->inputs == 2) {
          operands = function->name.ends_with("_grad") ? Tensors{t[1], base} : Tensors{base, t[1]};
        }
        results.push_back(
            op::apply_one(op::find_op(function->name), operands, attributes_of(function->name)));
      }
      return results;
    })(inputs);
  };
  const Tensors wanted = on("/CPU:0", all);
  const Tensors got = on("/GPU:0", all);
  for (size_t k = 0; k < functions.size(); ++k) {
    const auto a = got[k].to_vector<T>();
    const auto b = wanted[k].to_vector<T>();
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      const double apart = units_apart(a[i], b[i]);
      if (apart > worst) {
        worst = apart;
        at = i;
      }
    }
    EXPECT_LE(worst, 8) << functions[k]->name << " is worst at " << x[at] << ": " << a[at]
                        << " in place of " << b[at];
  }
}

TEST_P(GpuElementwise, FunctionsAgreeWithTheCpus) {
  compare_functions<float>();
  if (GetParam() == KernelForm::serial) compare_functions<double>();
}

TEST(GpuElementwiseOps, HaveKernelsForTheTypesOfTheCpus) {
  const op::Registry& registry = op::Registry::instance();
  std::vector<std::string> ops = {"equal",
                                  "not_equal",
                                  "less",
                                  "less_equal",
                                  "greater",
                                  "greater_equal",
                                  "logical_and",
                                  "logical_or",
                                  "logical_xor",
                                  "logical_not",
                                  "is_nan",
                                  "is_inf",
                                  "is_finite",
                                  "where",
                                  "cast",
                                  "broadcast_to",
                                  "fill",
                                  "share",
                                  "inverse_deviation",
                                  "dropout_keep",
                                  "sigmoid_cross_entropy",
                                  "fused",
                                  "gelu_with_slope",
                                  "gelu_tanh_with_slope",
                                  "silu_with_slope"};
  for (const std::string& name : registry.op_names()) {
    if (registry.op(name).pointwise) ops.push_back(name);
  }
  for (const std::string& name : ops) {
    for (DType dtype : kernels::all_dtypes()) {
      EXPECT_EQ(registry.has_kernel(name, "gpu", dtype), registry.has_kernel(name, "cpu", dtype))
          << name << " of " << name_of(dtype);
    }
  }
}

/// Small whole numbers, with which arithmetic is exact.
Tensor counting(const Shape& shape, int first) {
  std::vector<float> values(static_cast<size_t>(shape.count()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((static_cast<int>(i) * 7 + first) % 61);
  }
  return Tensor::from(values, shape);
}

TEST_P(GpuElementwise, BroadcastsOverAllSizes) {
  for (int64_t n : {0, 1, 3, 255, 256, 257, 1000}) {
    const std::vector<std::pair<Shape, Shape>> pairs = {
        {{n}, {n}},          {{n}, {}},
        {{n, 3}, {3}},       {{3, n}, {n}},
        {{n, 1}, {1, 3}},    {{3, 1}, {1, n}},
        {{3, n, 5}, {n, 1}}, {{n, 3, 5}, {n, 1, 5}},
        {{5, 1, n}, {3, 1}}, {{1, 3, 1, n}, {2, 1, 5, 1}},
    };
    for (const auto& [a, b] : pairs) {
      const auto f = [&, a = a, b = b]() -> Tensors {
        const Tensor x = counting(a, 5);
        const Tensor y = counting(b, 11);
        return {x - y, y - x};
      };
      expect_equal("sub of " + a.str() + " and " + b.str(), f);
    }
  }
}

TEST_P(GpuElementwise, FusedKernelsBroadcastAndHaveSeveralResults) {
  for (int64_t n : {1, 257, 1000}) {
    const auto f = [&] {
      return FlatFunction([](const Tensors& t) -> Tensors {
        const Tensor sum = t[0] + t[1];
        const Tensor product = sum * t[2];
        return {product - t[3], relu(sum - t[3]), product};
      })(Tensors{counting({n, 7}, 1), counting({7}, 2), counting({n, 1}, 3), counting({}, 4)});
    };
    expect_equal("fused", f);
  }
}

TEST_P(GpuElementwise, FusedKernelsHaveAnyNumberOfParameters) {
  const auto f = [] {
    return FlatFunction([](const Tensors& t) {
      Tensors results = {t[0] + t[1]};
      for (int i = 0; i < 31; ++i) results.push_back(clip(results.back(), i - 20.0, 60.0 - i));
      return results;
    })(Tensors{counting({100}, 1), counting({100}, 2)});
  };
  expect_equal("clip", f);
}

template <class T>
Tensor tensor_of(const std::vector<T>& values) {
  return Tensor::from(values, {static_cast<int64_t>(values.size())});
}

/// Every pair of limits and small numbers.
template <class T>
std::pair<Tensor, Tensor> pairs_of_whole_numbers() {
  const std::vector<T> edges = {Limits<T>::min(),
                                static_cast<T>(Limits<T>::min() + 1),
                                static_cast<T>(-7),
                                static_cast<T>(-2),
                                static_cast<T>(-1),
                                0,
                                1,
                                2,
                                3,
                                7,
                                64,
                                static_cast<T>(Limits<T>::max() - 1),
                                Limits<T>::max()};
  std::vector<T> a, b;
  for (T x : edges) {
    for (T y : edges) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  return {tensor_of(a), tensor_of(b)};
}

/// All functions in one program, which is compiled at once.
template <class T>
void compare_whole_numbers() {
  expect_equal(std::string(name_of(dtype_of<T>)), [] {
    const auto [a, b] = pairs_of_whole_numbers<T>();
    return FlatFunction([](const Tensors& t) {
      Tensors results;
      for (const auto& function : kernels::cpu::whole_number_functions<T>()) {
        results.push_back(op::apply_one(op::find_op(function.name),
                                        function.inputs == 1 ? Tensors{t[0]} : t,
                                        attributes_of(function.name)));
      }
      return results;
    })(Tensors{a, b});
  });
}

TEST_P(GpuElementwise, WholeNumbersWrapRoundAndNeverTrap) {
  compare_whole_numbers<uint8_t>();
  if (GetParam() == KernelForm::parallel) return;  // Elements are the same in both forms.
  compare_whole_numbers<int32_t>();
  compare_whole_numbers<int64_t>();
}

/// Numbers next to every limit of every dtype.
std::vector<double> numbers_to_cast() {
  std::vector<double> numbers = {Limits<double>::quiet_NaN(),
                                 Limits<double>::infinity(),
                                 1e300,
                                 1e-300,
                                 0.5,
                                 0.999,
                                 1.5,
                                 2.5,
                                 3.5,
                                 255.5,
                                 256,
                                 65519,
                                 65520,
                                 6.1e-5,
                                 6e-8,
                                 2.9e-8,
                                 1e-7,
                                 3.39e38};
  for (int e : {0, 1, 7, 8, 10, 11, 15, 16, 24, 31, 32, 53, 62, 63, 64}) {
    for (double by : {-1.0, -0.5, 0.0, 0.5, 1.0}) numbers.push_back(std::ldexp(1.0, e) + by);
  }
  for (int i = 0; i < 500; ++i) numbers.push_back(std::exp(i * 0.137 - 20));
  const size_t count = numbers.size();
  for (size_t i = 0; i < count; ++i) numbers.push_back(-numbers[i]);
  return numbers;
}

/// Casts are made of one of a few loads and one of a few conversions: not every pair is tried.
bool is_tried(DType from, DType to, KernelForm form) {
  if (from == to) return false;
  if (form == KernelForm::parallel) return from == DType::float32 && to == DType::float16;
  const bool to_all = from == DType::float32 || from == DType::float64 || from == DType::int64;
  return to_all || to == DType::float32;
}

TEST_P(GpuElementwise, CastsBetweenTypes) {
  const std::vector<double> numbers = numbers_to_cast();
  for (DType from : kernels::all_dtypes()) {
    const Tensor x = on("/CPU:0", [&] { return Tensors{cast(tensor_of(numbers), from)}; })[0];
    const std::vector<char> bytes = bytes_of(x);
    expect_equal("from " + std::string(name_of(from)), [&] {
      return FlatFunction([&](const Tensors& t) {
        Tensors results;
        for (DType to : kernels::all_dtypes()) {
          if (is_tried(from, to, GetParam())) results.push_back(cast(t[0], to));
        }
        return results;
      })(Tensors{Tensor::copy_of(bytes.data(), from, x.shape())});
    });
  }
}

/// The gradient of a mean over the batches of all replicas, whose sizes only the step knows.
TEST_P(GpuElementwise, BroadcastsAreScaledByTheStepsRows) {
  const devices::DevicePtr gpu = devices::find_device(DeviceSpec::parse("/GPU:0"));
  const op::Signature s{&op::find_op("broadcast_to"),
                        {{DType::float32, {3}}},
                        {{DType::float32, {4, 3}}},
                        {{"scale", int64_t{2}}, {"divisor", int64_t{-2}}},
                        {}};
  const op::ExecutablePtr executable = op::Registry::instance().prepare(s, *gpu, 1);
  op::StepScalars step;
  step.global_rows = 16;
  const Tensor block = copy_to_device(Tensor::copy_of(&step, DType::uint8, {64}), "/GPU:0");
  const Tensor x = copy_to_device(Tensor::from(std::vector<float>{32, 64, 96}, {3}), "/GPU:0");
  const Tensor y = copy_to_device(Tensor::from(std::vector<float>(12), {4, 3}), "/GPU:0");
  void* const addresses[] = {x.body()->data(), y.body()->data()};
  const int operands[] = {0, 1};
  op::Launch launch;
  launch.addresses = addresses;
  launch.operands = operands;
  launch.inputs = 1;
  launch.outputs = 1;
  launch.queue = &gpu->queue();
  launch.device_step = block.body()->data();
  gpu->queue().submit([&] { executable->run(launch); });
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3}));
}

/// leaky_relu(product + bias) - companion; the bias and the companion may be missing.
op::Signature product_signature(int64_t rows, int64_t columns, bool has_bias, bool has_companion) {
  const op::TensorType result{DType::float32, {rows, columns}};
  auto expression = std::make_shared<op::Expression>();
  expression->inputs = 1 + has_bias + has_companion;
  int so_far = 0;
  const auto take = [&](const char* op, std::vector<int> operands, op::Attrs attrs = {}) {
    expression->calls.push_back({&op::find_op(op), std::move(operands), std::move(attrs)});
    so_far = expression->inputs + static_cast<int>(expression->calls.size()) - 1;
  };
  op::Signature s{&op::find_op("fused_matmul"), {result, result}, {result}, {}, {}};
  if (has_bias) {
    s.inputs.push_back({DType::float32, {columns}});
    take("add", {so_far, 1});
  }
  take("leaky_relu", {so_far}, {{"alpha", 0.25}});
  if (has_companion) {
    s.inputs.push_back(result);
    take("sub", {so_far, expression->inputs - 1});
  }
  expression->outputs = {static_cast<int>(expression->calls.size()) - 1};
  s.attrs = {{"epilogue", op::ExpressionPtr(std::move(expression))}};
  return s;
}

TEST_P(GpuElementwise, EpiloguesChangeProductsInPlace) {
  const devices::DevicePtr gpu = devices::find_device(DeviceSpec::parse("/GPU:0"));
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{3, 257}, {1000, 1}, {0, 4}}) {
    for (const auto& [has_bias, has_companion] :
         {std::pair{true, false}, {false, true}, {true, true}}) {
      const op::Signature s = product_signature(rows, columns, has_bias, has_companion);
      const auto values = [&](int first) {
        std::vector<float> numbers(static_cast<size_t>(rows * columns + columns));
        for (size_t i = 0; i < numbers.size(); ++i) {
          numbers[i] = static_cast<float>(static_cast<int>(i * 5 + first) % 23 - 11);
        }
        return numbers;
      };
      std::vector<float> wanted = values(1);
      wanted.resize(static_cast<size_t>(rows * columns));
      const std::vector<float> product = wanted, bias = values(2), companion = values(3);
      const auto reference = kernels::cpu::prepare_epilogue(s);
      std::vector<char> space(reference->workspace_bytes());
      reference->open(bias.data(), space.data());
      reference->apply(wanted.data(), has_companion ? companion.data() : nullptr, rows,
                       space.data());

      const kernels::gpu::Epilogue epilogue(s, *gpu);
      const Tensor result = copy_to_device(Tensor::from(product, {rows, columns}), "/GPU:0");
      const Tensor row = copy_to_device(tensor_of(bias), "/GPU:0");
      const Tensor others = copy_to_device(tensor_of(companion), "/GPU:0");
      op::Launch launch;
      launch.queue = &gpu->queue();
      gpu->queue().submit([&] {
        epilogue.run(launch, result.body()->data(), row.body()->data(), others.body()->data(),
                     rows);
      });
      EXPECT_EQ(result.to_vector<float>(), wanted) << rows << " x " << columns;
    }
  }
}

}  // namespace
}  // namespace tandem::harness

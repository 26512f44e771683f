// Programs drawn at random over tensors of all ranks and dtypes, with sizes of zero and one among
// them: a function computes what eager ops do, for every number of rows, and refuses what they
// refuse.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <sstream>

#include "core/tensor_type.h"
#include "harness/fresh_devices.h"
#include "harness/soak.h"
#include "tandem/tandem.h"

namespace tandem {
namespace {

using Random = std::mt19937;
using Doubles = std::vector<double>;

int below(int n, Random& random) { return static_cast<int>(random() % static_cast<unsigned>(n)); }

/// One call: which op, of which earlier values, with which numbers.
struct Step {
  unsigned op = 0;
  size_t a = 0, b = 0;
  unsigned parameter = 0;
};

bool is_float(const Tensor& x) {
  return x.dtype() == DType::float32 || x.dtype() == DType::float64;
}

DType drawn_dtype(unsigned parameter) {
  constexpr DType kAll[] = {DType::float32, DType::float64, DType::int32,
                            DType::int64,   DType::uint8,   DType::boolean};
  return kAll[parameter % 6];
}

/// `x` as a float32 or float64 near one.
Tensor as_float(const Tensor& x) { return is_float(x) ? x : cast(x, DType::float32); }

Tensor like(const Tensor& x, const Tensor& y) { return cast(y, x.dtype()); }

/// The next axis of `x` that `parameter` names, counted from either end.
int axis_of(const Tensor& x, unsigned parameter) {
  const int rank = std::max(x.rank(), 1);
  return static_cast<int>(parameter % static_cast<unsigned>(2 * rank)) - rank;
}

ReduceOptions reduction_of(const Tensor& x, unsigned parameter) {
  ReduceOptions options{.keepdims = parameter % 2 == 0};
  if (parameter % 3 != 0) options.axes = std::vector<int>{axis_of(x, parameter / 6)};
  return options;
}

Tensor shaped(const Tensor& x, const Tensor& y, unsigned op, unsigned parameter) {
  switch (op) {
    case 0:
      return expand_dims(x, axis_of(x, parameter));
    case 1:
      return squeeze(x);
    case 2:
      return squeeze(x, {axis_of(x, parameter)});
    case 3:
      return transpose(x);
    case 4:
      return reshape(x, {-1});
    case 5:
      return reshape(x, {-1, static_cast<int64_t>(parameter % 4)});
    case 6:
      return reshape(x, y.shape());
    case 7:
      return broadcast_to(x, y.shape());
    case 8:
      return tile(x, std::vector<int64_t>(static_cast<size_t>(x.rank()), parameter % 3));
    case 9:
      return concat({x, like(x, y)}, axis_of(x, parameter));
    case 10:
      return stack({x, like(x, y)}, axis_of(x, parameter));
    case 11:
      return split(x, 1 + static_cast<int>(parameter % 3), axis_of(x, parameter / 3))[0];
    case 12: {
      std::vector<Stride> strides(std::min<size_t>(static_cast<size_t>(x.rank()), 2));
      for (Stride& stride : strides)
        stride = {.begin = parameter % 3, .step = parameter % 2 ? 1 : 2};
      return strided_slice(x, strides);
    }
    case 13:
      return pad(x, std::vector<std::pair<int64_t, int64_t>>(static_cast<size_t>(x.rank()),
                                                             {parameter % 2, parameter % 3}));
    case 14:
      return reshape(x, {x.rank() == 0 ? Size(1) : x.shape()[0], -1});
    case 15:
      return fill(x.shape(), 0.5, x.dtype());
    case 16:
      return shape(x);
    default: {
      const Tensors parts = unstack(x, axis_of(x, parameter));
      return parts.empty() ? x : parts[0];
    }
  }
}

Tensor reduced(const Tensor& x, unsigned op, unsigned parameter) {
  const ReduceOptions options = reduction_of(x, parameter);
  switch (op) {
    case 0:
      return reduce_sum(x, options);
    case 1:
      return reduce_mean(as_float(x), options);
    case 2:
      return reduce_max(x, options);
    case 3:
      return reduce_min(x, options);
    case 4:
      return reduce_prod(x, options);
    case 5:
      return reduce_any(cast(x, DType::boolean), options);
    case 6:
      return reduce_logsumexp(as_float(x), options);
    case 7:
      return reduce_variance(as_float(x), options);
    case 8:
      return argmax(x, axis_of(x, parameter));
    case 9:
      return cumsum(x, {.axis = axis_of(x, parameter)});
    case 10:
      return softmax(as_float(x), axis_of(x, parameter));
    case 11:
      return log_softmax(as_float(x), axis_of(x, parameter));
    default:
      return reduce_all(cast(x, DType::boolean), options);
  }
}

Tensor pointwise(const Tensor& x, const Tensor& y, unsigned op, unsigned parameter) {
  switch (op) {
    case 0:
      return x + like(x, y);
    case 1:
      return x * like(x, y);
    case 2:
      return tanh(as_float(x));
    case 3:
      return maximum(x, like(x, y));
    case 4:
      return where(greater(as_float(x), cast(y, as_float(x).dtype())), x, like(x, y));
    case 5:
      return cast(x, drawn_dtype(parameter));
    case 6:
      return cast(less_equal(x, like(x, y)), DType::float32);
    case 7:
      return sigmoid(as_float(x)) - 0.5;
    case 8:
      return sqrt(abs(as_float(x)) + 0.25);
    case 9:
      return relu(as_float(x)) * 0.5;
    case 10:
      return clip(x, 0, 2);
    default:
      return squared_difference(x, like(x, y));
  }
}

/// Functions with poles, kinks and tails, and the constants that passes look for.
Tensor delicate(const Tensor& given, const Tensor& other, unsigned op) {
  const Tensor x = as_float(given), y = like(x, other);
  switch (op) {
    case 0:
      return x / y;
    case 1:
      return log(x);
    case 2:
      return sqrt(x);
    case 3:
      return pow(x, y);
    case 4:
      return gelu(x);
    case 5:
      return gelu(x, {.approximate = true});
    case 6:
      return silu(x * 40.0);
    case 7:
      return softplus(x * 40.0);
    case 8:
      return x * 0.0;
    case 9:
      return (x + 0.0) * 1.0 - 0.0;
    case 10:
      return reciprocal(x);
    case 11:
      return exp(x * 30.0);
    case 12:
      return where(greater(x, y), sqrt(x), x);
    case 13:
      return -(-x) / 1.0;
    case 14:
      return relu6(x * 4.0);
    case 15:
      return elu(x * 20.0);
    case 16:
      return mod(x, y);
    case 17:
      return log1p(x);
    default:
      return rsqrt(x * x);
  }
}

Tensor joined(const Tensor& x, const Tensor& y, unsigned op, unsigned parameter) {
  switch (op) {
    case 0:
      return matmul(as_float(x), cast(y, as_float(x).dtype())) * 0.5;
    case 1:
      return matmul(as_float(x), cast(y, as_float(x).dtype()), {.transpose_a = true}) * 0.5;
    case 2:
      return matmul(as_float(x), cast(y, as_float(x).dtype()), {.transpose_b = true}) * 0.5;
    case 3:
      return gather(x, minimum(cast(abs(as_float(y)), DType::int32), Tensor(int32_t{1})),
                    axis_of(x, parameter));
    case 4:
      return one_hot(cast(x, DType::int32), static_cast<int64_t>(parameter % 4));
    case 5:
      return cond(
          greater(reduce_sum(as_float(x)), scalar_like(0, as_float(x))),
          [&] { return x * like(x, y); }, [&] { return x + like(x, y); });
    case 6:
      return while_loop(
                 [](const std::pair<Tensor, Tensor>& now) {
                   return less(now.first, Tensor(int32_t{2}));
                 },
                 [](const std::pair<Tensor, Tensor>& now) {
                   return std::pair(now.first + Tensor(int32_t{1}), now.second * 0.5);
                 },
                 std::pair(Tensor(int32_t{0}), stop_gradient(as_float(x))))
          .second;
    case 7:
      return reduce_sum(as_float(x)) /
             (static_cast<double>(x.rank() == 0 ? 1 : int64_t{x.shape()[0]}) + 1);
    default:
      return as_float(x) / (as_float(reduce_max(x)) + 3.5);
  }
}

Tensor call(const Step& step, const Tensors& values) {
  const Tensor& x = values[step.a % values.size()];
  const Tensor& y = values[step.b % values.size()];
  const unsigned which = step.op / 5;
  switch (step.op % 5) {
    case 0:
      return shaped(x, y, which % 18, step.parameter);
    case 1:
      return reduced(x, which % 13, step.parameter);
    case 2:
      return pointwise(x, y, which % 12, step.parameter);
    case 3:
      return delicate(x, y, which % 19);
    default:
      return joined(x, y, which % 9, step.parameter);
  }
}

/// A program: `inputs[0]` is the batch, `inputs[1]` follows it in some programs.
struct RandomProgram {
  std::vector<Step> steps;
  std::vector<DType> dtypes;
  std::vector<std::vector<int64_t>> inner;  ///< Sizes of the inputs behind the leading one.
  bool both_batched = false;
  bool twice = false;  ///< Gradients of gradients too.

  Tensors inputs(int64_t rows, unsigned seed) const {
    Random random(seed);
    Tensors result;
    for (size_t i = 0; i < inner.size(); ++i) {
      std::vector<int64_t> sizes = inner[i];
      if (i == 0 || both_batched) sizes.insert(sizes.begin(), rows);
      const Shape shape{std::span<const int64_t>(sizes)};
      Doubles numbers(static_cast<size_t>(shape.count()));
      for (double& number : numbers) number = 0.25 * (below(17, random) - 8);
      result.push_back(cast(Tensor::from(numbers, shape), dtypes[i]));
    }
    return result;
  }

  /// Every value, then the gradients of the sum of what is a float and small.
  Tensors run(const Tensors& inputs) const {
    GradientTape outer;
    GradientTape tape;
    Tensors sources;
    std::ranges::copy_if(inputs, std::back_inserter(sources), is_float);
    for (GradientTape* each : {&outer, &tape}) {
      for (const Tensor& source : sources) each->watch(source);
    }
    Tensors values = inputs;
    for (const Step& step : steps) values.push_back(call(step, values));
    Tensor loss(0.0);
    for (const Tensor& value : values) {
      if (is_float(value)) loss = loss + reduce_sum(tanh(cast(value, DType::float64)));
    }
    Tensors results = values;
    results.push_back(loss);
    Tensor again(0.0);
    for (const Tensor& gradient : tape.gradient(loss, sources)) {
      if (!gradient.defined()) continue;
      results.push_back(gradient);
      again = again + reduce_sum(tanh(cast(gradient, DType::float64)));
    }
    if (!twice) return results;
    for (const Tensor& gradient : outer.gradient(again, sources)) {
      if (gradient.defined()) results.push_back(gradient);
    }
    return results;
  }
};

/// Steps that eager ops accept for the first number of rows, and now and then one that they refuse.
RandomProgram drawn(unsigned number) {
  Random random(number);
  constexpr int64_t kSizes[] = {0, 1, 2, 3, 5, 17};
  RandomProgram program;
  program.both_batched = random() % 2 == 0;
  program.twice = random() % 3 == 0;
  for (int i = 0; i < 2; ++i) {
    program.dtypes.push_back(drawn_dtype(random() % 2 == 0 ? below(2, random) : below(6, random)));
    program.inner.emplace_back();
    for (int rank = below(3, random); rank > 0; --rank)
      program.inner.back().push_back(kSizes[below(6, random)]);
  }
  const Tensors inputs = program.inputs(below(4, random), number);
  Tensors values = inputs;
  const int calls = 1 + below(7, random);
  for (int tries = 0; tries < 60 && static_cast<int>(program.steps.size()) < calls; ++tries) {
    const Step step{static_cast<unsigned>(random()), random(), random(),
                    static_cast<unsigned>(random())};
    try {
      const Tensor value = call(step, values);
      if (value.shape().count() > 4096) continue;
      values.push_back(value);
    } catch (const Error&) {
      if (random() % 16 != 0) continue;
      program.steps.push_back(step);
      break;
    }
    program.steps.push_back(step);
  }
  return program;
}

struct Outcome {
  std::vector<std::string> types;
  std::vector<Doubles> values;
  std::string error;
};

template <class Run>
Outcome outcome_of(const Run& run, const Tensors& inputs) {
  Outcome outcome;
  try {
    for (const Tensor& result : run(inputs)) {
      outcome.types.push_back(type_of(result).str());
      outcome.values.push_back(cast(result, DType::float64).template to_vector<double>());
    }
  } catch (const Error& error) {
    outcome.error = error.what();
  }
  return outcome;
}

bool is_near(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= 1e-4 * std::max(1.0, std::max(std::abs(a), std::abs(b)));
}

std::string describe(const RandomProgram& program) {
  std::ostringstream text;
  for (const Step& step : program.steps) {
    text << " (" << step.op % 5 << "." << step.op / 5 << " " << step.parameter << ")";
  }
  return text.str();
}

void expect_same(const Outcome& got, const Outcome& wanted, const std::string& where) {
  ASSERT_EQ(got.error.empty(), wanted.error.empty())
      << where << "\neager: " << wanted.error << "\nfunction: " << got.error;
  ASSERT_EQ(got.types, wanted.types) << where;
  for (size_t i = 0; i < wanted.values.size(); ++i) {
    for (size_t k = 0; k < wanted.values[i].size(); ++k) {
      ASSERT_TRUE(is_near(got.values[i][k], wanted.values[i][k]))
          << where << ", value " << i << " " << wanted.types[i] << ", element " << k << ": "
          << got.values[i][k] << " instead of " << wanted.values[i][k];
    }
  }
}

class RandomShapes : public harness::FreshDevices {};

TEST_F(RandomShapes, AFunctionComputesAndRefusesWhatEagerOpsDo) {
  const auto programs = static_cast<unsigned>(harness::rounds(400, 20'000));
  for (unsigned number = 0; number < programs && !HasFatalFailure(); ++number) {
    const RandomProgram program = drawn(number);
    const auto compiled = function([&](const Tensors& inputs) { return program.run(inputs); });
    for (const int64_t rows : {3, 1, 0, 2}) {
      const Tensors inputs = program.inputs(rows, number + 1);
      const Outcome wanted = outcome_of([&](const Tensors& i) { return program.run(i); }, inputs);
      std::string types;
      for (const Tensor& input : inputs)
        types += input.shape().str().append(name_of(input.dtype()));
      expect_same(outcome_of(compiled, inputs), wanted,
                  "program " + std::to_string(number) + " with " + std::to_string(rows) +
                      " rows of " + types + ":" + describe(program));
    }
  }
}

}  // namespace
}  // namespace tandem

// Training steps drawn at random: whatever the passes make of them, on any number of threads and on
// a device of another kind, they compute what eager ops do.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "device/test/test_device.h"
#include "harness/fresh_devices.h"
#include "harness/opencl.h"
#include "harness/soak.h"
#include "harness/without.h"
#include "tandem/tandem.h"

namespace tandem {
namespace {

using Doubles = std::vector<double>;

/// One model, drawn from its number: so many calls on values of the batch, whose widths are few, so
/// that they often meet. Calls keep values near one.
class RandomModel {
 public:
  RandomModel(unsigned number, DType dtype, std::vector<int64_t> widths, int calls)
      : dtype_(dtype), widths_(std::move(widths)), number_(number), calls_(calls) {
    std::mt19937 random(number);
    for (const int64_t in : widths_) {
      for (const int64_t out : widths_) {
        kernels_.emplace_back(numbers({in, out}, random, 1 / std::sqrt(static_cast<double>(in))));
      }
      biases_.emplace_back(numbers({in}, random, 0.5));
    }
    total_ = Variable(numbers({widths_[0]}, random, 1), {.trainable = false});
  }

  Tensor batch(int64_t rows, unsigned seed) const {
    std::mt19937 random(seed);
    return numbers({rows, widths_[0]}, random, 1);
  }

  /// The loss and some of the values on the way; updates all variables.
  Tensors train(const Tensor& x) const {
    std::mt19937 random(number_ + 1);
    GradientTape tape;
    Tensors values{x};
    Tensor loss = reduce_sum(x) * 0.0;
    for (int i = 0; i < calls_; ++i) {
      values.push_back(next(values, random));
      if (random() % 3 == 0) loss = loss + reduce_mean(square(values.back()));
    }
    loss = loss + reduce_mean(values.back());
    const Variables variables = trainable();
    const Tensors gradients = tape.gradient(loss, variables);
    Tensors given;
    Variables used;
    for (size_t i = 0; i < variables.size(); ++i) {
      if (!gradients[i].defined()) continue;
      given.push_back(gradients[i]);
      used.push_back(variables[i]);
    }
    if (!used.empty()) optimizer_.apply_gradients(given, used);
    return {loss, values[values.size() / 2], values.back()};
  }

  Variables variables() const {
    Variables all = trainable();
    all.push_back(total_);
    return all;
  }

 private:
  Variables trainable() const {
    Variables all = kernels_;
    all.insert(all.end(), biases_.begin(), biases_.end());
    return all;
  }

  Tensor numbers(const Shape& shape, std::mt19937& random, double scale) const {
    std::uniform_real_distribution<double> value(-scale, scale);
    Doubles drawn(static_cast<size_t>(shape.count()));
    for (double& each : drawn) each = value(random);
    return cast(Tensor::from(drawn, shape), dtype_);
  }

  size_t index_of(int64_t width) const {
    return static_cast<size_t>(std::ranges::find(widths_, width) - widths_.begin());
  }

  /// A value of the same shape; `x` itself where none is found soon.
  static Tensor like(const Tensor& x, const Tensors& values, std::mt19937& random) {
    for (int tries = 0; tries < 8; ++tries) {
      const Tensor& found = values[random() % values.size()];
      if (found.shape() == x.shape()) return found;
    }
    return x;
  }

  Tensor next(const Tensors& values, std::mt19937& random) const {
    const Tensor x = random() % 2 == 0 ? values.back() : values[random() % values.size()];
    const Tensor y = like(x, values, random);
    const int64_t width = x.shape()[1];
    const size_t in = index_of(width), out = random() % widths_.size();
    const Variable& kernel = kernels_[in * widths_.size() + out];
    const Variable& back = kernels_[out * widths_.size() + in];
    const Variable& bias = biases_[in];
    switch (random() % 22) {
      case 0:
        return relu(x);
      case 1:
        return gelu(x);
      case 2:
        return silu(x) - tanh(y);
      case 3:
        return tanh(x * y + bias);
      case 4:
        return x + y;
      case 5:
        return sigmoid(x) * (y - 0.5);
      case 6:
        return maximum(x, y * 0.5);
      case 7:
        return where(greater(x, y), tanh(x), y);
      case 8:
        return matmul(x, kernel);
      case 9:
        return relu(matmul(x, kernel) + biases_[out]);
      case 10:
        return y + matmul(gelu(matmul(x, kernel) + biases_[out]), back);
      case 11:
        return matmul(x, back, {.transpose_b = true});
      case 12:
        return matmul(x, tanh(matmul(x, y, {.transpose_a = true}) * 0.1));
      case 13:
        return softmax(x) * static_cast<double>(width);
      case 14:
        return layer_norm(x + y, bias, bias);
      case 15:
        return x - reduce_mean(y, {.axes = {{1}}, .keepdims = true});
      case 16:
        return tanh(x + reduce_mean(y, {.axes = {{0}}, .keepdims = true}));
      case 17:
        return reshape(relu(reshape(x, {x.shape()[0], width, 1})), x.shape()) + y;
      case 18:
        return transpose(transpose(x) * 0.5 + transpose(y) * 0.5);
      case 19:
        return split(concat({y, x}, 1), 2, 1)[random() % 2];
      case 20:
        return stop_gradient(y) * x;
      default:
        total_.assign_add(reduce_mean(values[0], {.axes = {{0}}}) * 0.1);
        return tanh(matmul(values[0] * total_, kernels_[out]));
    }
  }

  const DType dtype_;
  const std::vector<int64_t> widths_;
  const unsigned number_;
  const int calls_;
  Variables kernels_, biases_;
  Variable total_;
  const keras::optimizers::Adam optimizer_{0.001};
};

struct Case {
  unsigned number;
  DType dtype;
  std::vector<int64_t> widths;
  std::vector<int64_t> rows;  ///< The rows of each step.
  int calls;
  double tolerance;

  RandomModel model() const { return RandomModel(number, dtype, widths, calls); }
};

/// All results of some steps, then all variables.
template <class Step>
std::vector<Doubles> outcome(const Case& c, const RandomModel& model, const Step& step) {
  std::vector<Doubles> all;
  const auto keep = [&](const Tensor& t) {
    all.push_back(cast(t, DType::float64).to_vector<double>());
  };
  for (size_t i = 0; i < c.rows.size(); ++i) {
    for (const Tensor& t : step(model.batch(c.rows[i], c.number + static_cast<unsigned>(i))))
      keep(t);
  }
  for (const Variable& variable : model.variables()) keep(variable.value());
  return all;
}

std::vector<Doubles> eager(const Case& c) {
  const RandomModel model = c.model();
  return outcome(c, model, [&](const Tensor& x) { return model.train(x); });
}

std::vector<Doubles> compiled(const Case& c) {
  const RandomModel model = c.model();
  const auto step = function([&](const Tensor& x) { return model.train(x); });
  auto all = outcome(c, model, step);
  EXPECT_EQ(step.trace_count(), 1) << "model " << c.number;
  return all;
}

void expect_near(const std::vector<Doubles>& got, const std::vector<Doubles>& wanted, const Case& c,
                 const std::string& way) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].size(), wanted[i].size());
    for (size_t k = 0; k < got[i].size(); ++k) {
      const double room = c.tolerance * std::max(1.0, std::abs(wanted[i][k]));
      ASSERT_NEAR(got[i][k], wanted[i][k], room)
          << "model " << c.number << " " << way << ", value " << i << ", element " << k;
    }
  }
}

class RandomPrograms : public harness::FreshDevices {
 protected:
  static void check(const Case& c) {
    const auto on_threads = [](int threads) {
      restart();
      config::set_logical_cpus({{.threads = threads}});
    };
    on_threads(1);
    const std::vector<Doubles> wanted = eager(c);
    for (const int threads : {1, 2, 3}) {
      on_threads(threads);
      const std::string on = "on " + std::to_string(threads) + " threads";
      expect_near(compiled(c), wanted, c, on);
      {
        const harness::Without fusion = harness::without_fusion();
        expect_near(compiled(c), wanted, c, "unfused " + on);
      }
      {
        const harness::Without planning = harness::without_memory_planning();
        expect_near(compiled(c), wanted, c, "unplanned " + on);
      }
    }
    restart();
    devices::test::add_test_gpu();
    expect_near(compiled(c), wanted, c, "on the test device");
  }
};

TEST_F(RandomPrograms, SmallOnesComputeWhatEagerOpsDo) {
  for (unsigned number = 0; number < 60 && !HasFatalFailure(); ++number) {
    check({.number = 100 * number,
           .dtype = DType::float64,
           .widths = {4, 3, 16},
           .rows = {5, 1, 12},
           .calls = 4 + static_cast<int>(number % 20),
           .tolerance = 1e-9});
  }
}

// Large enough for buffers that are shared and products that threads pack together.
TEST_F(RandomPrograms, LargeOnesComputeWhatEagerOpsDo) {
  for (unsigned number = 0; number < 12 && !HasFatalFailure(); ++number) {
    check({.number = 7 + 100 * number,
           .dtype = DType::float32,
           .widths = {160, 520},
           .rows = {130, 101},
           .calls = 6 + static_cast<int>(number % 8),
           .tolerance = 2e-3});
  }
}

/// The same on a GPU: what is fused there is another kernel, and another kernel for each program.
TEST_F(RandomPrograms, OnAGpuTheyComputeWhatEagerOpsDo) {
  harness::use_opencl();
  const auto scope = device("/GPU:0");
  const auto programs = static_cast<unsigned>(harness::rounds(200, 5000));
  for (unsigned number = 0; number < programs && !HasFatalFailure(); ++number) {
    const bool wide = number % 10 == 9;
    const Case c{.number = 3 + 100 * number,
                 .dtype = wide ? DType::float32 : DType::float64,
                 .widths = wide ? std::vector<int64_t>{70, 130} : std::vector<int64_t>{4, 3, 16},
                 .rows = {5, 1},
                 .calls = 1 + static_cast<int>(number % 4),
                 .tolerance = wide ? 2e-3 : 1e-9};
    expect_near(compiled(c), eager(c), c, "on a GPU");
  }
}

}  // namespace
}  // namespace tandem

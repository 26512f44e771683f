#include "tandem/keras/initializers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "ops/random/random_elements.h"
#include "runtime/random_calls.h"
#include "tandem/error.h"
#include "tandem/ops.h"
#include "tensor/unmade_values.h"

namespace tandem::keras {
namespace {

using initializers::variance_scaling;

struct KnownInitializer {
  const char* name;
  Initializer (*make)();
};

const std::vector<KnownInitializer>& known() {
  static const std::vector<KnownInitializer> all{
      {"zeros", [] { return initializers::constant(0); }},
      {"ones", [] { return initializers::constant(1); }},
      {"glorot_uniform", [] { return variance_scaling(1, "fan_avg", "uniform"); }},
      {"glorot_normal", [] { return variance_scaling(1, "fan_avg", "truncated_normal"); }},
      {"he_uniform", [] { return variance_scaling(2, "fan_in", "uniform"); }},
      {"he_normal", [] { return variance_scaling(2, "fan_in", "truncated_normal"); }},
      {"lecun_uniform", [] { return variance_scaling(1, "fan_in", "uniform"); }},
      {"lecun_normal", [] { return variance_scaling(1, "fan_in", "truncated_normal"); }},
      {"random_uniform", [] { return initializers::random_uniform(); }},
      {"uniform", [] { return initializers::random_uniform(); }},
      {"random_normal", [] { return initializers::random_normal(); }},
      {"normal", [] { return initializers::random_normal(); }},
      {"truncated_normal", [] { return initializers::truncated_normal(); }},
  };
  return all;
}

Initializer::Make make_of(const std::string& name) {
  std::vector<const char*> names;
  for (const KnownInitializer& one : known()) {
    if (name == one.name) {
      return [made = one.make()](const Shape& shape, DType dtype) { return made(shape, dtype); };
    }
    names.push_back(one.name);
  }
  throw InvalidArgument(
      fmt::format("initializer '{}' is not known; there are {}", name, fmt::join(names, ", ")));
}

/// The inputs and outputs of one unit. The last two axes are [in, out], those before a window.
std::pair<double, double> fans_of(const Shape& shape) {
  const int rank = shape.rank();
  if (rank == 0) return {1, 1};
  const auto last = static_cast<double>(shape[rank - 1]);
  if (rank == 1) return {last, last};
  double window = 1;
  for (int axis = 0; axis < rank - 2; ++axis) window *= static_cast<double>(shape[axis]);
  return {window * static_cast<double>(shape[rank - 2]), window * last};
}

double count_of(const Shape& shape, const std::string& mode) {
  const auto [in, out] = fans_of(shape);
  const double count = mode == "fan_in" ? in : mode == "fan_out" ? out : (in + out) / 2;
  return std::max(1.0, count);
}

void check_among(const char* argument, const std::string& value,
                 const std::vector<const char*>& accepted) {
  if (std::ranges::find(accepted, value) != accepted.end()) return;
  throw InvalidArgument(fmt::format("variance_scaling: {} is '{}'; there are {}", argument, value,
                                    fmt::join(accepted, ", ")));
}

using RandomOpFn = Tensor (*)(const Shape&, double, double, const RandomOptions&);

/// What `draw` draws, which is the function of the op of this name. Where values may be left
/// unmade, the call is numbered now, as if it drew.
Tensor drawn(const char* op, RandomOpFn draw, const Shape& shape, double a, double b,
             const RandomOptions& options) {
  const bool is_drawn = options.dtype == DType::float32 || options.dtype == DType::float64;
  if (is_drawn && UnmadeScope::is_wanted(options.dtype, shape)) {
    const tandem::ops::RandomCall call{op, a, b, options, runtime::next_random_run()};
    return UnmadeScope::leave_unmade(options.dtype, shape,
                                     [call](int64_t begin, int64_t count, void* to) {
                                       tandem::ops::draw_elements(call, begin, count, to);
                                     });
  }
  return draw(shape, a, b, options);
}

Tensor uniform(const Shape& shape, double minval, double maxval, const RandomOptions& options) {
  return drawn("random_uniform", tandem::random_uniform, shape, minval, maxval, options);
}

Tensor normal(const Shape& shape, double mean, double stddev, const RandomOptions& options) {
  return drawn("random_normal", tandem::random_normal, shape, mean, stddev, options);
}

Tensor within_two(const Shape& shape, double mean, double stddev, const RandomOptions& options) {
  return drawn("random_truncated_normal", random_truncated_normal, shape, mean, stddev, options);
}

Tensor filled(const Shape& shape, double value, DType dtype) {
  if (!UnmadeScope::is_wanted(dtype, shape)) return fill(shape, value, dtype);
  std::array<char, sizeof(double)> element{};
  fill({1}, value, dtype).copy_to_host(element.data());
  const auto repeat = [element, size = size_of(dtype)](int64_t, int64_t count, void* to) {
    char* next = static_cast<char*>(to);
    for (; count > 0; --count, next += size) std::memcpy(next, element.data(), size);
  };
  return UnmadeScope::leave_unmade(dtype, shape, repeat);
}

}  // namespace

Initializer::Initializer(const std::string& name) : name_(name), make_(make_of(name)) {}
Initializer::Initializer(const char* name) : Initializer(std::string(name)) {}

namespace initializers {

Initializer constant(double value) {
  return {"constant",
          [value](const Shape& shape, DType dtype) { return filled(shape, value, dtype); }};
}

Initializer random_uniform(double minval, double maxval, std::optional<uint64_t> seed) {
  return {"random_uniform", [=](const Shape& shape, DType dtype) {
            return uniform(shape, minval, maxval, {.dtype = dtype, .seed = seed});
          }};
}

Initializer random_normal(double mean, double stddev, std::optional<uint64_t> seed) {
  return {"random_normal", [=](const Shape& shape, DType dtype) {
            return normal(shape, mean, stddev, {.dtype = dtype, .seed = seed});
          }};
}

Initializer truncated_normal(double mean, double stddev, std::optional<uint64_t> seed) {
  return {"truncated_normal", [=](const Shape& shape, DType dtype) {
            return within_two(shape, mean, stddev, {.dtype = dtype, .seed = seed});
          }};
}

Initializer variance_scaling(double scale, const std::string& mode, const std::string& distribution,
                             std::optional<uint64_t> seed) {
  if (!(scale > 0)) {
    throw InvalidArgument(
        fmt::format("variance_scaling: scale is {}, a positive number is needed", scale));
  }
  check_among("mode", mode, {"fan_in", "fan_out", "fan_avg"});
  check_among("distribution", distribution,
              {"uniform", "normal", "truncated_normal", "untruncated_normal"});
  return {"variance_scaling", [=](const Shape& shape, DType dtype) {
            const RandomOptions options{.dtype = dtype, .seed = seed};
            const double variance = scale / count_of(shape, mode);
            if (distribution == "uniform") {
              const double limit = std::sqrt(3 * variance);
              return uniform(shape, -limit, limit, options);
            }
            if (distribution == "untruncated_normal") {
              return normal(shape, 0, std::sqrt(variance), options);
            }
            constexpr double kDeviationWithinTwo = 0.87962566103423978;
            return within_two(shape, 0, std::sqrt(variance) / kDeviationWithinTwo, options);
          }};
}

}  // namespace initializers
}  // namespace tandem::keras

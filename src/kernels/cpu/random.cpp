#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "kernels/cpu/part.h"
#include "kernels/cpu/philox.h"
#include "op/registry.h"

namespace tandem::kernels::cpu {
namespace {

using op::ExecutablePtr;
using op::Launch;
using op::Signature;

/// The values that one block of 128 random bits gives: four floats or two doubles.
template <class T>
using Values = std::array<T, 16 / sizeof(T)>;

/// Evenly spread over [0, 1), as many bits as the type has.
Values<float> units(const PhiloxBlock& block, float) {
  const auto unit = [](uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; };
  return {unit(block[0]), unit(block[1]), unit(block[2]), unit(block[3])};
}
Values<double> units(const PhiloxBlock& block, double) {
  const auto unit = [](uint32_t low, uint32_t high) {
    return static_cast<double>((uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
  };
  return {unit(block[0], block[1]), unit(block[2], block[3])};
}

template <class T>
class Uniform {
 public:
  Uniform(double low, double high)
      : low_(static_cast<T>(low)),
        width_(static_cast<T>(high - low)),
        last_(low < high ? std::nextafter(static_cast<T>(high), static_cast<T>(low))
                         : static_cast<T>(low)) {}

  /// Rounding must not reach the upper end.
  Values<T> operator()(const PhiloxBlock& block) const {
    Values<T> values = units(block, T());
    for (T& value : values) value = std::min(low_ + width_ * value, last_);
    return values;
  }

 private:
  T low_, width_, last_;
};

/// Box and Muller: two independent normal numbers are a point of random direction and distance.
template <class T>
class Normal {
 public:
  Normal(double mean, double stddev)
      : mean_(static_cast<T>(mean)), stddev_(static_cast<T>(stddev)) {}

  Values<T> operator()(const PhiloxBlock& block) const {
    Values<T> values = units(block, T());
    for (size_t i = 0; i < values.size(); i += 2) {
      const T distance = std::sqrt(T(-2) * std::log(T(1) - values[i]));  // 1 - u is never 0.
      const T direction = 2 * std::numbers::pi_v<T> * values[i + 1];
      values[i] = mean_ + stddev_ * distance * std::cos(direction);
      values[i + 1] = mean_ + stddev_ * distance * std::sin(direction);
    }
    return values;
  }

 private:
  T mean_, stddev_;
};

/// Where a call's numbers lie in the space of all counters.
PhiloxBlock counter_of(const Launch& launch, uint64_t block) {
  const uint64_t call = launch.step->random_call;
  const auto high = static_cast<uint32_t>(call >> 32);
  return {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
          static_cast<uint32_t>(launch.stream), static_cast<uint32_t>(call) ^ high * 0x9E3779B9u};
}

template <class T, class Distribution>
ExecutablePtr prepare_random(const Signature& s, int) {
  const auto seed = static_cast<uint64_t>(s.attrs.get<int64_t>("seed"));
  return op::executable(
      [distribution = Distribution(s.attrs.get<double>("a"), s.attrs.get<double>("b")),
       key = PhiloxKey{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
       per_row = s.attrs.get<int64_t>("per_row"),
       split = RowSplit(s.outputs[0].shape)](const Launch& launch) {
        constexpr auto kPerBlock = static_cast<int64_t>(Values<T>().size());
        const auto [begin, end] = split.part(launch);
        const int64_t offset = launch.step->row_offset * per_row;
        T* out = launch.out<T>(0);
        for (int64_t i = begin; i < end;) {
          const int64_t position = i + offset;
          const auto block = static_cast<uint64_t>(position / kPerBlock);
          const Values<T> values = distribution(philox(counter_of(launch, block), key));
          const int64_t first = position % kPerBlock;
          const int64_t count = std::min(kPerBlock - first, end - i);
          std::copy_n(values.begin() + first, count, out + i);
          i += count;
        }
      });
}

}  // namespace

void register_random(op::Registry& registry) {
  const auto add = [&](const char* name, DType dtype, op::PrepareFn prepare) {
    registry.add_kernel(name, "cpu", {dtype}, std::move(prepare));
  };
  add("random_normal", DType::float32, prepare_random<float, Normal<float>>);
  add("random_normal", DType::float64, prepare_random<double, Normal<double>>);
  add("random_uniform", DType::float32, prepare_random<float, Uniform<float>>);
  add("random_uniform", DType::float64, prepare_random<double, Uniform<double>>);
}

}  // namespace tandem::kernels::cpu

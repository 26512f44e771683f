/// Random numbers for the order of elements: a function of a key and of how many were drawn.
#pragma once

#include <cstdint>

namespace tandem::data {

/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014):
/// splitmix64.
inline uint64_t mixed(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

class Draws {
 public:
  /// The draws of shuffle number `shuffle` of a data set.
  Draws(uint64_t seed, uint64_t epoch, int shuffle)
      : state_(joined(joined(joined(0, seed), epoch), static_cast<uint64_t>(shuffle))) {}

  /// The next number in [0, limit): the upper half of a product, after Lemire, "Fast random integer
  /// generation in an interval" (2019).
  uint64_t below(uint64_t limit) {
    const auto product = static_cast<unsigned __int128>(mixed(state_ += kGolden)) * limit;
    return static_cast<uint64_t>(product >> 64);
  }

 private:
  static constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;
  static uint64_t joined(uint64_t key, uint64_t more) { return mixed(mixed(key + kGolden) + more); }

  uint64_t state_;
};

}  // namespace tandem::data

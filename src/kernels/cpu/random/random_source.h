/// Which random numbers a call draws: its sequence of them.
#pragma once

#include <cstdint>

#include "kernels/cpu/random/philox.h"
#include "kernels/global_positions.h"
#include "op/kernel.h"

namespace tandem::kernels::cpu {

class RandomSource {
 public:
  /// The sequence of a call with the attributes seeded and seed.
  explicit RandomSource(const op::Signature& s)
      : seeded_(s.attrs.get<bool>("seeded")),
        seed_(static_cast<uint64_t>(s.attrs.get<int64_t>("seed"))) {}

  PhiloxSequence sequence(const op::Launch& launch) const {
    const op::RandomRun& run = launch.step->random;
    const uint64_t key =
        seeded_ ? mixed(mixed(run.seed) ^ seed_) : mixed(mixed(~run.unseeded_seed));
    const uint64_t call = run.call + static_cast<uint64_t>(launch.random_call);
    // The upper half of a count that large is folded in: 2^32 calls have sequences of their own.
    const auto high = static_cast<uint32_t>(call >> 32);
    return {{static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)},
            {static_cast<uint32_t>(launch.salt) ^ run.purpose,
             static_cast<uint32_t>(call) ^ high * 0x9E3779B9u}};
  }

 private:
  /// The finalizer of splitmix64: seeds that are near each other give keys that are not.
  static uint64_t mixed(uint64_t z) {
    z += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  bool seeded_;
  uint64_t seed_;
};

}  // namespace tandem::kernels::cpu

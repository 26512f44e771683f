/// Which random numbers a call draws: its sequence of them, and the positions of its elements in
/// it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/random/philox.h"
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

/// Says where the elements of a replica's tensor lie in the tensor of the whole batch.
class GlobalPositions {
 public:
  /// Reads the attributes batch_axis and per_row, which ops/random/batch_axis.h explains.
  GlobalPositions(const op::Signature& s, const Shape& shape)
      : per_row_(s.attrs.get<int64_t>("per_row")) {
    const auto axis = static_cast<int>(s.attrs.get<int64_t>("batch_axis"));
    if (axis < 0) return;
    for (int i = axis + 1; i < shape.rank(); ++i) per_row_ *= shape[i];
    run_ = shape.count() == 0 ? 0 : shape.extent(axis);
    for (int i = axis + 1; i < shape.rank(); ++i) run_ *= shape[i];
  }

  /// Walks the elements [begin, end) in runs of consecutive positions:
  /// visit(first element, how many, position of the first).
  template <class Visit>
  void for_each_run(const op::Launch& launch, int64_t begin, int64_t end, Visit visit) const {
    if (run_ == 0) {
      if (begin < end) visit(begin, end - begin, static_cast<uint64_t>(begin));
      return;
    }
    const int64_t global_run = launch.step->global_rows * per_row_;
    const int64_t offset = launch.step->row_offset * per_row_;
    for (int64_t i = begin; i < end;) {
      const int64_t within = i % run_;
      const int64_t count = std::min(run_ - within, end - i);
      visit(i, count, static_cast<uint64_t>(i / run_ * global_run + offset + within));
      i += count;
    }
  }

 private:
  int64_t per_row_;
  int64_t run_ = 0;  ///< Elements of the batch axis and those inside it; 0 where there is none.
};

}  // namespace tandem::kernels::cpu

/// What the kernels that draw random numbers have in common: the words of Philox4x32-10, as
/// kernels/cpu/random/philox.h has them, for the positions that an op's elements have in its stream
/// of numbers. An item makes blocks of four words and writes the elements that take them.
#pragma once

#include "kernels/global_positions.h"
#include "kernels/gpu/gpu_kernel.h"

namespace tandem::kernels::gpu {

/// How the elements come from the words:
///
///   PER            how many elements a block has words for
///   OPERANDS       the op's own parameters: MEMORY(1), ..
///   SETUP          what is declared of them once
///   WRITE(i, k)    writes element i, which is the k-th of those that `words` is for
///
/// Elements that are made several at once are made by `prepare`, a statement that is given the
/// number n of blocks: at most as many elements as `words` has words, most_words.
struct DrawingText {
  std::string name;
  Words words;
  std::vector<std::string_view> functions{};
  std::string prepare{};
  /// Declares u64 key and upper, the stream of numbers; empty: that of the seeds and of the call.
  std::string stream{};
};

class Drawing {
 public:
  /// Takes a call with the attributes batch_axis and per_row, and without a stream of its own
  /// seeded and seed.
  Drawing(const Device& device, const Signature& s, const Shape& shape, int per_block,
          const DrawingText& text);

  bool is_empty() const { return blocks_ == 0; }
  const Kernel& kernel() const { return kernel_; }

  /// Passes the drawing's own arguments; the op's follow.
  Call& begin(Call& call, const Launch& launch) const;

  void issue(Call& call) const { call.each(blocks_); }

 private:
  const Kernel kernel_;
  const bool seeded_;
  const int64_t seed_;
  int64_t run_;      // Elements whose positions follow each other,
  int64_t runs_;     // so many times.
  int64_t per_row_;  // Positions of a row of the batch within a run.
  int64_t blocks_;   // The blocks of all runs: as many as a run can touch, wherever it begins.
};

}  // namespace tandem::kernels::gpu

// Attention of one head, block by block: weights are relative to the largest score so far, and what
// was summed is corrected when a larger one comes (Dao et al., "FlashAttention", 2022). Included
// anew for each instruction set, after hwy/highway.h; therefore the guard that toggles.
#if defined(TANDEM_KERNELS_CPU_ATTENTION_FORWARD_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_ATTENTION_FORWARD_H
#undef TANDEM_KERNELS_CPU_ATTENTION_FORWARD_H
#else
#define TANDEM_KERNELS_CPU_ATTENTION_FORWARD_H
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/attention/attention_blocks.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

template <class T>
HWY_INLINE T largest(const T* x, int64_t count) {
  const hn::ScalableTag<T> d;
  auto max = hn::Set(d, -kInfinity<T>);
  const int64_t whole = count - count % lanes(d);
  for (int64_t i = 0; i < whole; i += lanes(d)) max = hn::Max(max, hn::LoadU(d, x + i));
  if (whole < count) {
    max = hn::Max(max, load_first(d, x + whole, count - whole, -kInfinity<T>));
  }
  return hn::GetLane(hn::MaxOfLanes(d, max));
}

template <class T>
struct ForwardWorkspace {
  ForwardWorkspace(const AttentionShape& s, Carver<T> part)
      : keys(part.take(padded<T>(s.keys) * s.width)),
        values(part.take(padded<T>(s.value_width) * s.keys)),
        scores(part.take(kQueryBlock * kScoresStep<T>)),
        sums(part.take(kQueryBlock * padded<T>(s.value_width))),
        max(part.take(kQueryBlock)),
        total(part.take(kQueryBlock)),
        elements(part.used()) {}

  T *keys, *values;  // Packed, all of them: keys as columns, values as rows.
  T* scores;         // The scores of a block, then its weights.
  T* sums;           // Sums of weighted values, for each query of a block,
  T *max, *total;    // whose weights are exp(score - max), in sum `total`.
  int64_t elements;
};

/// The block's scores become weights relative to the largest score so far.
template <class T>
HWY_INLINE void weigh(const AttentionShape& s, const Block& at, const void* mask,
                      const ForwardWorkspace<T>& w) {
  for (int64_t row = 0; row < at.queries; ++row) {
    T* scores = w.scores + row * kScoresStep<T>;
    const int64_t visible = at.visible(s.causal, row);
    const T scale = finish_scores(s, at, mask, row, visible, scores);
    const T max = std::max(w.max[row], scale * largest(scores, visible));
    const T shift = max == -kInfinity<T> ? T(0) : max;
    const T correction = at.key == 0 ? T(0) : std::exp(w.max[row] - shift);
    w.max[row] = max;
    w.total[row] = w.total[row] * correction + exponentials(scores, visible, scale, shift);
    clear_beyond(scores, visible);
    if (at.key > 0 && correction != T(1)) {
      const int64_t width = padded<T>(s.value_width);
      scale_row(w.sums + row * width, width, correction);
    }
  }
}

template <class T>
void forward(const AttentionShape& s, const AttentionHead<T>& head, int64_t first, int64_t last,
             T* workspace) {
  const ForwardWorkspace<T> w(s, Carver<T>(workspace));
  const int64_t width = padded<T>(s.value_width);
  pack_transposed(head.key.data, head.key.step, s.width, s.keys, w.keys);
  pack(head.value.data, head.value.step, s.keys, s.value_width, w.values);
  for (int64_t block = first; block < last; ++block) {
    const int64_t query = block * kQueryBlock;
    const int64_t queries = std::min(kQueryBlock, s.queries - query);
    std::fill_n(w.sums, queries * width, T(0));
    std::fill_n(w.max, queries, -kInfinity<T>);
    std::fill_n(w.total, queries, T(0));
    for_key_blocks(s, query, queries, [&](const Block& at) HWY_ATTR {
      multiply_with_keys(s, at, head.query, s.width, w.keys, w.scores);
      weigh(s, at, head.mask, w);
      add_weighted_keys(s, at, w.scores, s.value_width, w.values, w.sums);
    });
    for (int64_t row = 0; row < queries; ++row) {
      const bool sees = w.total[row] != T(0);
      copy_scaled(w.sums + row * width, head.result.at(query + row), s.value_width,
                  sees ? T(1) / w.total[row] : T(0));
      *head.logarithms.at(query + row) = sees ? w.max[row] + std::log(w.total[row]) : kInfinity<T>;
    }
  }
}

template <class T>
int64_t forward_workspace(const AttentionShape& s) {
  return ForwardWorkspace<T>(s, Carver<T>(nullptr)).elements;
}

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

// The gradients of one head, block by block: weights are made again from the logarithms of their
// sums (Dao et al., "FlashAttention", 2022). Included anew for each instruction set, after
// hwy/highway.h; therefore the guard that toggles.
#if defined(TANDEM_KERNELS_CPU_ATTENTION_BACKWARD_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_ATTENTION_BACKWARD_H
#undef TANDEM_KERNELS_CPU_ATTENTION_BACKWARD_H
#else
#define TANDEM_KERNELS_CPU_ATTENTION_BACKWARD_H
#endif

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/attention/attention_blocks.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

template <class T>
struct BackwardWorkspace {
  BackwardWorkspace(const AttentionShape& s, Carver<T> part)
      : keys(part.take(padded<T>(s.keys) * s.width)),
        values(part.take(padded<T>(s.keys) * s.value_width)),
        key_rows(part.take(padded<T>(s.width) * s.keys)),
        query_rows(part.take(padded<T>(s.width) * kQueryBlock)),
        gradient_rows(part.take(padded<T>(s.value_width) * kQueryBlock)),
        to_key(part.take(padded<T>(s.width) * s.keys)),
        to_value(part.take(padded<T>(s.value_width) * s.keys)),
        to_query(part.take(padded<T>(s.width) * kQueryBlock)),
        weights(part.take(kQueryBlock * kScoresStep<T>)),
        slopes(part.take(kQueryBlock * kScoresStep<T>)),
        means(part.take(kQueryBlock)),
        elements(part.used()) {}

  T *keys, *values, *key_rows;    // Packed, all of them: as columns, and as rows.
  T *query_rows, *gradient_rows;  // Rows of a block, packed as rows.
  T *to_key, *to_value;           // Sums so far,
  T* to_query;                    // of a block.
  T *weights, *slopes;            // The weights of a block, and the gradients of its scores.
  T* means;                       // The weighted mean of each query's gradients of weights.
  int64_t elements;
};

/// out[key] += weights^T times rows of the block's queries, packed as rows.
template <class T>
HWY_INLINE void add_weighted_queries(const AttentionShape& s, const Block& at, const T* weights,
                                     int64_t width, const T* packed, T* out) {
  PanelProduct<T> product{.rows = at.visible(s.causal, at.queries - 1),
                          .columns = width,
                          .depth = at.queries,
                          .a = weights,
                          .a_row = 1,
                          .a_depth = kScoresStep<T>,
                          .b = packed,
                          .panel_step = at.queries * kPanel<T>,
                          .c = out + at.key * padded<T>(width),
                          .c_row = padded<T>(width),
                          .add = true};
  if (s.causal) product.first_term = at.key - at.query;
  multiply(product);
}

template <class T>
HWY_INLINE T dot(const T* a, const T* b, int64_t count) {
  const hn::ScalableTag<T> d;
  auto sum = hn::Zero(d);
  const int64_t whole = count - count % lanes(d);
  for (int64_t i = 0; i < whole; i += lanes(d)) {
    sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  }
  T result = hn::GetLane(hn::SumOfLanes(d, sum));
  for (int64_t i = whole; i < count; ++i) result += a[i] * b[i];
  return result;
}

/// Scores to weights, and the weights' gradients to those of the scores.
template <class T>
HWY_INLINE void differentiate(const AttentionShape& s, const Block& at,
                              const AttentionGradHead<T>& head, const BackwardWorkspace<T>& w) {
  for (int64_t row = 0; row < at.queries; ++row) {
    T* weights = w.weights + row * kScoresStep<T>;
    T* slopes = w.slopes + row * kScoresStep<T>;
    const int64_t visible = at.visible(s.causal, row);
    const T scale = finish_scores(s, at, head.mask, row, visible, weights);
    exponentials(weights, visible, scale, *head.logarithms.at(at.query + row));
    for_vectors<T>(visible, [&](auto d, int64_t i) HWY_ATTR {
      const auto rest = hn::Sub(hn::LoadU(d, slopes + i), hn::Set(d, w.means[row]));
      hn::StoreU(hn::Mul(hn::LoadU(d, weights + i), rest), d, slopes + i);
    });
    clear_beyond(weights, visible);
    clear_beyond(slopes, visible);
  }
}

template <class T>
void copy_out(const T* from, int64_t rows, int64_t width, T scale, const Rows<T>& to,
              int64_t first) {
  constexpr int64_t kAhead = 8;
  constexpr auto kLine = static_cast<int64_t>(64 / sizeof(T));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < width && row + kAhead < rows; i += kLine) {
      prefetch_to_write(to.at(first + row + kAhead) + i);
    }
    copy_scaled(from + row * padded<T>(width), to.at(first + row), width, scale);
  }
}

template <class T>
void backward(const AttentionShape& s, const AttentionGradHead<T>& head, T* workspace) {
  const BackwardWorkspace<T> w(s, Carver<T>(workspace));
  const T scale = static_cast<T>(s.scale);
  pack_transposed(head.key.data, head.key.step, s.width, s.keys, w.keys);
  pack_transposed(head.value.data, head.value.step, s.value_width, s.keys, w.values);
  pack(head.key.data, head.key.step, s.keys, s.width, w.key_rows);
  std::fill_n(w.to_key, padded<T>(s.width) * s.keys, T(0));
  std::fill_n(w.to_value, padded<T>(s.value_width) * s.keys, T(0));
  for (int64_t query = 0; query < s.queries; query += kQueryBlock) {
    const int64_t queries = std::min(kQueryBlock, s.queries - query);
    pack(head.query.at(query), head.query.step, queries, s.width, w.query_rows);
    pack(head.gradient.at(query), head.gradient.step, queries, s.value_width, w.gradient_rows);
    std::fill_n(w.to_query, queries * padded<T>(s.width), T(0));
    for (int64_t row = 0; row < queries; ++row) {
      w.means[row] = dot(head.gradient.at(query + row), head.result.at(query + row), s.value_width);
    }
    for_key_blocks(s, query, queries, [&](const Block& at) HWY_ATTR {
      multiply_with_keys(s, at, head.query, s.width, w.keys, w.weights);
      multiply_with_keys(s, at, head.gradient, s.value_width, w.values, w.slopes);
      differentiate(s, at, head, w);
      add_weighted_queries(s, at, w.weights, s.value_width, w.gradient_rows, w.to_value);
      add_weighted_queries(s, at, w.slopes, s.width, w.query_rows, w.to_key);
      add_weighted_keys(s, at, w.slopes, s.width, w.key_rows, w.to_query);
    });
    copy_out(w.to_query, queries, s.width, scale, head.to_query, query);
  }
  copy_out(w.to_key, s.keys, s.width, scale, head.to_key, 0);
  copy_out(w.to_value, s.keys, s.value_width, T(1), head.to_value, 0);
}

template <class T>
int64_t backward_workspace(const AttentionShape& s) {
  return BackwardWorkspace<T>(s, Carver<T>(nullptr)).elements;
}

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

// Attention of one head, block by block (Dao et al., "FlashAttention", 2022). Included anew for
// each instruction set, after hwy/highway.h; therefore the guard that toggles.
#if defined(TANDEM_KERNELS_CPU_ATTENTION_SIMD_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_ATTENTION_SIMD_H
#undef TANDEM_KERNELS_CPU_ATTENTION_SIMD_H
#else
#define TANDEM_KERNELS_CPU_ATTENTION_SIMD_H
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/panels.h"
#include "kernels/cpu/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

template <class T>
inline constexpr T kInfinity = std::numeric_limits<T>::infinity();

/// Tiles of rows reach this far beyond the last key that a query sees.
inline constexpr int64_t kTileReach = 8;

/// From one query's scores to the next, in elements. An odd number of cache lines spreads them over
/// the cache's sets when a column is walked down.
template <class T>
inline constexpr int64_t kScoresStep = kKeyBlock + std::max(kPanel<T>, kTileReach);

/// Hands out the parts of a workspace; without one, counts them.
template <class T>
class Carver {
 public:
  explicit Carver(T* start) : start_(start) {}

  T* take(int64_t elements) {
    T* const part = start_ == nullptr ? nullptr : start_ + used_;
    used_ += elements;
    return part;
  }
  int64_t used() const { return used_; }

 private:
  T* const start_;
  int64_t used_ = 0;
};

/// Queries [query, query + queries) against keys [key, key + keys).
struct Block {
  int64_t query, queries, key, keys;

  /// How many of the keys the query `row` of the block sees.
  int64_t visible(bool causal, int64_t row) const {
    return causal ? std::clamp(query + row - key + 1, int64_t{0}, keys) : keys;
  }
};

/// Calls f(block) for each block of keys that some of the queries see.
template <class F>
HWY_INLINE void for_key_blocks(const AttentionShape& s, int64_t query, int64_t queries,
                               const F& f) {
  const int64_t end = s.causal ? std::min(s.keys, query + queries) : s.keys;
  for (int64_t key = 0; key < end; key += kKeyBlock) {
    f(Block{query, queries, key, std::min(kKeyBlock, s.keys - key)});
  }
}

/// Rows of queries times all keys of the block, from keys packed as columns.
template <class T>
HWY_INLINE void multiply_with_keys(const AttentionShape& s, const Block& at, Rows<const T> rows,
                                   int64_t width, const T* packed, T* out) {
  PanelProduct<T> product{.rows = at.queries,
                          .columns = at.keys,
                          .depth = width,
                          .a = rows.at(at.query),
                          .a_row = rows.step,
                          .a_depth = 1,
                          .b = packed + at.key * width,
                          .panel_step = width * kPanel<T>,
                          .c = out,
                          .c_row = kScoresStep<T>,
                          .add = false};
  if (s.causal) product.last_column = at.query - at.key;
  multiply(product);
}

/// out += weights times rows of all keys, packed as rows in panels of `s.keys`.
template <class T>
HWY_INLINE void add_weighted_keys(const AttentionShape& s, const Block& at, const T* weights,
                                  int64_t width, const T* packed, T* out) {
  PanelProduct<T> product{.rows = at.queries,
                          .columns = width,
                          .depth = at.keys,
                          .a = weights,
                          .a_row = kScoresStep<T>,
                          .a_depth = 1,
                          .b = packed + at.key * kPanel<T>,
                          .panel_step = s.keys * kPanel<T>,
                          .c = out,
                          .c_row = padded<T>(width),
                          .add = true};
  if (s.causal) product.last_term = at.query - at.key;
  multiply(product);
}

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
HWY_INLINE void apply_mask(const AttentionShape& s, const void* mask, int64_t query, int64_t key,
                           int64_t count, T* scores) {
  const int64_t offset = query * s.mask_query_step + key * s.mask_key_step;
  const int64_t step = s.mask_key_step;
  if (s.mask == MaskKind::boolean) {
    const auto* sees = static_cast<const uint8_t*>(mask) + offset;
    for (int64_t i = 0; i < count; ++i) scores[i] = sees[i * step] ? scores[i] : -kInfinity<T>;
  } else if (s.mask == MaskKind::additive) {
    const T* terms = static_cast<const T*>(mask) + offset;
    for (int64_t i = 0; i < count; ++i) scores[i] += terms[i * step];
  }
}

/// x[i] = scale x[i] for `count` elements.
template <class T>
HWY_INLINE void scale_row(T* x, int64_t count, T scale) {
  for_vectors<T>(count, [&](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, scale)), d, x + i);
  });
}

template <class T>
HWY_INLINE void copy_scaled(const T* from, T* to, int64_t count, T scale) {
  for_vectors<T>(count, [&](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, from + i), hn::Set(d, scale)), d, to + i);
  });
}

/// Each element becomes exp(x - shift); returns their sum.
template <class T>
HWY_INLINE T exponentials(T* x, int64_t count, T shift) {
  const hn::ScalableTag<T> d;
  auto sum = hn::Zero(d);
  const int64_t whole = count - count % lanes(d);
  for (int64_t i = 0; i < whole; i += lanes(d)) {
    const auto e = exp_of(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, shift)));
    sum = hn::Add(sum, e);
    hn::StoreU(e, d, x + i);
  }
  if (whole < count) {
    const auto last = load_first(d, x + whole, count - whole, -kInfinity<T>);
    const auto e = exp_of(d, hn::Sub(last, hn::Set(d, shift)));
    sum = hn::Add(sum, e);
    store_first(d, e, x + whole, count - whole);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

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

/// Scores to scale scores + mask for the keys that the query sees.
template <class T>
HWY_INLINE void finish_scores(const AttentionShape& s, const Block& at, const void* mask,
                              int64_t row, int64_t visible, T* scores) {
  scale_row(scores, visible, static_cast<T>(s.scale));
  apply_mask(s, mask, at.query + row, at.key, visible, scores);
}

template <class T>
HWY_INLINE void clear_beyond(T* row, int64_t visible) {
  std::fill(row + visible, row + visible + kTileReach, T(0));
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
  T* scores;         // Of a block, then the weights.
  T* sums;           // Of weighted values, for each query of a block,
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
    finish_scores(s, at, mask, row, visible, scores);
    const T max = std::max(w.max[row], largest(scores, visible));
    const T shift = max == -kInfinity<T> ? T(0) : max;
    const T correction = at.key == 0 ? T(0) : std::exp(w.max[row] - shift);
    w.max[row] = max;
    w.total[row] = w.total[row] * correction + exponentials(scores, visible, shift);
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
  T *query_rows, *gradient_rows;  // Of a block, packed as rows.
  T *to_key, *to_value;           // Sums so far,
  T* to_query;                    // of a block.
  T *weights, *slopes;            // Of a block: gradients of scores.
  T* means;                       // Of each query's gradients of weights, weighted.
  int64_t elements;
};

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
    finish_scores(s, at, head.mask, row, visible, weights);
    exponentials(weights, visible, *head.logarithms.at(at.query + row));
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
  for (int64_t row = 0; row < rows; ++row) {
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
int64_t forward_workspace(const AttentionShape& s) {
  return ForwardWorkspace<T>(s, Carver<T>(nullptr)).elements;
}

template <class T>
int64_t backward_workspace(const AttentionShape& s) {
  return BackwardWorkspace<T>(s, Carver<T>(nullptr)).elements;
}

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

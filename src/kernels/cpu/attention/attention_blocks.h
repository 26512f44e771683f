// What both directions of attention do with a block of queries and keys. Included anew for each
// instruction set, after hwy/highway.h; therefore the guard that toggles.
#if defined(TANDEM_KERNELS_CPU_ATTENTION_BLOCKS_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_ATTENTION_BLOCKS_H
#undef TANDEM_KERNELS_CPU_ATTENTION_BLOCKS_H
#else
#define TANDEM_KERNELS_CPU_ATTENTION_BLOCKS_H
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/cpu/attention/attention_rows.h"
#include "kernels/cpu/attention/panels.h"
#include "kernels/cpu/elementwise/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

template <class T>
inline constexpr T kInfinity = std::numeric_limits<T>::infinity();

/// Tiles of rows reach this far beyond the last key that a query sees.
inline constexpr int64_t kTileReach = 8;

/// The distance from one query's scores to the next, in elements. An odd number of cache lines
/// spreads them over the cache's sets when a column is walked down.
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

/// Each element becomes exp(scale x - shift); returns their sum.
template <class T>
HWY_INLINE T exponentials(T* x, int64_t count, T scale, T shift) {
  const hn::ScalableTag<T> d;
  const auto factor = hn::Set(d, scale);
  auto sum = hn::Zero(d);
  const int64_t whole = count - count % lanes(d);
  for (int64_t i = 0; i < whole; i += lanes(d)) {
    const auto e = exp_of(d, hn::MulSub(hn::LoadU(d, x + i), factor, hn::Set(d, shift)));
    sum = hn::Add(sum, e);
    hn::StoreU(e, d, x + i);
  }
  if (whole < count) {
    const auto last = load_first(d, x + whole, count - whole, -kInfinity<T>);
    const auto e = exp_of(d, hn::MulSub(last, factor, hn::Set(d, shift)));
    sum = hn::Add(sum, e);
    store_first(d, e, x + whole, count - whole);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

/// Scores to scale scores + mask for the keys that the query sees. Where nothing is to be added to
/// them scores stay as they are; who uses them scales them by what is returned.
template <class T>
HWY_INLINE T finish_scores(const AttentionShape& s, const Block& at, const void* mask, int64_t row,
                           int64_t visible, T* scores) {
  const T scale = static_cast<T>(s.scale);
  if (s.mask == MaskKind::none && scale > 0) return scale;
  scale_row(scores, visible, scale);
  apply_mask(s, mask, at.query + row, at.key, visible, scores);
  return T(1);
}

template <class T>
HWY_INLINE void clear_beyond(T* row, int64_t visible) {
  std::fill(row + visible, row + visible + kTileReach, T(0));
}

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

// Folds of whole numbers (fold.h). Plain loops are enough here, which the compiler makes into
// vectors: whole numbers may be added in any order.
#include <algorithm>
#include <functional>
#include <limits>

#include "kernels/cpu/reduction/fold.h"
#include "kernels/cpu/wrapping.h"

namespace tandem::kernels::cpu {
namespace {

struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return std::max(a, b);
  }
};

struct Min {
  template <class T>
  T operator()(T a, T b) const {
    return std::min(a, b);
  }
};

template <class F, class T>
Fold<T> fold_of(T start) {
  // F has no state: the loops make their own.
  return {start, [](T a, T b) { return F()(a, b); },
          [](const T* x, int64_t count) {
            T result = x[0];
            for (int64_t i = 1; i < count; ++i) result = F()(result, x[i]);
            return result;
          },
          [](const Rows<T>& at, T* out) {
            const T* x = at.x;
            for (int64_t row = 0; row < at.rows; ++row, x += at.stride) {
              for (int64_t c = 0; c < at.columns; ++c) out[c] = F()(out[c], x[c]);
            }
          }};
}

template <class T>
Fold<T> select(FoldKind kind) {
  using Limits = std::numeric_limits<T>;
  switch (kind) {
    case FoldKind::sum:
      return fold_of<Wrapping<std::plus>, T>(0);
    case FoldKind::max:
      return fold_of<Max, T>(Limits::lowest());
    case FoldKind::min:
      return fold_of<Min, T>(Limits::max());
    case FoldKind::prod:
      return fold_of<Wrapping<std::multiplies>, T>(1);
  }
  return {};
}

}  // namespace

Fold<int32_t> best_fold(FoldKind kind, int32_t) { return select<int32_t>(kind); }
Fold<int64_t> best_fold(FoldKind kind, int64_t) { return select<int64_t>(kind); }
Fold<uint8_t> best_fold(FoldKind kind, uint8_t) { return select<uint8_t>(kind); }

}  // namespace tandem::kernels::cpu

// Tandem's own matrix products.
//
// On CPUs an item makes a block of C. It packs a panel of B, as wide as a vector of 16 floats and
// as deep as stays in the first cache, and multiplies it with tiles of six rows of A, or twelve,
// whose sums stay in registers. Where A is transposed its rows are packed, too. This is about the
// way of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008. On GPUs
// a group makes a tile of 64 x 64, each item 4 x 4 of it, and passes A and B through local memory.
//
// Where C is so small that few items would work, the inner sum is cut into splits: each makes a
// matrix of its own in the workspace, and a second kernel adds them in order.
#include <algorithm>

#include "core/alignment.h"
#include "device/gpu/dialect.h"
#include "kernels/gpu/gemm/products.h"

namespace tandem::kernels::gpu {
namespace {

// a_row and a_deep are the distances in A from one row of op(A) to the next and from one term of
// the inner sum to the next; b_deep and b_column those of B. A group takes a block of rows and
// columns of one product of the batch, and one split.
constexpr const char* kProduct = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), i64 m, i64 n, i64 k, i64 a_row, i64 a_deep,
            i64 b_deep, i64 b_column, i64 c_row, i64 batch, i64 inner, i64 a_outer, i64 a_inner,
            i64 b_outer, i64 b_inner, i64 c_outer, i64 c_inner, i64 c_split, i64 split_depth,
            i64 adds, i64 rows, i64 columns) {
  const i64 down = (m + rows - 1) / rows;
  const i64 across = (n + columns - 1) / columns;
  const i64 at = GROUP() / (down * across) % batch;
  const i64 split = GROUP() / (down * across * batch);
  const i64 top = GROUP() % down * rows;
  const i64 left = GROUP() / down % across * columns;
  const i64 k_begin = split * split_depth;
  const i64 k_end = min(k, k_begin + split_depth);
  const GLOBAL T* A = AT(T, 0) + at / inner * a_outer + at % inner * a_inner;
  const GLOBAL T* B = AT(T, 1) + at / inner * b_outer + at % inner * b_inner;
  GLOBAL T* C = AT(T, 2) + at / inner * c_outer + at % inner * c_inner + split * c_split;
#ifdef SERIAL
#ifdef __AVX512F__
#define HEIGHT 12
#else
#define HEIGHT 6
#endif
/* The number of terms, from k0 on, of which so many elements can be read whose first `own` are
   wanted: what lies behind those is of the next terms, but for the last. */
#define WHOLE(deep, own, elements) \
  ((own) >= (elements) ? depth \
   : (int)min((i64)depth, max((i64)0, k - k0 - ((elements) - (own) + (deep) - 1) / (deep))))
  const i64 bottom = min(m, top + rows);
  const i64 right = min(n, left + columns);
  T panel[DEPTH * WIDTH];
  T tiles[MOST_ROWS * DEPTH];
  for (i64 k0 = k_begin; k0 == k_begin || k0 < k_end; k0 += DEPTH) {
    const int depth = (int)max((i64)0, min((i64)DEPTH, k_end - k0));
    const int has_sum = k0 > k_begin || adds != 0;
    if (a_deep != 1) {
      for (i64 i = top; i < bottom; i += HEIGHT) {
        T* to = tiles + (i - top) * DEPTH;
        const int whole = a_row == 1 ? WHOLE(a_deep, bottom - i, HEIGHT) : 0;
        const GLOBAL T* from = A + i * a_row + k0 * a_deep;
        for (int p = 0; p < whole; ++p)
          for (int r = 0; r < HEIGHT; ++r) to[p * HEIGHT + r] = from[p * a_deep + r];
        for (int r = 0; r < HEIGHT; ++r) {
          from = A + min(i + r, bottom - 1) * a_row + k0 * a_deep;
          for (int p = whole; p < depth; ++p) to[p * HEIGHT + r] = from[p * a_deep];
        }
      }
    }
    for (i64 j = left; j < right; j += WIDTH) {
      const int width = (int)min((i64)WIDTH, right - j);
      const int whole = b_column == 1 ? WHOLE(b_deep, right - j, WIDTH) : 0;
      const GLOBAL T* from = B + k0 * b_deep + j * b_column;
      for (int p = 0; p < whole; ++p) STORE(LOAD(0, from + p * b_deep), p, panel);
      for (int x = 0; x < WIDTH; ++x) {
        from = B + k0 * b_deep + min(j + x, right - 1) * b_column;
        for (int p = whole; p < depth; ++p) panel[p * WIDTH + x] = from[p * b_deep];
      }
      for (i64 i = top; i < bottom; i += HEIGHT) {
        const int height = (int)min((i64)HEIGHT, bottom - i);
        V c[HEIGHT];
        #pragma unroll
        for (int r = 0; r < HEIGHT; ++r) c[r] = (V)(0);
        if (a_deep == 1) {
          const GLOBAL T* a[HEIGHT];
          #pragma unroll
          for (int r = 0; r < HEIGHT; ++r) a[r] = A + min(i + r, bottom - 1) * a_row + k0;
          for (int p = 0; p < depth; ++p) {
            const V b = LOAD(p, panel);
            #pragma unroll
            for (int r = 0; r < HEIGHT; ++r) c[r] = fma((V)(a[r][p]), b, c[r]);
          }
        } else {
          const T* a = tiles + (i - top) * DEPTH;
          for (int p = 0; p < depth; ++p) {
            const V b = LOAD(p, panel);
            #pragma unroll
            for (int r = 0; r < HEIGHT; ++r) c[r] = fma((V)(a[p * HEIGHT + r]), b, c[r]);
          }
        }
        GLOBAL T* to = C + i * c_row + j;
        if (width == WIDTH) {
          #pragma unroll
          for (int r = 0; r < HEIGHT; ++r) {
            if (r < height) {
              if (has_sum) c[r] += LOAD(0, to + r * c_row);
              STORE(c[r], 0, to + r * c_row);
            }
          }
        } else {
          T sums[HEIGHT * WIDTH];
          #pragma unroll
          for (int r = 0; r < HEIGHT; ++r) STORE(c[r], r, sums);
          for (int r = 0; r < height; ++r) {
            for (int x = 0; x < width; ++x) {
              const T sum = sums[r * WIDTH + x];
              to[r * c_row + x] = has_sum ? to[r * c_row + x] + sum : sum;
            }
          }
        }
      }
    }
  }
#undef HEIGHT
#undef WHOLE
#else
  LOCAL T tile_a[16 * 65];
  LOCAL T tile_b[16 * 65];
  const int item = LID();
  const int own_row = item / 16 * 4;
  const int own_column = item % 16 * 4;
  T c[4][4];
  for (int x = 0; x < 4; ++x)
    for (int y = 0; y < 4; ++y) c[x][y] = 0;
  for (i64 k0 = k_begin; k0 < k_end; k0 += 16) {
    BARRIER();
    for (int u = item; u < 16 * 64; u += GROUP_SIZE) {
      /* Neighbours read neighbours. */
      const int ap = a_deep == 1 ? u % 16 : u / 64, ai = a_deep == 1 ? u / 16 : u % 64;
      const int bp = b_deep == 1 ? u % 16 : u / 64, bj = b_deep == 1 ? u / 16 : u % 64;
      T a = 0, b = 0;
      if (top + ai < m && k0 + ap < k_end) a = A[(top + ai) * a_row + (k0 + ap) * a_deep];
      if (left + bj < n && k0 + bp < k_end) b = B[(k0 + bp) * b_deep + (left + bj) * b_column];
      tile_a[ap * 65 + ai] = a;
      tile_b[bp * 65 + bj] = b;
    }
    BARRIER();
    for (int p = 0; p < 16; ++p) {
      T a[4], b[4];
      for (int x = 0; x < 4; ++x) a[x] = tile_a[p * 65 + own_row + x];
      for (int y = 0; y < 4; ++y) b[y] = tile_b[p * 65 + own_column + y];
      for (int x = 0; x < 4; ++x)
        for (int y = 0; y < 4; ++y) c[x][y] = fma(a[x], b[y], c[x][y]);
    }
  }
  for (int x = 0; x < 4; ++x) {
    for (int y = 0; y < 4; ++y) {
      const i64 i = top + own_row + x, j = left + own_column + y;
      if (i < m && j < n) C[i * c_row + j] = adds != 0 ? C[i * c_row + j] + c[x][y] : c[x][y];
    }
  }
#endif
}
)";

/// The splits' matrices follow one another, each with the matrices of the whole batch.
constexpr const char* kJoinSplits = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), i64 m, i64 n, i64 c_row, i64 batch, i64 inner, i64 c_outer,
            i64 c_inner, i64 splits, i64 adds) {
  const i64 step = batch * m * n;
  ROWS(r, batch * m) {
    const i64 at = r / m;
    const GLOBAL T* from = AT(T, 0) + r * n;
    GLOBAL T* to = AT(T, 1) + at / inner * c_outer + at % inner * c_inner + r % m * c_row;
    ALONG(j, l, n) {
      T sum = from[j];
      for (i64 split = 1; split < splits; ++split) sum += from[split * step + j];
      to[j] = adds != 0 ? to[j] + sum : sum;
    }
  }
}
)";

constexpr int64_t kHeight = 12;    // Rows of a block are a multiple of it.
constexpr int64_t kMostRows = 96;  // A block has no more in the serial form.
constexpr int64_t kTile = 64;      // In the parallel form.

int64_t quotient_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t multiple_up(int64_t a, int64_t b) { return quotient_up(a, b) * b; }

/// How a product is dealt to groups.
struct Dealing {
  int64_t rows, columns;  ///< A block's.
  int64_t splits = 1, split_depth;

  int64_t blocks(const ProductShape& s) const {
    return quotient_up(s.m, rows) * quotient_up(s.n, columns) * s.batch();
  }
};

class OwnProducts final : public Products {
 public:
  OwnProducts(const Device& device, DType dtype)
      : element_(static_cast<int64_t>(size_of(dtype))),
        product_(device, {.name = "product", .words = words(dtype), .body = kProduct}),
        join_(device, {.name = "join_splits", .words = types_of(dtype), .body = kJoinSplits}) {}

  void multiply(const Launch& launch, const ProductShape& s, const void* a, const void* b, void* c,
                size_t workspace) const override {
    if (s.m == 0 || s.n == 0 || s.batch() == 0) return;
    if (s.k == 0 && s.adds) return;
    const Dealing dealing = deal(s);
    const bool is_split = dealing.splits > 1;
    const int64_t matrix = s.m * s.n;
    Call call(launch, product_);
    // Matrices without elements have no address.
    call.memory(s.k == 0 ? c : a).memory(s.k == 0 ? c : b);
    is_split ? call.workspace(workspace) : call.memory(c);
    call.whole(s.m).whole(s.n).whole(s.k);
    call.whole(s.transpose_a ? 1 : s.lda).whole(s.transpose_a ? s.lda : 1);
    call.whole(s.transpose_b ? 1 : s.ldb).whole(s.transpose_b ? s.ldb : 1);
    call.whole(is_split ? s.n : s.ldc).whole(s.batch()).whole(s.inner);
    call.whole(s.a.outer).whole(s.a.inner).whole(s.b.outer).whole(s.b.inner);
    call.whole(is_split ? s.inner * matrix : s.c.outer).whole(is_split ? matrix : s.c.inner);
    call.whole(s.batch() * matrix).whole(dealing.split_depth).whole(s.adds && !is_split ? 1 : 0);
    call.whole(dealing.rows).whole(dealing.columns);
    call.groups(dealing.blocks(s) * dealing.splits,
                product_.is_serial() ? 1 : devices::gpu::kGroupSize);
    if (!is_split) return;
    Call(launch, join_)
        .workspace(workspace)
        .memory(c)
        .wholes({s.m, s.n, s.ldc, s.batch(), s.inner, s.c.outer, s.c.inner, dealing.splits,
                 s.adds ? 1 : 0})
        .rows(s.batch() * s.m, s.n);
  }

  size_t workspace_bytes(const ProductShape& s) const override {
    if (s.m == 0 || s.n == 0 || s.batch() == 0) return 0;
    const Dealing dealing = deal(s);
    if (dealing.splits == 1) return 0;
    return core::aligned(static_cast<size_t>(dealing.splits * s.batch() * s.m * s.n * element_));
  }

  const char* provider() const override { return "own"; }

 private:
  /// A vector and a panel have as many bytes in float64 as in float32.
  static Words words(DType dtype) {
    Words words{{"T", type_name(dtype)}};
    const bool single = dtype == DType::float32;
    words.insert(words.end(), {{"V", single ? "float16" : "double8"},
                               {"LOAD", single ? "vload16" : "vload8"},
                               {"STORE", single ? "vstore16" : "vstore8"},
                               {"WIDTH", single ? "16" : "8"},
                               {"DEPTH", single ? "256" : "128"},
                               {"MOST_ROWS", std::to_string(kMostRows)}});
    return words;
  }

  int64_t width() const { return 64 / element_; }
  int64_t depth() const { return 1024 / element_; }

  Dealing deal(const ProductShape& s) const {
    Dealing dealing = product_.is_serial() ? deal_blocks(s) : Dealing{kTile, kTile, 1, s.k};
    const int64_t units = product_.device().units;
    const int64_t blocks = dealing.blocks(s);
    // A split that is shorter is not worth its matrix.
    const int64_t shortest = product_.is_serial() ? 4 * depth() : 512;
    if (blocks < units && s.k >= 2 * shortest) {
      const int64_t most = std::min(s.k / shortest, quotient_up(2 * units, blocks));
      dealing.split_depth = multiple_up(quotient_up(s.k, most), depth());
      dealing.splits = quotient_up(s.k, dealing.split_depth);
    }
    return dealing;
  }

  /// Large blocks pack little. But there are enough blocks for all units, and for large products
  /// some more, so that units that are interrupted do not keep the others waiting.
  Dealing deal_blocks(const ProductShape& s) const {
    constexpr int64_t kMostColumns = 256;
    constexpr int64_t kFewRows = 48;
    constexpr int64_t kFewColumns = 64;
    constexpr int64_t kWorthAnItem = 1 << 16;  // Multiplications.
    const int64_t units = product_.device().units;
    const auto even = [](int64_t all, int64_t most, int64_t unit) {
      return multiple_up(quotient_up(all, quotient_up(all, most)), unit);
    };
    Dealing dealing{even(s.m, kMostRows, kHeight), even(s.n, kMostColumns, width()), 1, s.k};
    const auto goes_on = [&](int64_t wanted, int64_t rows, int64_t columns) {
      const int64_t blocks = dealing.blocks(s);
      return blocks < wanted && s.m * s.n * s.k * s.batch() > blocks * kWorthAnItem &&
             (dealing.rows > rows || dealing.columns > columns);
    };
    const auto cut = [&](int64_t rows, int64_t columns) {
      if (dealing.columns > columns) {
        dealing.columns = multiple_up(dealing.columns / 2, width());
      } else if (dealing.rows > rows) {
        dealing.rows = multiple_up(dealing.rows / 2, kHeight);
      }
    };
    while (goes_on(4 * units, kFewRows, kFewColumns)) cut(kFewRows, kFewColumns);
    while (goes_on(units, kHeight, width())) cut(kHeight, width());
    return dealing;
  }

  const int64_t element_;
  const Kernel product_, join_;
};

}  // namespace

ProductsPtr own_products(const Device& device, DType dtype) {
  return std::make_shared<OwnProducts>(device, dtype);
}

}  // namespace tandem::kernels::gpu

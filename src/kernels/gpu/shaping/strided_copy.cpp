#include "kernels/gpu/axes.h"
#include "kernels/gpu/shaping/gpu_strided_copy.h"

namespace tandem::kernels::gpu {
namespace {

// An item of the serial form copies whole runs of the inner axis; the first and the last may be
// shared with its neighbours.
constexpr const char* kCopy = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), i64 count, i64 from, i64 to, i64 inner, i64 x_step, i64 y_step, AXES) {
  LISTS
  const GLOBAL T* x = AT(T, 0) + from;
  GLOBAL T* y = AT(T, 1) + to;
#ifdef SERIAL
  i64 i = count * GID() / GSIZE();
  const i64 end = count * (GID() + 1) / GSIZE();
  if (i >= end) return;
  i64 c[RANK];
  i64 first = i % inner;
  i64 at = i / inner;
  for (int a = RANK - 1; a >= 0; --a) {
    c[a] = at % n[a];
    at /= n[a];
    x += c[a] * xs[a];
    y += c[a] * ys[a];
  }
  while (i < end) {
    const i64 m = inner - first < end - i ? inner - first : end - i;
    const GLOBAL T* s = x + first * x_step;
    GLOBAL T* t = y + first * y_step;
    if (x_step == 1 && y_step == 1) {
      INDEPENDENT for (i64 j = 0; j < m; ++j) t[j] = s[j];
    } else {
      for (i64 j = 0; j < m; ++j) t[j * y_step] = s[j * x_step];
    }
    i += m;
    first = 0;
    for (int a = RANK - 1; a >= 0; --a) {
      x += xs[a];
      y += ys[a];
      if (++c[a] < n[a]) break;
      x -= n[a] * xs[a];
      y -= n[a] * ys[a];
      c[a] = 0;
    }
  }
#else
  EACH(i, count) {
    i64 at = i / inner;
    i64 s = (i - at * inner) * x_step;
    i64 t = (i - at * inner) * y_step;
    for (int a = RANK - 1; a >= 0; --a) {
      const i64 rest = at / n[a];
      s += (at - rest * n[a]) * xs[a];
      t += (at - rest * n[a]) * ys[a];
      at = rest;
    }
    y[t] = x[s];
  }
#endif
}
)";

// Matrices of `rows` rows, whose elements are neighbours in x from row to row, and in y from column
// to column. A tile is read along its columns and written along its rows.
constexpr const char* kTranspose = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), i64 tiles, i64 from, i64 to, i64 rows, i64 columns, i64 x_step, i64 y_step, AXES) {
  LISTS
  const i64 down = (rows + SIDE - 1) / SIDE;
  const i64 across = (columns + SIDE - 1) / SIDE;
#ifdef SERIAL
  T tile[SIDE * SIDE];
  T turned[SIDE * SIDE];
#else
  LOCAL T tile[SIDE * (SIDE + 1)];
#endif
  ROWS(k, tiles) {
    const i64 column = k % across * SIDE;
    const i64 row = k / across % down * SIDE;
    i64 at = k / across / down;
    const GLOBAL T* x = AT(T, 0) + from + column * x_step + row;
    GLOBAL T* y = AT(T, 1) + to + row * y_step + column;
    for (int a = RANK - 1; a >= 0; --a) {
      const i64 rest = at / n[a];
      x += (at - rest * n[a]) * xs[a];
      y += (at - rest * n[a]) * ys[a];
      at = rest;
    }
    const int h = (int)(rows - row < SIDE ? rows - row : SIDE);
    const int w = (int)(columns - column < SIDE ? columns - column : SIDE);
#ifdef SERIAL
    if (h == SIDE && w == SIDE) {
      for (int c = 0; c < SIDE; ++c)
        INDEPENDENT for (int r = 0; r < SIDE; ++r) tile[c * SIDE + r] = x[c * x_step + r];
      for (int r = 0; r < SIDE; r += 4)
        INDEPENDENT for (int c = 0; c < SIDE; ++c) {
          turned[r * SIDE + c] = tile[c * SIDE + r];
          turned[(r + 1) * SIDE + c] = tile[c * SIDE + r + 1];
          turned[(r + 2) * SIDE + c] = tile[c * SIDE + r + 2];
          turned[(r + 3) * SIDE + c] = tile[c * SIDE + r + 3];
        }
      for (int r = 0; r < SIDE; ++r)
        INDEPENDENT for (int c = 0; c < SIDE; ++c) y[r * y_step + c] = turned[r * SIDE + c];
    } else {
      for (int c = 0; c < w; ++c)
        for (int r = 0; r < h; ++r) y[r * y_step + c] = x[c * x_step + r];
    }
#else
    const int inner = LID() % SIDE;
    BARRIER();
    for (int c = LID() / SIDE; c < w; c += GROUP_SIZE / SIDE)
      if (inner < h) tile[c * (SIDE + 1) + inner] = x[c * x_step + inner];
    BARRIER();
    for (int r = LID() / SIDE; r < h; r += GROUP_SIZE / SIDE)
      if (inner < w) y[r * y_step + inner] = tile[inner * (SIDE + 1) + r];
#endif
  }
}
)";

constexpr int64_t kSide = 32;

/// A tile of shorter sides would be empty for the most part.
constexpr int64_t kWorthTiles = 8;

int64_t tiles_along(int64_t size) { return (size + kSide - 1) / kSide; }

}  // namespace

StridedCopy::Plan StridedCopy::plan_of(Nest<2> loops) {
  const Axis<2> inner = loops.take_inner();
  Plan plan{false, loops, inner, {}};
  if (inner.strides[0] == 1 || inner.strides[1] != 1 || inner.size < kWorthTiles) return plan;
  for (size_t unit = 0; unit < loops.rank(); ++unit) {
    if (loops[unit].strides[0] != 1 || loops[unit].size < kWorthTiles) continue;
    plan = {true, {}, inner, loops[unit]};
    for (size_t axis = 0; axis < loops.rank(); ++axis) {
      if (axis != unit) plan.outer.add(loops[axis]);
    }
    return plan;
  }
  return plan;
}

Kernel StridedCopy::kernel_of(const Device& device, DType dtype, const Plan& plan) {
  Words words = word_of(dtype);
  add_axes(words, text_rank(plan.outer.rank()), {"n", "xs", "ys"});
  if (plan.in_tiles) words.emplace_back("SIDE", std::to_string(kSide));
  return Kernel(device, {.name = plan.in_tiles ? "transpose_tiles" : "strided_copy",
                         .words = words,
                         .body = plan.in_tiles ? kTranspose : kCopy});
}

StridedCopy::StridedCopy(const Device& device, DType dtype, const Strided& strided, int64_t to)
    : plan_(plan_of(strided.loops)),
      kernel_(kernel_of(device, dtype, plan_)),
      from_(strided.base),
      to_(to) {}

int64_t StridedCopy::tiles() const {
  return plan_.outer.count() * tiles_along(plan_.unit.size) * tiles_along(plan_.inner.size);
}

void StridedCopy::run(const Launch& launch, int input) const {
  const Nest<2>& outer = plan_.outer;
  const int64_t count = outer.count() * plan_.inner.size;
  Call call(launch, kernel_);
  call.in(input).out(0).whole(plan_.in_tiles ? tiles() : count).whole(from_).whole(to_);
  if (plan_.in_tiles) call.whole(plan_.unit.size);
  call.whole(plan_.inner.size).whole(plan_.inner.strides[0]);
  call.whole(plan_.in_tiles ? plan_.unit.strides[1] : plan_.inner.strides[1]);
  // Axes of one point fill up what the text has.
  const size_t rank = text_rank(outer.rank());
  const size_t missing = rank - outer.rank();
  for (size_t a = 0; a < rank; ++a) call.whole(a < missing ? 1 : outer[a - missing].size);
  for (size_t i = 0; i < 2; ++i) {
    for (size_t a = 0; a < rank; ++a) call.whole(a < missing ? 0 : outer[a - missing].strides[i]);
  }
  plan_.in_tiles ? call.rows(tiles(), kSide * kSide) : call.each(count);
}

}  // namespace tandem::kernels::gpu

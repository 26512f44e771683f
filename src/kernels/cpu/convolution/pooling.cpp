// Channels lie side by side, so every step of a window is a vector of them.
//
// This file is compiled once per instruction set; the best one is chosen when a kernel is prepared.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "op/registry.h"
#include "ops/convolution/window.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/convolution/pooling.cpp"
#include <hwy/foreach_target.h>
// These come after foreach_target.h, which sets what they expand to.
#include <hwy/highway.h>

#include "kernels/cpu/simd.h"

#ifndef TANDEM_POOLING_ONCE
#define TANDEM_POOLING_ONCE
namespace tandem::kernels::cpu {
namespace {

/// The part of one window that lies within the image: `rows` rows of `columns` pixels, from element
/// `first` of the image on.
struct Seen {
  int64_t first;
  int64_t rows, columns;
  int64_t row_step;  // Elements from one row to the next.
  int64_t channels;
};

/// What is done at each window. Images are `x`, and `to` where it is written; the others are
/// channels of the one result. Where windows overlap, gradients add up.
template <class T>
struct PoolFns {
  void (*max)(const Seen& seen, const T* x, T* y);
  void (*max_grad)(const Seen& seen, const T* x, const T* y, const T* g, T* to);
  void (*add_max_grad)(const Seen& seen, const T* x, const T* y, const T* g, T* to);
  void (*max_pick)(const Seen& seen, const T* x, const T* y, const T* h, T* picked);
  void (*avg)(const Seen& seen, const T* x, T* y);
  void (*avg_grad)(const Seen& seen, const T* g, T* to);
  void (*add_avg_grad)(const Seen& seen, const T* g, T* to);
};

}  // namespace
}  // namespace tandem::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

/// Calls visit(offset of the pixel in the image).
template <class Visit>
HWY_INLINE void for_each_pixel(const Seen& seen, const Visit& visit) {
  for (int64_t row = 0; row < seen.rows; ++row) {
    const int64_t begin = seen.first + row * seen.row_step;
    for (int64_t column = 0; column < seen.columns; ++column) visit(begin + column * seen.channels);
  }
}

template <class T>
void max(const Seen& seen, const T* x, T* y) {
  for_vectors<T>(seen.channels, [&](auto d, int64_t c) HWY_ATTR {
    auto largest = hn::Set(d, -std::numeric_limits<T>::infinity());
    for_each_pixel(seen, [&](int64_t at) HWY_ATTR {
      const auto value = hn::LoadU(d, x + at + c);
      const auto larger = hn::Or(hn::Gt(value, largest), hn::IsNaN(value));
      largest = hn::IfThenElse(larger, value, largest);
    });
    hn::StoreU(largest, d, y + c);
  });
}

/// True where `value` is the largest, and none before it was.
template <class D, class V>
HWY_INLINE auto is_largest(D, V value, V largest) {
  return hn::Or(hn::Eq(value, largest), hn::IsNaN(value));
}

template <bool kAdds, class D, class V, class T>
HWY_INLINE void put(D d, V value, T* to) {
  hn::StoreU(kAdds ? hn::Add(hn::LoadU(d, to), value) : value, d, to);
}

template <class T, bool kAdds>
void max_grad(const Seen& seen, const T* x, const T* y, const T* g, T* to) {
  for_vectors<T>(seen.channels, [&](auto d, int64_t c) HWY_ATTR {
    const auto largest = hn::LoadU(d, y + c);
    auto left = hn::LoadU(d, g + c);
    for_each_pixel(seen, [&](int64_t at) HWY_ATTR {
      const auto here = is_largest(d, hn::LoadU(d, x + at + c), largest);
      put<kAdds>(d, hn::IfThenElseZero(here, left), to + at + c);
      left = hn::IfThenZeroElse(here, left);
    });
  });
}

template <class T>
void max_pick(const Seen& seen, const T* x, const T* y, const T* h, T* picked) {
  for_vectors<T>(seen.channels, [&](auto d, int64_t c) HWY_ATTR {
    const auto largest = hn::LoadU(d, y + c);
    auto weight = hn::Set(d, T(1));
    auto sum = hn::Zero(d);
    for_each_pixel(seen, [&](int64_t at) HWY_ATTR {
      const auto here = is_largest(d, hn::LoadU(d, x + at + c), largest);
      const auto first = hn::IfThenElseZero(here, weight);
      const auto value = hn::LoadU(d, h + at + c);
      sum = hn::IfThenElse(hn::Gt(first, hn::Zero(d)), value, sum);
      weight = hn::IfThenZeroElse(here, weight);
    });
    hn::StoreU(sum, d, picked + c);
  });
}

template <class T>
void avg(const Seen& seen, const T* x, T* y) {
  const T factor = T(1) / static_cast<T>(seen.rows * seen.columns);
  for_vectors<T>(seen.channels, [&](auto d, int64_t c) HWY_ATTR {
    auto sum = hn::Zero(d);
    for_each_pixel(seen,
                   [&](int64_t at) HWY_ATTR { sum = hn::Add(sum, hn::LoadU(d, x + at + c)); });
    hn::StoreU(hn::Mul(sum, hn::Set(d, factor)), d, y + c);
  });
}

template <class T, bool kAdds>
void avg_grad(const Seen& seen, const T* g, T* to) {
  const T factor = T(1) / static_cast<T>(seen.rows * seen.columns);
  for_vectors<T>(seen.channels, [&](auto d, int64_t c) HWY_ATTR {
    const auto share = hn::Mul(hn::LoadU(d, g + c), hn::Set(d, factor));
    for_each_pixel(seen, [&](int64_t at) HWY_ATTR { put<kAdds>(d, share, to + at + c); });
  });
}

template <class T>
PoolFns<T> pool_fns() {
  return {max<T>, max_grad<T, false>, max_grad<T, true>, max_pick<T>,
          avg<T>, avg_grad<T, false>, avg_grad<T, true>};
}

PoolFns<float> pool_float32() { return pool_fns<float>(); }
PoolFns<double> pool_float64() { return pool_fns<double>(); }

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels::cpu {
namespace {

HWY_EXPORT(pool_float32);
HWY_EXPORT(pool_float64);

PoolFns<float> best_pool(float) { return HWY_DYNAMIC_DISPATCH(pool_float32)(); }
PoolFns<double> best_pool(double) { return HWY_DYNAMIC_DISPATCH(pool_float64)(); }

using op::Launch;
using op::Signature;

struct Pool {
  explicit Pool(const Signature& s)
      : window(ops::window_of(s.attrs)),
        images(s.attrs.get<Shape>("image")[0]),
        channels(s.attrs.get<Shape>("image")[3]),
        image_elements(window[0].image * window[1].image * channels),
        result_elements(window[0].result * window[1].result * channels) {}

  /// visit(what is seen of the image, offset of the result) for every window of one image.
  template <class Visit>
  void for_each_window(Visit visit) const {
    const auto& [down, right] = window;
    const auto clip = [](const ops::WindowAxis& axis, int64_t result) {
      const int64_t begin = std::max<int64_t>(axis.start(result), 0);
      return std::pair(begin, std::min(axis.start(result) + axis.window, axis.image) - begin);
    };
    const int64_t row_step = right.image * channels;
    int64_t offset = 0;
    for (int64_t row = 0; row < down.result; ++row) {
      const auto [y, rows] = clip(down, row);
      for (int64_t column = 0; column < right.result; ++column, offset += channels) {
        const auto [x, columns] = clip(right, column);
        visit(Seen{y * row_step + x * channels, rows, columns, row_step, channels}, offset);
      }
    }
  }

  /// work(offset of an image, offset of its result) for the thread's images.
  template <class Work>
  void for_each_image(const Launch& launch, Work work) const {
    const auto [begin, end] = op::part_of(images, launch);
    for (int64_t i = begin; i < end; ++i) work(i * image_elements, i * result_elements);
  }

  bool overlaps() const {
    return std::ranges::any_of(window, [](const auto& axis) { return axis.stride < axis.window; });
  }

  /// Clears an image before gradients go to it: pixels that no window sees, or several see, start
  /// from zero.
  template <class T>
  void clear(T* image) const {
    const bool covered = std::ranges::all_of(window, [](const ops::WindowAxis& axis) {
      return axis.stride == axis.window && axis.start(axis.result) >= axis.image;
    });
    if (!covered) std::fill_n(image, image_elements, T(0));
  }

  std::array<ops::WindowAxis, 2> window;
  int64_t images, channels, image_elements, result_elements;
};

template <class T>
op::ExecutablePtr prepare_max(const Signature& s, int) {
  return op::executable([pool = Pool(s), run = best_pool(T()).max](const Launch& launch) {
    pool.for_each_image(launch, [&](int64_t image, int64_t result) {
      const T* x = launch.in<T>(0) + image;
      T* y = launch.out<T>(0) + result;
      pool.for_each_window([&](const Seen& seen, int64_t at) { run(seen, x, y + at); });
    });
  });
}

template <class T>
op::ExecutablePtr prepare_max_grad(const Signature& s, int) {
  const Pool pool(s);
  const PoolFns<T> fns = best_pool(T());
  const auto run = pool.overlaps() ? fns.add_max_grad : fns.max_grad;
  return op::executable([pool, run](const Launch& launch) {
    pool.for_each_image(launch, [&](int64_t image, int64_t result) {
      const T* x = launch.in<T>(0) + image;
      const T* y = launch.in<T>(1) + result;
      const T* g = launch.in<T>(2) + result;
      T* to = launch.out<T>(0) + image;
      pool.clear(to);
      pool.for_each_window([&](const Seen& seen, int64_t at) { run(seen, x, y + at, g + at, to); });
    });
  });
}

template <class T>
op::ExecutablePtr prepare_max_pick(const Signature& s, int) {
  return op::executable([pool = Pool(s), run = best_pool(T()).max_pick](const Launch& launch) {
    pool.for_each_image(launch, [&](int64_t image, int64_t result) {
      const T* x = launch.in<T>(0) + image;
      const T* y = launch.in<T>(1) + result;
      const T* h = launch.in<T>(2) + image;
      T* picked = launch.out<T>(0) + result;
      pool.for_each_window(
          [&](const Seen& seen, int64_t at) { run(seen, x, y + at, h, picked + at); });
    });
  });
}

template <class T>
op::ExecutablePtr prepare_avg(const Signature& s, int) {
  return op::executable([pool = Pool(s), run = best_pool(T()).avg](const Launch& launch) {
    pool.for_each_image(launch, [&](int64_t image, int64_t result) {
      const T* x = launch.in<T>(0) + image;
      T* y = launch.out<T>(0) + result;
      pool.for_each_window([&](const Seen& seen, int64_t at) { run(seen, x, y + at); });
    });
  });
}

template <class T>
op::ExecutablePtr prepare_avg_grad(const Signature& s, int) {
  const Pool pool(s);
  const PoolFns<T> fns = best_pool(T());
  const auto run = pool.overlaps() ? fns.add_avg_grad : fns.avg_grad;
  return op::executable([pool, run](const Launch& launch) {
    pool.for_each_image(launch, [&](int64_t image, int64_t result) {
      const T* g = launch.in<T>(0) + result;
      T* to = launch.out<T>(0) + image;
      pool.clear(to);
      pool.for_each_window([&](const Seen& seen, int64_t at) { run(seen, g + at, to); });
    });
  });
}

template <class T>
void register_for(op::BackendKernels& kernels) {
  const auto add = [&](const char* name, const op::PrepareFn& prepare) {
    kernels.add(name, {dtype_of<T>}, prepare);
  };
  add("max_pool2d", prepare_max<T>);
  add("max_pool2d_grad", prepare_max_grad<T>);
  add("max_pool2d_pick", prepare_max_pick<T>);
  add("avg_pool2d", prepare_avg<T>);
  add("avg_pool2d_grad", prepare_avg_grad<T>);
}

}  // namespace

void register_pooling(op::BackendKernels& kernels) {
  register_for<float>(kernels);
  register_for<double>(kernels);
}

}  // namespace tandem::kernels::cpu
#endif

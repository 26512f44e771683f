// This file is compiled once per instruction set; the best one is chosen at run time.
#include "kernels/cpu/gemm/gemm_shallow.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm/gemm_shallow.cpp"
#include <hwy/foreach_target.h>
// This comes after foreach_target.h, which sets what it expands to.
#include <hwy/highway.h>

#ifndef TANDEM_GEMM_SHALLOW_ONCE
#define TANDEM_GEMM_SHALLOW_ONCE
namespace tandem::kernels::cpu {
namespace {

/// `b` is [k, n] with rows `ldb` apart.
template <class T>
using ShallowFn = void (*)(const GemmShape& shape, const T* a, const T* b, int64_t ldb, T* c);

}  // namespace
}  // namespace tandem::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// kRows rows of C, two vectors of columns at a time: each vector of B serves all of the rows.
template <int kRows, class T>
void rows_of(const GemmShape& s, const T* a, const T* b, int64_t ldb, T* c) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; j + 2 * lanes <= s.n; j += 2 * lanes) {
    hn::Vec<decltype(d)> low[kRows];
    hn::Vec<decltype(d)> high[kRows];
    for (int r = 0; r < kRows; ++r) low[r] = high[r] = hn::Zero(d);
    for (int64_t p = 0; p < s.k; ++p) {
      const auto b_low = hn::LoadU(d, b + p * ldb + j);
      const auto b_high = hn::LoadU(d, b + p * ldb + j + lanes);
      for (int r = 0; r < kRows; ++r) {
        const auto scale = hn::Set(d, a[r * s.lda + p]);
        low[r] = hn::MulAdd(scale, b_low, low[r]);
        high[r] = hn::MulAdd(scale, b_high, high[r]);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      hn::StoreU(low[r], d, c + r * s.ldc + j);
      hn::StoreU(high[r], d, c + r * s.ldc + j + lanes);
    }
  }
  for (; j < s.n; ++j) {
    for (int r = 0; r < kRows; ++r) {
      T sum = 0;
      for (int64_t p = 0; p < s.k; ++p) sum += a[r * s.lda + p] * b[p * ldb + j];
      c[r * s.ldc + j] = sum;
    }
  }
}

template <class T>
void shallow(const GemmShape& s, const T* a, const T* b, int64_t ldb, T* c) {
  constexpr int kRows = 4;
  int64_t i = 0;
  for (; i + kRows <= s.m; i += kRows) rows_of<kRows>(s, a + i * s.lda, b, ldb, c + i * s.ldc);
  for (; i < s.m; ++i) rows_of<1>(s, a + i * s.lda, b, ldb, c + i * s.ldc);
}

ShallowFn<float> shallow_float32() { return shallow<float>; }
ShallowFn<double> shallow_float64() { return shallow<double>; }

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels::cpu {
namespace {

HWY_EXPORT(shallow_float32);
HWY_EXPORT(shallow_float64);

ShallowFn<float> best(float) { return HWY_DYNAMIC_DISPATCH(shallow_float32)(); }
ShallowFn<double> best(double) { return HWY_DYNAMIC_DISPATCH(shallow_float64)(); }

template <class T>
class ShallowGemm final : public Gemm {
 public:
  explicit ShallowGemm(const GemmShape& shape) : shape_(shape) {}

  void run(const void* a, const void* b, void* c, void* workspace) const override {
    const T* upright = static_cast<const T*>(b);
    int64_t ldb = shape_.ldb;
    if (shape_.transpose_b) {
      turn(upright, static_cast<T*>(workspace));
      upright = static_cast<const T*>(workspace);
      ldb = shape_.n;
    }
    product_(shape_, static_cast<const T*>(a), upright, ldb, static_cast<T*>(c));
  }

  size_t workspace_bytes() const override {
    return shape_.transpose_b ? static_cast<size_t>(shape_.n * shape_.k) * sizeof(T) : 0;
  }
  const char* provider() const override { return "shallow"; }

 private:
  void turn(const T* from, T* to) const {
    for (int64_t j = 0; j < shape_.n; ++j) {
      for (int64_t p = 0; p < shape_.k; ++p) to[p * shape_.n + j] = from[j * shape_.ldb + p];
    }
  }

  const GemmShape shape_;
  const ShallowFn<T> product_ = best(T());
};

}  // namespace

std::unique_ptr<Gemm> make_shallow_gemm(const GemmShape& shape) {
  if (shape.dtype == DType::float32) return std::make_unique<ShallowGemm<float>>(shape);
  return std::make_unique<ShallowGemm<double>>(shape);
}

}  // namespace tandem::kernels::cpu
#endif

// Normalises channels by statistics that were computed before, and does the same for the gradient.
// The statistics are in channel_statistics.cpp.
//
// This file is compiled once per instruction set; the best one is chosen when a kernel is prepared.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>

#include "kernels/channel_rows.h"
#include "kernels/part.h"
#include "op/registry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/normalization/batch_norm.cpp"
#include <hwy/foreach_target.h>
// These come after foreach_target.h, which sets what they expand to.
#include <hwy/highway.h>

#include "kernels/cpu/simd.h"

#ifndef TANDEM_BATCH_NORM_ONCE
#define TANDEM_BATCH_NORM_ONCE
namespace tandem::kernels::cpu {
namespace {

template <class T>
struct BatchNormFns {
  /// out = (x - mean) scale + beta
  void (*normalize)(const T* x, const T* mean, const T* scale, const T* beta, T* out, int64_t rows,
                    int64_t channels);
  /// out = (g - a - (x - mean) b) scale
  void (*grad)(const T* g, const T* x, const T* mean, const T* a, const T* b, const T* scale,
               T* out, int64_t rows, int64_t channels);
};

}  // namespace
}  // namespace tandem::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

template <class T>
void normalize(const T* x, const T* mean, const T* scale, const T* beta, T* out, int64_t rows,
               int64_t channels) {
  for (int64_t row = 0; row < rows; ++row, x += channels, out += channels) {
    for_vectors<T>(channels, [&](auto d, int64_t c) HWY_ATTR {
      const auto centred = hn::Sub(hn::LoadU(d, x + c), hn::LoadU(d, mean + c));
      hn::StoreU(hn::MulAdd(centred, hn::LoadU(d, scale + c), hn::LoadU(d, beta + c)), d, out + c);
    });
  }
}

template <class T>
void grad(const T* g, const T* x, const T* mean, const T* a, const T* b, const T* scale, T* out,
          int64_t rows, int64_t channels) {
  for (int64_t row = 0; row < rows; ++row, g += channels, x += channels, out += channels) {
    for_vectors<T>(channels, [&](auto d, int64_t c) HWY_ATTR {
      const auto centred = hn::Sub(hn::LoadU(d, x + c), hn::LoadU(d, mean + c));
      const auto rest = hn::Sub(hn::LoadU(d, g + c), hn::LoadU(d, a + c));
      hn::StoreU(
          hn::Mul(hn::NegMulAdd(centred, hn::LoadU(d, b + c), rest), hn::LoadU(d, scale + c)), d,
          out + c);
    });
  }
}

template <class T>
BatchNormFns<T> batch_norm_fns() {
  return {normalize<T>, grad<T>};
}

BatchNormFns<float> batch_norm_float32() { return batch_norm_fns<float>(); }
BatchNormFns<double> batch_norm_float64() { return batch_norm_fns<double>(); }

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels::cpu {
namespace {

HWY_EXPORT(batch_norm_float32);
HWY_EXPORT(batch_norm_float64);

BatchNormFns<float> best(float) { return HWY_DYNAMIC_DISPATCH(batch_norm_float32)(); }
BatchNormFns<double> best(double) { return HWY_DYNAMIC_DISPATCH(batch_norm_float64)(); }

using op::Launch;
using op::Signature;

/// The thread's rows of a tensor that is split by its leading axis.
template <class T>
struct Share {
  Share(const RowSplit& split, const Launch& launch, int64_t channels) {
    const auto [begin, end] = split.part(launch);
    first = begin;
    rows = channels == 0 ? 0 : (end - begin) / channels;
  }
  int64_t first;  // The first element.
  int64_t rows;
};

/// What each thread computes per channel before it starts lies in its workspace.
template <class T, class Run>
op::ExecutablePtr with_channels(int arrays, int64_t channels, Run run) {
  class WithChannels final : public op::Executable {
   public:
    WithChannels(size_t bytes, Run run) : bytes_(bytes), run_(std::move(run)) {}
    void run(const Launch& launch) const override { run_(launch, launch.workspace<T>()); }
    size_t workspace_bytes() const override { return bytes_; }

   private:
    const size_t bytes_;
    const Run run_;
  };
  const size_t bytes = static_cast<size_t>(arrays * channels) * sizeof(T);
  return std::make_shared<WithChannels>(bytes, std::move(run));
}

template <class T>
op::ExecutablePtr prepare_normalize(const Signature& s, int) {
  const int64_t channels = ChannelRows(s.inputs[0].shape).channels;
  return with_channels<T>(1, channels,
                          [channels, fns = best(T()), split = RowSplit(s.inputs[0].shape)](
                              const Launch& launch, T* scale) {
                            const Share<T> own(split, launch, channels);
                            const T* inverse = launch.in<T>(2);
                            const T* gamma = launch.in<T>(3);
                            for (int64_t c = 0; c < channels; ++c) scale[c] = inverse[c] * gamma[c];
                            fns.normalize(launch.in<T>(0) + own.first, launch.in<T>(1), scale,
                                          launch.in<T>(4), launch.out<T>(0) + own.first, own.rows,
                                          channels);
                          });
}

template <class T>
op::ExecutablePtr prepare_grad(const Signature& s, int) {
  const ChannelRows rows(s.inputs[0].shape);
  return with_channels<T>(
      3, rows.channels,
      [rows, fns = best(T()), split = RowSplit(s.inputs[0].shape)](const Launch& launch, T* a) {
        const Share<T> own(split, launch, rows.channels);
        if (own.rows == 0) return;
        T* b = a + rows.channels;
        T* scale = b + rows.channels;
        const T* inverse = launch.in<T>(3);
        const T* gamma = launch.in<T>(4);
        const T* sum = launch.in<T>(5);
        const T* product = launch.in<T>(6);
        const T factor = T(1) / static_cast<T>(rows.rows);
        for (int64_t c = 0; c < rows.channels; ++c) {
          scale[c] = inverse[c] * gamma[c];
          a[c] = sum[c] * factor;
          b[c] = product[c] * factor * inverse[c] * inverse[c];
        }
        fns.grad(launch.in<T>(0) + own.first, launch.in<T>(1) + own.first, launch.in<T>(2), a, b,
                 scale, launch.out<T>(0) + own.first, own.rows, rows.channels);
      });
}

template <class T>
op::ExecutablePtr prepare_inverse(const Signature& s, int) {
  return op::executable(
      [split = RowSplit(s.inputs[0].shape),
       epsilon = static_cast<T>(s.attrs.get<double>("epsilon"))](const Launch& launch) {
        const auto [begin, end] = split.part(launch);
        for (int64_t i = begin; i < end; ++i) {
          launch.out<T>(0)[i] = T(1) / std::sqrt(launch.in<T>(0)[i] + epsilon);
        }
      });
}

template <class T>
void register_for(op::BackendKernels& kernels) {
  const auto add = [&](const char* name, const op::PrepareFn& prepare) {
    kernels.add(name, {dtype_of<T>}, prepare);
  };
  add("inverse_deviation", prepare_inverse<T>);
  add("batch_normalize", prepare_normalize<T>);
  add("batch_normalize_grad", prepare_grad<T>);
}

}  // namespace

void register_batch_norm(op::BackendKernels& kernels) {
  register_for<float>(kernels);
  register_for<double>(kernels);
}

}  // namespace tandem::kernels::cpu
#endif

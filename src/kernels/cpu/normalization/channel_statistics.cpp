// Mean and variance of each channel, and the two sums over all rows that the gradient of batch
// normalisation needs.
//
// This file is compiled once per instruction set; the best one is chosen when a kernel is prepared.
#include <algorithm>
#include <cstdint>
#include <memory>

#include "kernels/channel_rows.h"
#include "op/registry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/normalization/channel_statistics.cpp"
#include <hwy/foreach_target.h>
// These come after foreach_target.h, which sets what they expand to.
#include <hwy/highway.h>

#include "kernels/cpu/simd.h"

#ifndef TANDEM_CHANNEL_STATISTICS_ONCE
#define TANDEM_CHANNEL_STATISTICS_ONCE
namespace tandem::kernels::cpu {
namespace {

/// A block of rows stays in the first cache while it is passed over twice.
constexpr int64_t kBlockElements = 4096;
constexpr int64_t kFewestRows = 16;

inline int64_t block_rows(int64_t channels) {
  return std::max(kFewestRows, kBlockElements / channels);
}

template <class T>
struct StatisticsFns {
  /// Joins to the statistics of `before` rows, `mean` and `squares` (the sum of squared distances
  /// to the mean), those of a block of `rows` rows.
  void (*moments)(const T* x, int64_t rows, int64_t channels, int64_t before, T* mean, T* squares);
  /// Adds the sums over a block of rows of g, and of g (x - mean).
  void (*sums)(const T* g, const T* x, const T* mean, int64_t rows, int64_t channels, T* sum,
               T* product);
};

}  // namespace
}  // namespace tandem::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

/// Sums term(row) over the rows; four sums, so that additions need not wait for each other.
template <class D, class Term>
HWY_INLINE hn::Vec<D> sum_rows(D d, int64_t rows, const Term& term) {
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    s0 = hn::Add(s0, term(row));
    s1 = hn::Add(s1, term(row + 1));
    s2 = hn::Add(s2, term(row + 2));
    s3 = hn::Add(s3, term(row + 3));
  }
  for (; row < rows; ++row) s0 = hn::Add(s0, term(row));
  return hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
}

/// Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample variances.
template <class T>
void moments(const T* x, int64_t rows, int64_t channels, int64_t before, T* mean, T* squares) {
  const auto own = static_cast<T>(rows);
  const auto all = static_cast<T>(before + rows);
  const T weight = own / all;
  const T cross = static_cast<T>(before) * weight;
  for_vectors<T>(channels, [&](auto d, int64_t c) HWY_ATTR {
    const auto sum = sum_rows(
        d, rows, [&](int64_t row) HWY_ATTR { return hn::LoadU(d, x + row * channels + c); });
    const auto own_mean = hn::Mul(sum, hn::Set(d, T(1) / own));
    const auto own_squares = sum_rows(d, rows, [&](int64_t row) HWY_ATTR {
      const auto distance = hn::Sub(hn::LoadU(d, x + row * channels + c), own_mean);
      return hn::Mul(distance, distance);
    });
    const auto former = hn::LoadU(d, mean + c);
    const auto delta = hn::Sub(own_mean, former);
    hn::StoreU(hn::MulAdd(delta, hn::Set(d, weight), former), d, mean + c);
    const auto joined = hn::MulAdd(hn::Mul(delta, delta), hn::Set(d, cross), own_squares);
    hn::StoreU(hn::Add(hn::LoadU(d, squares + c), joined), d, squares + c);
  });
}

template <class T>
void sums(const T* g, const T* x, const T* mean, int64_t rows, int64_t channels, T* sum,
          T* product) {
  for_vectors<T>(channels, [&](auto d, int64_t c) HWY_ATTR {
    const auto m = hn::LoadU(d, mean + c);
    auto g0 = hn::Zero(d), g1 = hn::Zero(d), p0 = hn::Zero(d), p1 = hn::Zero(d);
    int64_t row = 0;
    const auto add = [&](auto& gs, auto& ps, int64_t at) HWY_ATTR {
      const auto gradient = hn::LoadU(d, g + at * channels + c);
      gs = hn::Add(gs, gradient);
      ps = hn::MulAdd(gradient, hn::Sub(hn::LoadU(d, x + at * channels + c), m), ps);
    };
    for (; row + 2 <= rows; row += 2) {
      add(g0, p0, row);
      add(g1, p1, row + 1);
    }
    if (row < rows) add(g0, p0, row);
    hn::StoreU(hn::Add(hn::LoadU(d, sum + c), hn::Add(g0, g1)), d, sum + c);
    hn::StoreU(hn::Add(hn::LoadU(d, product + c), hn::Add(p0, p1)), d, product + c);
  });
}

template <class T>
StatisticsFns<T> statistics_fns() {
  return {moments<T>, sums<T>};
}

StatisticsFns<float> statistics_float32() { return statistics_fns<float>(); }
StatisticsFns<double> statistics_float64() { return statistics_fns<double>(); }

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels::cpu {
namespace {

HWY_EXPORT(statistics_float32);
HWY_EXPORT(statistics_float64);

StatisticsFns<float> best(float) { return HWY_DYNAMIC_DISPATCH(statistics_float32)(); }
StatisticsFns<double> best(double) { return HWY_DYNAMIC_DISPATCH(statistics_float64)(); }

using op::Launch;
using op::Signature;

/// Two results per channel: each thread goes over its rows and leaves two arrays in its workspace,
/// which are then joined, each thread some channels.
template <class T>
class TwoPerChannel : public op::Executable {
 public:
  TwoPerChannel(const Signature& s, int parts)
      : rows_(s.inputs[0].shape), fns_(best(T())), alone_(parts == 1) {}

  void run(const Launch& launch) const override {
    if (launch.phase == 0) {
      T* first = alone_ ? launch.out<T>(0) : launch.workspace<T>();
      T* second = alone_ ? launch.out<T>(1) : first + rows_.channels;
      std::fill_n(first, rows_.channels, T(0));
      std::fill_n(second, rows_.channels, T(0));
      const auto [begin, end] = op::part_of(rows_.rows, launch);
      const int64_t step = rows_.channels == 0 ? end - begin + 1 : block_rows(rows_.channels);
      for (int64_t row = begin; row < end; row += step) {
        pass(launch, row, std::min(step, end - row), row - begin, first, second);
      }
      if (alone_) finish(launch, 0, rows_.channels);
      return;
    }
    const auto [begin, end] = op::part_of(rows_.channels, launch);
    join(launch, begin, end);
    finish(launch, begin, end);
  }

  int phases() const override { return alone_ ? 1 : 2; }
  size_t workspace_bytes() const override {
    return alone_ ? 0 : 2 * static_cast<size_t>(rows_.channels) * sizeof(T);
  }

 protected:
  /// Goes over rows [row, row + count), `before` of the thread's own having gone before.
  virtual void pass(const Launch& launch, int64_t row, int64_t count, int64_t before, T* first,
                    T* second) const = 0;
  /// Joins all workspaces to channels [begin, end) of both outputs.
  virtual void join(const Launch& launch, int64_t begin, int64_t end) const = 0;
  virtual void finish(const Launch&, int64_t, int64_t) const {}

  const ChannelRows rows_;
  const StatisticsFns<T> fns_;

 private:
  const bool alone_;
};

/// The mean, and the sum of squared distances to it.
template <class T>
class Moments final : public TwoPerChannel<T> {
 public:
  using TwoPerChannel<T>::TwoPerChannel;

 private:
  using TwoPerChannel<T>::rows_;
  using TwoPerChannel<T>::fns_;

  void pass(const Launch& launch, int64_t row, int64_t count, int64_t before, T* mean,
            T* squares) const override {
    fns_.moments(launch.in<T>(0) + row * rows_.channels, count, rows_.channels, before, mean,
                 squares);
  }

  void join(const Launch& launch, int64_t begin, int64_t end) const override {
    T* mean = launch.out<T>(0);
    T* squares = launch.out<T>(1);
    std::fill(mean + begin, mean + end, T(0));
    std::fill(squares + begin, squares + end, T(0));
    int64_t before = 0;
    for (int part = 0; part < launch.parts; ++part) {
      const auto [first, last] = op::part_of(rows_.rows, part, launch.parts);
      if (first == last) continue;
      const auto own = static_cast<T>(last - first);
      const T weight = own / static_cast<T>(before + last - first);
      const T* own_mean = launch.workspace<T>(part);
      const T* own_squares = own_mean + rows_.channels;
      for (int64_t c = begin; c < end; ++c) {
        const T delta = own_mean[c] - mean[c];
        mean[c] += delta * weight;
        squares[c] += own_squares[c] + delta * delta * static_cast<T>(before) * weight;
      }
      before += last - first;
    }
  }

  void finish(const Launch& launch, int64_t begin, int64_t end) const override {
    if (rows_.rows == 0) return;
    const T factor = T(1) / static_cast<T>(rows_.rows);
    T* squares = launch.out<T>(1);
    for (int64_t c = begin; c < end; ++c) squares[c] *= factor;
  }
};

template <class T>
class Sums final : public TwoPerChannel<T> {
 public:
  using TwoPerChannel<T>::TwoPerChannel;

 private:
  using TwoPerChannel<T>::rows_;
  using TwoPerChannel<T>::fns_;

  void pass(const Launch& launch, int64_t row, int64_t count, int64_t, T* sum,
            T* product) const override {
    const int64_t at = row * rows_.channels;
    fns_.sums(launch.in<T>(0) + at, launch.in<T>(1) + at, launch.in<T>(2), count, rows_.channels,
              sum, product);
  }

  void join(const Launch& launch, int64_t begin, int64_t end) const override {
    for (int output = 0; output < 2; ++output) {
      T* out = launch.out<T>(output);
      std::fill(out + begin, out + end, T(0));
      for (int part = 0; part < launch.parts; ++part) {
        const T* own = launch.workspace<T>(part) + output * rows_.channels;
        for (int64_t c = begin; c < end; ++c) out[c] += own[c];
      }
    }
  }
};

template <class T>
void register_for(op::BackendKernels& kernels) {
  const auto add = [&](const char* name, const op::PrepareFn& prepare) {
    kernels.add(name, {dtype_of<T>}, prepare);
  };
  add("channel_moments",
      [](const Signature& s, int parts) { return std::make_shared<Moments<T>>(s, parts); });
  add("channel_sums",
      [](const Signature& s, int parts) { return std::make_shared<Sums<T>>(s, parts); });
}

}  // namespace

void register_channel_statistics(op::BackendKernels& kernels) {
  register_for<float>(kernels);
  register_for<double>(kernels);
}

}  // namespace tandem::kernels::cpu
#endif

// One filter per channel: channels lie side by side in image, filter and result alike, so that
// every step is a vector of them.
//
// This file is compiled once per instruction set; the best one is chosen when a kernel is prepared.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/cpu/convolution/convolution_providers.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/convolution/convolution_depthwise.cpp"
#include <hwy/foreach_target.h>
// These come after foreach_target.h, which sets what they expand to.
#include <hwy/highway.h>

#include "kernels/cpu/simd.h"

#ifndef TANDEM_CONVOLUTION_DEPTHWISE_ONCE
#define TANDEM_CONVOLUTION_DEPTHWISE_ONCE
namespace tandem::kernels::cpu {
namespace {

/// Where a pair of operands meets: offsets in elements.
struct Meeting {
  int64_t first, second;
};

template <class T>
struct DepthwiseFns {
  /// out = the sum over meetings of first * second, `channels` at a time.
  void (*gather)(const T* first, const T* second, const Meeting* meetings, int64_t count, T* out,
                 int64_t channels);
  /// out += the sum over `count` places of first * second, which move on by their steps.
  void (*correlate)(const T* first, int64_t first_step, const T* second, int64_t second_step,
                    int64_t count, T* out, int64_t channels);
};

}  // namespace
}  // namespace tandem::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

template <class T>
void gather(const T* first, const T* second, const Meeting* meetings, int64_t count, T* out,
            int64_t channels) {
  // Four vectors at a time, so that finding a meeting's operands is paid for once.
  const hn::ScalableTag<T> wide;
  const int64_t n = lanes(wide);
  int64_t done = 0;
  for (; done + 4 * n <= channels; done += 4 * n) {
    auto s0 = hn::Zero(wide), s1 = hn::Zero(wide), s2 = hn::Zero(wide), s3 = hn::Zero(wide);
    for (int64_t i = 0; i < count; ++i) {
      const T* a = first + meetings[i].first + done;
      const T* b = second + meetings[i].second + done;
      s0 = hn::MulAdd(hn::LoadU(wide, a), hn::LoadU(wide, b), s0);
      s1 = hn::MulAdd(hn::LoadU(wide, a + n), hn::LoadU(wide, b + n), s1);
      s2 = hn::MulAdd(hn::LoadU(wide, a + 2 * n), hn::LoadU(wide, b + 2 * n), s2);
      s3 = hn::MulAdd(hn::LoadU(wide, a + 3 * n), hn::LoadU(wide, b + 3 * n), s3);
    }
    hn::StoreU(s0, wide, out + done);
    hn::StoreU(s1, wide, out + done + n);
    hn::StoreU(s2, wide, out + done + 2 * n);
    hn::StoreU(s3, wide, out + done + 3 * n);
  }
  first += done;
  second += done;
  out += done;
  for_vectors<T>(channels - done, [&](auto d, int64_t c) HWY_ATTR {
    auto s0 = hn::Zero(d), s1 = hn::Zero(d);
    int64_t i = 0;
    for (; i + 2 <= count; i += 2) {
      s0 = hn::MulAdd(hn::LoadU(d, first + meetings[i].first + c),
                      hn::LoadU(d, second + meetings[i].second + c), s0);
      s1 = hn::MulAdd(hn::LoadU(d, first + meetings[i + 1].first + c),
                      hn::LoadU(d, second + meetings[i + 1].second + c), s1);
    }
    if (i < count) {
      s0 = hn::MulAdd(hn::LoadU(d, first + meetings[i].first + c),
                      hn::LoadU(d, second + meetings[i].second + c), s0);
    }
    hn::StoreU(hn::Add(s0, s1), d, out + c);
  });
}

template <class T>
void correlate(const T* first, int64_t first_step, const T* second, int64_t second_step,
               int64_t count, T* out, int64_t channels) {
  for_vectors<T>(channels, [&](auto d, int64_t c) HWY_ATTR {
    auto s0 = hn::LoadU(d, out + c), s1 = hn::Zero(d);
    const T* a = first + c;
    const T* b = second + c;
    int64_t i = 0;
    for (; i + 2 <= count; i += 2, a += 2 * first_step, b += 2 * second_step) {
      s0 = hn::MulAdd(hn::LoadU(d, a), hn::LoadU(d, b), s0);
      s1 = hn::MulAdd(hn::LoadU(d, a + first_step), hn::LoadU(d, b + second_step), s1);
    }
    if (i < count) s0 = hn::MulAdd(hn::LoadU(d, a), hn::LoadU(d, b), s0);
    hn::StoreU(hn::Add(s0, s1), d, out + c);
  });
}

DepthwiseFns<float> depthwise_float32() { return {gather<float>, correlate<float>}; }
DepthwiseFns<double> depthwise_float64() { return {gather<double>, correlate<double>}; }

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels::cpu {
namespace {

HWY_EXPORT(depthwise_float32);
HWY_EXPORT(depthwise_float64);

DepthwiseFns<float> best(float) { return HWY_DYNAMIC_DISPATCH(depthwise_float32)(); }
DepthwiseFns<double> best(double) { return HWY_DYNAMIC_DISPATCH(depthwise_float64)(); }

/// One axis: which elements of the image and of the result meet at which element of the filter.
struct AxisMeeting {
  int64_t image, window, result;
};

template <class T>
class DepthwiseConvolution final : public Convolution {
 public:
  DepthwiseConvolution(ConvolutionPass pass, const ConvolutionShape& shape)
      : pass_(pass), s_(shape), fns_(kernels::cpu::best(T())) {
    // Meetings are listed by the element that is computed: of the result, or of the image.
    const bool forward = pass == ConvolutionPass::forward;
    for (size_t axis = 0; axis < 2; ++axis) {
      const ops::WindowAxis& window = s_.window[axis];
      meetings_[axis].resize(static_cast<size_t>(forward ? window.result : window.image));
      for (int64_t result = 0; result < window.result; ++result) {
        for (int64_t i = 0; i < window.window; ++i) {
          const int64_t image = window.start(result) + i * window.dilation;
          if (image < 0 || image >= window.image) continue;
          meetings_[axis][static_cast<size_t>(forward ? result : image)].push_back(
              {image, i, result});
        }
      }
    }
  }

  void run(const void* first, const void* second, void* out, void* workspace,
           const Finish* finish) const override {
    const auto* a = static_cast<const T*>(first);
    const auto* b = static_cast<const T*>(second);
    auto* c = static_cast<T*>(out);
    auto* meetings = static_cast<Meeting*>(workspace);
    const int64_t image = s_.image_elements();
    const int64_t result = s_.result_elements();
    if (pass_ == ConvolutionPass::backprop_filter) std::fill_n(c, s_.filter_elements(), T(0));
    for (int64_t i = 0; i < s_.images; ++i) {
      switch (pass_) {
        case ConvolutionPass::forward:
          gather(a + i * image, b, c + i * result, meetings);
          if (finish != nullptr) finish->pixels(c + i * result, result / s_.out);
          break;
        case ConvolutionPass::backprop_input:
          gather(b + i * result, a, c + i * image, meetings);
          break;
        case ConvolutionPass::backprop_filter:
          correlate(a + i * image, b + i * result, c);
          break;
      }
    }
  }

  size_t workspace_bytes() const override {
    return static_cast<size_t>(s_.filter_rows()) * sizeof(Meeting);
  }
  const char* provider() const override { return "depthwise"; }

 private:
  /// Forward from an image, backward from a result, pixel by pixel of the other.
  void gather(const T* from, const T* filter, T* out, Meeting* meetings) const {
    const bool forward = pass_ == ConvolutionPass::forward;
    const int64_t width = forward ? s_.window[1].image : s_.window[1].result;
    for (const auto& down : meetings_[0]) {
      for (const auto& right : meetings_[1]) {
        int64_t count = 0;
        for (const AxisMeeting& y : down) {
          for (const AxisMeeting& x : right) {
            const int64_t row = forward ? y.image : y.result;
            const int64_t column = forward ? x.image : x.result;
            meetings[count++] = {(row * width + column) * s_.in,
                                 (y.window * s_.window[1].window + x.window) * s_.in};
          }
        }
        fns_.gather(from, filter, meetings, count, out, s_.in);
        out += s_.in;
      }
    }
  }

  /// Row by row of the result, for each element of the filter the columns where it meets the image.
  void correlate(const T* image, const T* result, T* filter) const {
    const auto& [down, right] = s_.window;
    for (int64_t row = 0; row < down.result; ++row) {
      for (int64_t i = 0; i < down.window; ++i) {
        const int64_t y = down.start(row) + i * down.dilation;
        if (y < 0 || y >= down.image) continue;
        for (int64_t j = 0; j < right.window; ++j) {
          // Columns whose place in the image, column * stride + shift, lies within it.
          const int64_t shift = j * right.dilation - right.before;
          const int64_t begin = shift >= 0 ? 0 : (-shift + right.stride - 1) / right.stride;
          const int64_t end =
              std::min(right.result, (right.image - shift + right.stride - 1) / right.stride);
          if (begin >= end) continue;
          const int64_t x = begin * right.stride + shift;
          fns_.correlate(image + (y * right.image + x) * s_.in, right.stride * s_.in,
                         result + (row * right.result + begin) * s_.in, s_.in, end - begin,
                         filter + (i * right.window + j) * s_.in, s_.in);
        }
      }
    }
  }

  const ConvolutionPass pass_;
  const ConvolutionShape s_;
  const DepthwiseFns<T> fns_;
  std::array<std::vector<std::vector<AxisMeeting>>, 2> meetings_;
};

}  // namespace

std::unique_ptr<Convolution> prepare_depthwise_convolution(ConvolutionPass pass,
                                                           const ConvolutionShape& shape) {
  if (shape.groups == 1 || shape.groups != shape.in || shape.groups != shape.out) return nullptr;
  if (shape.dtype == DType::float32) {
    return std::make_unique<DepthwiseConvolution<float>>(pass, shape);
  }
  return std::make_unique<DepthwiseConvolution<double>>(pass, shape);
}

}  // namespace tandem::kernels::cpu
#endif

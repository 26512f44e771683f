// Pooling over windows of images. Channels lie side by side: a serial item walks them in its inner
// loops, a parallel one takes an element.
#include "kernels/gpu/gpu_kernel.h"
#include "ops/convolution/window.h"

namespace tandem::kernels::gpu {
namespace {

/// The parameters of all kernels, in the order of Pool::pass. A window begins at `stride` times the
/// place of its result less `before`, and what of it lies outside of the image does not count.
constexpr const char* kParameters =
    "i64 images, i64 channels, i64 height, i64 window_y, i64 stride_y, i64 before_y, i64 result_y, "
    "i64 width, i64 window_x, i64 stride_x, i64 before_x, i64 result_x";

/// The larger of two, and NaN where one is; which elements count as the largest; where a window
/// begins and ends within the image; and which windows, from the first to one beyond the last, see
/// an element.
constexpr const char* kFunctions = R"(
#define POOL_LARGER(value, most) ((value) > (most) || (value) != (value) ? (value) : (most))
#define POOL_IS_LARGEST(value, most) ((value) == (most) || (value) != (value))
FN i64 pool_begin(i64 result, i64 stride, i64 before) { return max((i64)0, result * stride - before); }
FN i64 pool_end(i64 result, i64 stride, i64 before, i64 window, i64 size) {
  return min(size, result * stride - before + window);
}
FN i64 pool_first(i64 at, i64 stride, i64 before, i64 window) {
  const i64 least = at + before - window + 1;
  return least <= 0 ? 0 : (least + stride - 1) / stride;
}
FN i64 pool_last(i64 at, i64 stride, i64 before, i64 results) {
  return min(results, (at + before) / stride + 1);
}
)";

constexpr const char* kMax = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), PARAMETERS) {
  ROWS(row, images * result_y) {
    const GLOBAL T* x = AT(T, 0) + row / result_y * height * width * channels;
    GLOBAL T* y = AT(T, 1) + row * result_x * channels;
    const i64 top = pool_begin(row % result_y, stride_y, before_y);
    const i64 bottom = pool_end(row % result_y, stride_y, before_y, window_y, height);
#ifdef SERIAL
    for (i64 result = 0; result < result_x; ++result) {
      const i64 left = pool_begin(result, stride_x, before_x);
      const i64 right = pool_end(result, stride_x, before_x, window_x, width);
      GLOBAL T* to = y + result * channels;
      const GLOBAL T* first = x + (top * width + left) * channels;
      INDEPENDENT for (i64 c = 0; c < channels; ++c) to[c] = first[c];
      for (i64 i = top; i < bottom; ++i) {
        for (i64 j = left; j < right; ++j) {
          const GLOBAL T* from = x + (i * width + j) * channels;
          INDEPENDENT for (i64 c = 0; c < channels; ++c) to[c] = POOL_LARGER(from[c], to[c]);
        }
      }
    }
#else
    ALONG(e, l, result_x * channels) {
      const i64 left = pool_begin(e / channels, stride_x, before_x);
      const i64 right = pool_end(e / channels, stride_x, before_x, window_x, width);
      T most = -INFINITY;
      for (i64 i = top; i < bottom; ++i) {
        for (i64 j = left; j < right; ++j) {
          const T value = x[(i * width + j) * channels + e % channels];
          most = POOL_LARGER(value, most);
        }
      }
      y[e] = most;
    }
#endif
  }
}
)";

// A serial item takes some channels of an image, and deals each window's gradient to the first of
// its largest elements. A parallel item takes an element of the image, and asks each window that
// sees it whether it is that one.
constexpr const char* kMaxGrad = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), MEMORY(3), PARAMETERS) {
#ifdef SERIAL
  const i64 blocks = (channels + BLOCK - 1) / BLOCK;
  ROWS(unit, images * blocks) {
    const i64 begin = unit % blocks * BLOCK;
    const int count = (int)min((i64)BLOCK, channels - begin);
    const i64 image = unit / blocks * height * width * channels + begin;
    const i64 results = unit / blocks * result_y * result_x * channels + begin;
    const GLOBAL T* x = AT(T, 0) + image;
    GLOBAL T* to = AT(T, 3) + image;
    for (i64 i = 0; i < height * width; ++i)
      INDEPENDENT for (int c = 0; c < count; ++c) to[i * channels + c] = 0;
    T left_over[BLOCK], largest[BLOCK];
    for (i64 result = 0; result < result_y * result_x; ++result) {
      const i64 top = pool_begin(result / result_x, stride_y, before_y);
      const i64 bottom = pool_end(result / result_x, stride_y, before_y, window_y, height);
      const i64 left = pool_begin(result % result_x, stride_x, before_x);
      const i64 right = pool_end(result % result_x, stride_x, before_x, window_x, width);
      const GLOBAL T* y = AT(T, 1) + results + result * channels;
      const GLOBAL T* g = AT(T, 2) + results + result * channels;
      INDEPENDENT for (int c = 0; c < count; ++c) largest[c] = y[c];
      INDEPENDENT for (int c = 0; c < count; ++c) left_over[c] = g[c];
      for (i64 i = top; i < bottom; ++i) {
        for (i64 j = left; j < right; ++j) {
          const i64 at = (i * width + j) * channels;
          INDEPENDENT for (int c = 0; c < count; ++c) {
            const int here = POOL_IS_LARGEST(x[at + c], largest[c]);
            to[at + c] += here ? left_over[c] : 0;
            left_over[c] = here ? 0 : left_over[c];
          }
        }
      }
    }
  }
#else
  ROWS(row, images * height) {
    const i64 image = row / height * height * width * channels;
    const i64 results = row / height * result_y * result_x * channels;
    const GLOBAL T* x = AT(T, 0) + image;
    const i64 at_y = row % height;
    ALONG(e, l, width * channels) {
      const i64 at_x = e / channels, c = e % channels;
      const T own = x[(at_y * width + at_x) * channels + c];
      const i64 end_y = pool_last(at_y, stride_y, before_y, result_y);
      const i64 end_x = pool_last(at_x, stride_x, before_x, result_x);
      T sum = 0;
      for (i64 ry = pool_first(at_y, stride_y, before_y, window_y); ry < end_y; ++ry) {
        for (i64 rx = pool_first(at_x, stride_x, before_x, window_x); rx < end_x; ++rx) {
          const i64 result = results + (ry * result_x + rx) * channels + c;
          const T largest = AT(T, 1)[result];
          int is_own = POOL_IS_LARGEST(own, largest);
          const i64 top = pool_begin(ry, stride_y, before_y);
          const i64 left = pool_begin(rx, stride_x, before_x);
          const i64 right = pool_end(rx, stride_x, before_x, window_x, width);
          for (i64 i = top; i <= at_y && is_own; ++i) {
            for (i64 j = left; j < (i == at_y ? at_x : right); ++j) {
              const T before = x[(i * width + j) * channels + c];
              if (POOL_IS_LARGEST(before, largest)) is_own = 0;
            }
          }
          if (is_own) sum += AT(T, 2)[result];
        }
      }
      AT(T, 3)[row * width * channels + e] = sum;
    }
  }
#endif
}
)";

constexpr const char* kMaxPick = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), MEMORY(3), PARAMETERS) {
  ROWS(row, images * result_y) {
    const i64 image = row / result_y * height * width * channels;
    const GLOBAL T* x = AT(T, 0) + image;
    const GLOBAL T* h = AT(T, 2) + image;
    const GLOBAL T* y = AT(T, 1) + row * result_x * channels;
    GLOBAL T* picked = AT(T, 3) + row * result_x * channels;
    const i64 top = pool_begin(row % result_y, stride_y, before_y);
    const i64 bottom = pool_end(row % result_y, stride_y, before_y, window_y, height);
    ALONG(e, l, result_x * channels) {
      const i64 left = pool_begin(e / channels, stride_x, before_x);
      const i64 right = pool_end(e / channels, stride_x, before_x, window_x, width);
      T found = 0;
      int searches = 1;
      for (i64 i = top; i < bottom && searches; ++i) {
        for (i64 j = left; j < right && searches; ++j) {
          const i64 at = (i * width + j) * channels + e % channels;
          if (POOL_IS_LARGEST(x[at], y[e])) {
            found = h[at];
            searches = 0;
          }
        }
      }
      picked[e] = found;
    }
  }
}
)";

constexpr const char* kAvg = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), PARAMETERS) {
  ROWS(row, images * result_y) {
    const GLOBAL T* x = AT(T, 0) + row / result_y * height * width * channels;
    GLOBAL T* y = AT(T, 1) + row * result_x * channels;
    const i64 top = pool_begin(row % result_y, stride_y, before_y);
    const i64 bottom = pool_end(row % result_y, stride_y, before_y, window_y, height);
#ifdef SERIAL
    for (i64 result = 0; result < result_x; ++result) {
      const i64 left = pool_begin(result, stride_x, before_x);
      const i64 right = pool_end(result, stride_x, before_x, window_x, width);
      const T factor = (T)1 / (T)((bottom - top) * (right - left));
      GLOBAL T* to = y + result * channels;
      INDEPENDENT for (i64 c = 0; c < channels; ++c) to[c] = 0;
      for (i64 i = top; i < bottom; ++i) {
        for (i64 j = left; j < right; ++j) {
          const GLOBAL T* from = x + (i * width + j) * channels;
          INDEPENDENT for (i64 c = 0; c < channels; ++c) to[c] += from[c];
        }
      }
      INDEPENDENT for (i64 c = 0; c < channels; ++c) to[c] *= factor;
    }
#else
    ALONG(e, l, result_x * channels) {
      const i64 left = pool_begin(e / channels, stride_x, before_x);
      const i64 right = pool_end(e / channels, stride_x, before_x, window_x, width);
      const T factor = (T)1 / (T)((bottom - top) * (right - left));
      T sum = 0;
      for (i64 i = top; i < bottom; ++i)
        for (i64 j = left; j < right; ++j) sum += x[(i * width + j) * channels + e % channels];
      y[e] = sum * factor;
    }
#endif
  }
}
)";

constexpr const char* kAvgGrad = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), PARAMETERS) {
  ROWS(row, images * height) {
    const i64 at_y = row % height;
    const GLOBAL T* g = AT(T, 0) + row / height * result_y * result_x * channels;
    GLOBAL T* to = AT(T, 1) + row * width * channels;
    const i64 begin_y = pool_first(at_y, stride_y, before_y, window_y);
    const i64 end_y = pool_last(at_y, stride_y, before_y, result_y);
#ifdef SERIAL
    for (i64 at_x = 0; at_x < width; ++at_x) {
      const i64 count = channels, e = at_x * channels;
      INDEPENDENT for (i64 c = 0; c < channels; ++c) to[e + c] = 0;
#else
    ALONG(e, l, width * channels) {
      const i64 at_x = e / channels, count = 1;
      T sum = 0;
#endif
      const i64 end_x = pool_last(at_x, stride_x, before_x, result_x);
      for (i64 ry = begin_y; ry < end_y; ++ry) {
        const i64 rows = pool_end(ry, stride_y, before_y, window_y, height) -
                         pool_begin(ry, stride_y, before_y);
        for (i64 rx = pool_first(at_x, stride_x, before_x, window_x); rx < end_x; ++rx) {
          const i64 columns = pool_end(rx, stride_x, before_x, window_x, width) -
                              pool_begin(rx, stride_x, before_x);
          const T factor = (T)1 / (T)(rows * columns);
          const GLOBAL T* from = g + (ry * result_x + rx) * channels;
#ifdef SERIAL
          INDEPENDENT for (i64 c = 0; c < count; ++c) to[e + c] += from[c] * factor;
        }
      }
#else
          sum += from[e % channels] * factor;
        }
      }
      to[e] = sum;
#endif
    }
  }
}
)";

constexpr int64_t kBlock = 64;  // Channels of a serial item of kMaxGrad.

struct Pool {
  explicit Pool(const Signature& s)
      : window(ops::window_of(s.attrs)),
        images(s.attrs.get<Shape>("image")[0]),
        channels(s.attrs.get<Shape>("image")[3]) {}

  void pass(Call& call) const {
    call.whole(images).whole(channels);
    for (const ops::WindowAxis& axis : window) {
      call.whole(axis.image).whole(axis.window).whole(axis.stride).whole(axis.before);
      call.whole(axis.result);
    }
  }

  std::array<ops::WindowAxis, 2> window;
  int64_t images, channels;
};

/// Which rows a kernel takes, and how many elements they have.
enum class Over { results, image, channels };

/// `body` has the op's inputs and its output as memory, then kParameters.
ExecutablePtr prepare(const char* body, Over over, const Signature& s, const Device& device) {
  const Words words{{"T", type_name(s.inputs[0].dtype)},
                    {"PARAMETERS", kParameters},
                    {"BLOCK", std::to_string(kBlock)}};
  const Kernel kernel(
      device, {.name = s.op->name, .words = words, .functions = {kFunctions}, .body = body});
  const Pool pool(s);
  if (over == Over::channels && !kernel.is_serial()) over = Over::image;
  const auto& [down, right] = pool.window;
  const int64_t blocks = (pool.channels + kBlock - 1) / kBlock;
  const int64_t rows = pool.images * (over == Over::results ? down.result
                                      : over == Over::image ? down.image
                                                            : blocks);
  const int64_t columns =
      over == Over::results ? right.result * pool.channels * down.window * right.window
      : over == Over::image ? right.image * pool.channels
                            : down.image * right.image * std::min(kBlock, pool.channels);
  const bool is_empty = count_of(s.outputs[0]) == 0;
  return op::executable([=](const Launch& launch) {
    if (is_empty) return;
    Call call(launch, kernel);
    for (int i = 0; i < launch.inputs; ++i) call.in(i);
    pool.pass(call.out(0));
    call.rows(rows, columns);
  });
}

}  // namespace

void register_pooling(op::BackendKernels& kernels) {
  const auto add = [&](const char* name, const char* body, Over over) {
    add_kernel(
        kernels, name, {DType::float32, DType::float64},
        [=](const Signature& s, const Device& device) { return prepare(body, over, s, device); });
  };
  add("max_pool2d", kMax, Over::results);
  add("max_pool2d_grad", kMaxGrad, Over::channels);
  add("max_pool2d_pick", kMaxPick, Over::results);
  add("avg_pool2d", kAvg, Over::results);
  add("avg_pool2d_grad", kAvgGrad, Over::image);
}

}  // namespace tandem::kernels::gpu

// Filters that see one channel each: channels lie side by side in image, filter and result alike. A
// channel may have several filters; they make channels of the result that lie side by side.
#include "kernels/gpu/convolution/gpu_convolutions.h"

namespace tandem::kernels::gpu {
namespace {

// `times` is the number of results of a channel.
constexpr const char* kForward = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), i64 images, i64 times, PARAMETERS) {
  const i64 results = channels * times;
  ROWS(row, images * result_y) {
    const i64 top = row % result_y * stride_y - before_y;
    const GLOBAL T* image = AT(T, 0) + row / result_y * height * width * channels;
    GLOBAL T* out = AT(T, 2) + row * result_x * results;
#ifdef SERIAL
    for (i64 place = 0; place < result_x; ++place) {
      GLOBAL T* to = out + place * results;
      INDEPENDENT for (i64 c = 0; c < results; ++c) to[c] = 0;
      for (i64 i = 0; i < window_y; ++i) {
        const i64 y = top + i * gap_y;
        if (y < 0 || y >= height) continue;
        for (i64 j = 0; j < window_x; ++j) {
          const i64 x = place * stride_x - before_x + j * gap_x;
          if (x < 0 || x >= width) continue;
          const GLOBAL T* from = image + (y * width + x) * channels;
          const GLOBAL T* filter = AT(T, 1) + (i * window_x + j) * results;
          if (times == 1) {
            INDEPENDENT for (i64 c = 0; c < channels; ++c) to[c] += from[c] * filter[c];
          } else {
            for (i64 c = 0; c < channels; ++c)
              for (i64 t = c * times; t < (c + 1) * times; ++t) to[t] += from[c] * filter[t];
          }
        }
      }
    }
#else
    ALONG(e, l, result_x * results) {
      const i64 left = e / results * stride_x - before_x;
      T sum = 0;
      for (i64 i = 0; i < window_y; ++i) {
        const i64 y = top + i * gap_y;
        if (y < 0 || y >= height) continue;
        for (i64 j = 0; j < window_x; ++j) {
          const i64 x = left + j * gap_x;
          if (x < 0 || x >= width) continue;
          sum += image[(y * width + x) * channels + e % results / times] *
                 AT(T, 1)[(i * window_x + j) * results + e % results];
        }
      }
      out[e] = sum;
    }
#endif
  }
}
)";

constexpr const char* kBackpropInput = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), i64 images, i64 times, PARAMETERS) {
  const i64 results = channels * times;
  ROWS(line, images * height) {
    GLOBAL T* out = AT(T, 2) + line * width * channels;
    const GLOBAL T* gradient = AT(T, 1) + line / height * result_y * result_x * results;
#ifdef SERIAL
    for (i64 at = 0; at < width; ++at) {
      const i64 e = at * channels;
      INDEPENDENT for (i64 c = 0; c < channels; ++c) out[e + c] = 0;
#else
    ALONG(e, l, width * channels) {
      const i64 at = e / channels;
      T sum = 0;
#endif
      for (i64 i = 0; i < window_y; ++i) {
        const i64 y = line % height + before_y - i * gap_y;
        if (y < 0 || y % stride_y != 0 || y / stride_y >= result_y) continue;
        for (i64 j = 0; j < window_x; ++j) {
          const i64 x = at + before_x - j * gap_x;
          if (x < 0 || x % stride_x != 0 || x / stride_x >= result_x) continue;
          const GLOBAL T* g = gradient + (y / stride_y * result_x + x / stride_x) * results;
          const GLOBAL T* filter = AT(T, 0) + (i * window_x + j) * results;
#ifdef SERIAL
          if (times == 1) {
            INDEPENDENT for (i64 c = 0; c < channels; ++c) out[e + c] += g[c] * filter[c];
          } else {
            for (i64 c = 0; c < channels; ++c)
              for (i64 t = c * times; t < (c + 1) * times; ++t) out[e + c] += g[t] * filter[t];
          }
        }
      }
#else
          const i64 c = e % channels;
          for (i64 t = c * times; t < (c + 1) * times; ++t) sum += g[t] * filter[t];
        }
      }
      out[e] = sum;
#endif
    }
  }
}
)";

// A row is BLOCK channels of one element of the filter. Sums of a line of the results are added to
// those of all lines; in the parallel form the items of a group take lines in turn.
constexpr const char* kBackpropFilter = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), i64 images, i64 times, PARAMETERS) {
  const i64 results = channels * times;
  const i64 blocks = (results + BLOCK - 1) / BLOCK;
#ifdef SERIAL
  const int lanes = 1, lane = 0;
#else
  LOCAL T joined[GROUP_SIZE];
  const int lanes = GROUP_SIZE / BLOCK, lane = LID() / BLOCK;
#endif
  ROWS(unit, window_y * window_x * blocks) {
    const i64 tap = unit / blocks;
    const i64 begin = unit % blocks * BLOCK;
    const int count = (int)min((i64)BLOCK, results - begin);
    const i64 shift_y = tap / window_x * gap_y - before_y;
    const i64 shift_x = tap % window_x * gap_x - before_x;
#ifdef SERIAL
    T sums[BLOCK], line[BLOCK];
    INDEPENDENT for (int c = 0; c < BLOCK; ++c) sums[c] = 0;
#else
    const int c = LID() % BLOCK;
    T sum = 0;
#endif
    for (i64 row = lane; row < images * result_y; row += lanes) {
      const i64 y = row % result_y * stride_y + shift_y;
      if (y < 0 || y >= height) continue;
      const GLOBAL T* image = AT(T, 0) + (row / result_y * height + y) * width * channels;
      const GLOBAL T* gradient = AT(T, 1) + row * result_x * results + begin;
#ifdef SERIAL
      INDEPENDENT for (int c = 0; c < BLOCK; ++c) line[c] = 0;
#else
      T line = 0;
#endif
      for (i64 place = 0; place < result_x; ++place) {
        const i64 x = place * stride_x + shift_x;
        if (x < 0 || x >= width) continue;
        const GLOBAL T* g = gradient + place * results;
#ifdef SERIAL
        if (times == 1) {
          const GLOBAL T* from = image + x * channels + begin;
          INDEPENDENT for (int c = 0; c < count; ++c) line[c] += from[c] * g[c];
        } else {
          for (int c = 0; c < count; ++c)
            line[c] += image[x * channels + (begin + c) / times] * g[c];
        }
      }
      INDEPENDENT for (int c = 0; c < BLOCK; ++c) sums[c] += line[c];
    }
    INDEPENDENT for (int c = 0; c < count; ++c) AT(T, 2)[tap * results + begin + c] = sums[c];
#else
        if (c < count) line += image[x * channels + (begin + c) / times] * g[c];
      }
      sum += line;
    }
    BARRIER();
    joined[LID()] = sum;
    BARRIER();
    if (lane == 0 && c < count) {
      for (int other = 1; other < lanes; ++other) sum += joined[other * BLOCK + c];
      AT(T, 2)[tap * results + begin + c] = sum;
    }
#endif
  }
}
)";

constexpr int64_t kBlock = 64;

}  // namespace

ExecutablePtr prepare_depthwise_convolution(ConvolutionPass pass, const ConvolutionShape& s,
                                            const Device& device) {
  if (s.groups == 1 || s.groups != s.in) return nullptr;
  const char* const body = pass == ConvolutionPass::forward          ? kForward
                           : pass == ConvolutionPass::backprop_input ? kBackpropInput
                                                                     : kBackpropFilter;
  const Kernel kernel(device, {.name = "depthwise",
                               .words = {{"T", type_name(s.dtype)},
                                         {"PARAMETERS", kWindowParameters},
                                         {"BLOCK", std::to_string(kBlock)}},
                               .body = body});
  const auto& [down, right] = s.window;
  const int64_t taps = down.window * right.window;
  int64_t rows = taps * ((s.out + kBlock - 1) / kBlock);
  int64_t columns = s.images * down.result * right.result * kBlock;
  if (pass == ConvolutionPass::forward) {
    rows = s.images * down.result;
    columns = right.result * s.out * taps;
  } else if (pass == ConvolutionPass::backprop_input) {
    rows = s.images * down.image;
    columns = right.image * s.out * taps;
  }
  return op::executable([=](const Launch& launch) {
    Call call(launch, kernel);
    call.in(0).in(1).out(0).whole(s.images).whole(s.out / s.in);
    pass_window(call, s).rows(rows, columns);
  });
}

}  // namespace tandem::kernels::gpu

// Convolutions as matrix products. What the filter sees at one place of the image is a row of a
// matrix of patches, and the filter is the other matrix:
//
//   forward           patches of the image  x  filter              = result
//   image's gradient  result's gradient     x  filter, transposed  = patches, added to the image
//   filter's gradient patches, transposed   x  result's gradient   = filter's gradient
//
// Patches lie in the workspace, those of some rows of the results at a time, as [groups, rows,
// columns, window, window, channels of a group]. The products of all groups are a batch.
#include <algorithm>

#include "core/alignment.h"
#include "kernels/gpu/convolution/gpu_convolutions.h"
#include "kernels/gpu/gemm/products.h"

namespace tandem::kernels::gpu {
namespace {

// Rows of the results of all images are counted as one column of them, from `first` on. Where
// groups have few channels, a serial item copies one element of the window for a whole row at once;
// else channels, or a row of the window, which then lie side by side.
constexpr const char* kCopyPatches = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), i64 first, i64 rows, PARAMETERS) {
  const i64 own = channels / groups;
  const i64 patch = window_y * window_x * own;
  ROWS(row, rows) {
    const i64 top = (first + row) % result_y * stride_y - before_y;
    const GLOBAL T* image = AT(T, 0) + (first + row) / result_y * height * width * channels;
    for (i64 group = 0; group < groups; ++group) {
      const GLOBAL T* from = image + group * own;
      GLOBAL T* to = AT(T, 1) + (group * rows + row) * result_x * patch;
#ifdef SERIAL
      if (own < 8) {
        for (i64 q = 0; q < patch; ++q) {
          const i64 y = top + q / own / window_x * gap_y;
          const i64 shift = q / own % window_x * gap_x - before_x;
          i64 begin = shift >= 0 ? 0 : min(result_x, (-shift + stride_x - 1) / stride_x);
          i64 end = shift >= width ? 0 : min(result_x, (width - 1 - shift) / stride_x + 1);
          if (y < 0 || y >= height || end < begin) begin = end = 0;
          const GLOBAL T* line = from + (y * width + shift) * channels + q % own;
          for (i64 x = 0; x < begin; ++x) to[x * patch + q] = 0;
          for (i64 x = begin; x < end; ++x) to[x * patch + q] = line[x * stride_x * channels];
          for (i64 x = end; x < result_x; ++x) to[x * patch + q] = 0;
        }
        continue;
      }
      for (i64 place = 0; place < result_x; ++place) {
        const i64 left = place * stride_x - before_x;
        const int whole = groups == 1 && gap_x == 1 && left >= 0 && left + window_x <= width;
        for (i64 i = 0; i < window_y; ++i) {
          const i64 y = top + i * gap_y;
          if (y < 0 || y >= height) {
            INDEPENDENT for (i64 c = 0; c < window_x * own; ++c) to[c] = 0;
          } else if (whole) {
            const GLOBAL T* line = from + (y * width + left) * channels;
            INDEPENDENT for (i64 c = 0; c < window_x * own; ++c) to[c] = line[c];
          } else {
            for (i64 j = 0; j < window_x; ++j) {
              const i64 x = left + j * gap_x;
              const GLOBAL T* pixel = from + (y * width + x) * channels;
              if (x < 0 || x >= width) {
                INDEPENDENT for (i64 c = 0; c < own; ++c) to[j * own + c] = 0;
              } else {
                INDEPENDENT for (i64 c = 0; c < own; ++c) to[j * own + c] = pixel[c];
              }
            }
          }
          to += window_x * own;
        }
      }
#else
      ALONG(e, l, result_x * patch) {
        const i64 q = e % patch;
        const i64 y = top + q / own / window_x * gap_y;
        const i64 x = e / patch * stride_x - before_x + q / own % window_x * gap_x;
        T value = 0;
        if (y >= 0 && y < height && x >= 0 && x < width)
          value = from[(y * width + x) * channels + q % own];
        to[e] = value;
      }
#endif
    }
  }
}
)";

// Each row of the images, from `first_image` on, gathers what the patches of the rows [first, first
// + rows) of the results have for it. `adds` says that the first image has some of it already.
constexpr const char* kAddPatches = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), i64 first, i64 rows, i64 first_image, i64 images, i64 adds,
            PARAMETERS) {
  const i64 own = channels / groups;
  const i64 patch = window_y * window_x * own;
  ROWS(line, images * height) {
    const i64 image = first_image + line / height;
    const int is_begun = adds != 0 && image == first_image;
    GLOBAL T* to = AT(T, 1) + (first_image * height + line) * width * channels;
#ifdef SERIAL
    if (!is_begun)
      for (i64 i = 0; i < width * channels; ++i) to[i] = 0;
    for (i64 i = 0; i < window_y; ++i) {
      const i64 y = line % height + before_y - i * gap_y;
      const i64 row = image * result_y + y / stride_y - first;
      if (y < 0 || y % stride_y != 0 || y / stride_y >= result_y || row < 0 || row >= rows)
        continue;
      for (i64 group = 0; group < groups; ++group) {
        const GLOBAL T* from = AT(T, 0) + (group * rows + row) * result_x * patch;
        for (i64 place = 0; place < result_x; ++place) {
          for (i64 j = 0; j < window_x; ++j) {
            const i64 x = place * stride_x - before_x + j * gap_x;
            if (x < 0 || x >= width) continue;
            const GLOBAL T* term = from + place * patch + (i * window_x + j) * own;
            GLOBAL T* sum = to + x * channels + group * own;
            INDEPENDENT for (i64 c = 0; c < own; ++c) sum[c] += term[c];
          }
        }
      }
    }
#else
    ALONG(e, l, width * channels) {
      const i64 group = e % channels / own;
      T sum = is_begun ? to[e] : 0;
      for (i64 i = 0; i < window_y; ++i) {
        const i64 y = line % height + before_y - i * gap_y;
        const i64 row = image * result_y + y / stride_y - first;
        if (y < 0 || y % stride_y != 0 || y / stride_y >= result_y || row < 0 || row >= rows)
          continue;
        for (i64 j = 0; j < window_x; ++j) {
          const i64 x = e / channels + before_x - j * gap_x;
          if (x < 0 || x % stride_x != 0 || x / stride_x >= result_x) continue;
          const i64 place = (group * rows + row) * result_x + x / stride_x;
          sum += AT(T, 0)[place * patch + (i * window_x + j) * own + e % channels % own];
        }
      }
      to[e] = sum;
    }
#endif
  }
}
)";

class PatchConvolution final : public op::Executable {
 public:
  PatchConvolution(ConvolutionPass pass, const ConvolutionShape& shape, const Device& device)
      : pass_(pass),
        s_(shape),
        out_(shape.out / shape.groups),
        patch_(shape.filter_rows()),
        element_(static_cast<int64_t>(size_of(shape.dtype))),
        products_(products_for(device, shape.dtype)),
        patches_(device, pass == ConvolutionPass::backprop_input
                             ? text("add_patches", kAddPatches)
                             : text("copy_patches", kCopyPatches)) {
    // What CPUs multiply at once stays in a cache; GPUs want much at once.
    const int64_t most = patches_.is_serial() ? int64_t{4} << 20 : int64_t{64} << 20;
    rows_ = s_.images * s_.window[0].result;
    block_ = std::clamp<int64_t>(most / (row_elements() * element_), 1, rows_);
    patch_bytes_ = core::aligned(static_cast<size_t>(block_ * row_elements() * element_));
    workspace_bytes_ = patch_bytes_ + products_->workspace_bytes(product(block_));
    if (const int64_t rest = rows_ % block_; rest > 0) {
      workspace_bytes_ =
          std::max(workspace_bytes_, patch_bytes_ + products_->workspace_bytes(product(rest)));
    }
  }

  void run(const Launch& launch) const override {
    for (int64_t row = 0; row < rows_; row += block_) {
      const int64_t rows = std::min(block_, rows_ - row);
      ProductShape shape = product(rows);
      const int64_t results = row * s_.window[1].result * s_.out * element_;
      void* const patches = launch.workspace();
      switch (pass_) {
        case ConvolutionPass::forward:
          copy_patches(launch, row, rows);
          products_->multiply(launch, shape, patches, launch.in<char>(1),
                              launch.out<char>(0) + results, patch_bytes_);
          break;
        case ConvolutionPass::backprop_input:
          products_->multiply(launch, shape, launch.in<char>(1) + results, launch.in<char>(0),
                              patches, patch_bytes_);
          add_patches(launch, row, rows);
          break;
        case ConvolutionPass::backprop_filter:
          copy_patches(launch, row, rows);
          shape.adds = row > 0;
          products_->multiply(launch, shape, patches, launch.in<char>(1) + results,
                              launch.out<char>(0), patch_bytes_);
          break;
      }
    }
  }

  size_t workspace_bytes() const override { return workspace_bytes_; }
  const char* provider() const override { return "patches"; }

 private:
  KernelText text(const char* name, const char* body) const {
    return {.name = name,
            .words = {{"T", type_name(s_.dtype)}, {"PARAMETERS", kWindowParameters}},
            .body = body};
  }

  /// The number of elements in the patches of a row of the results.
  int64_t row_elements() const { return s_.groups * s_.window[1].result * patch_; }

  /// The product of so many rows of the results.
  ProductShape product(int64_t rows) const {
    const int64_t places = rows * s_.window[1].result;
    const ProductShape::Steps patches{0, places * patch_};
    const ProductShape::Steps channels{0, out_};
    switch (pass_) {
      case ConvolutionPass::forward:
        return {.m = places,
                .n = out_,
                .k = patch_,
                .lda = patch_,
                .ldb = s_.out,
                .ldc = s_.out,
                .inner = s_.groups,
                .a = patches,
                .b = channels,
                .c = channels};
      case ConvolutionPass::backprop_input:
        return {.m = places,
                .n = patch_,
                .k = out_,
                .transpose_b = true,
                .lda = s_.out,
                .ldb = s_.out,
                .ldc = patch_,
                .inner = s_.groups,
                .a = channels,
                .b = channels,
                .c = patches};
      case ConvolutionPass::backprop_filter:
        break;
    }
    return {.m = patch_,
            .n = out_,
            .k = places,
            .transpose_a = true,
            .lda = patch_,
            .ldb = s_.out,
            .ldc = s_.out,
            .inner = s_.groups,
            .a = patches,
            .b = channels,
            .c = channels};
  }

  void copy_patches(const Launch& launch, int64_t row, int64_t rows) const {
    Call call(launch, patches_);
    call.in(0).workspace().whole(row).whole(rows);
    pass_window(call, s_).rows(rows, row_elements());
  }

  void add_patches(const Launch& launch, int64_t row, int64_t rows) const {
    const int64_t per_image = s_.window[0].result;
    const int64_t first = row / per_image;
    const int64_t images = (row + rows - 1) / per_image + 1 - first;
    const bool adds = row % per_image != 0;
    Call call(launch, patches_);
    call.workspace().out(0).whole(row).whole(rows).whole(first).whole(images).whole(adds ? 1 : 0);
    pass_window(call, s_).rows(images * s_.window[0].image,
                               s_.window[1].image * s_.in * s_.window[0].window);
  }

  const ConvolutionPass pass_;
  const ConvolutionShape s_;
  const int64_t out_;      // Channels of a group of the result.
  const int64_t patch_;    // Elements that the filter sees at one place, in a group.
  const int64_t element_;  // Bytes of one.
  const ProductsPtr products_;
  const Kernel patches_;
  int64_t rows_;   // The rows of the results of all images,
  int64_t block_;  // and how many of them are multiplied at once.
  size_t patch_bytes_, workspace_bytes_;
};

}  // namespace

ExecutablePtr prepare_patch_convolution(ConvolutionPass pass, const ConvolutionShape& shape,
                                        const Device& device) {
  return std::make_shared<PatchConvolution>(pass, shape, device);
}

}  // namespace tandem::kernels::gpu

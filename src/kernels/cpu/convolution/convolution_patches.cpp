// Convolutions as matrix products. What the filter sees at one place of the image is a row of a
// matrix of patches, and the filter is the other matrix:
//
//   forward           patches of the image  x  filter              = result
//   image's gradient  result's gradient     x  filter, transposed  = patches, added to the image
//   filter's gradient patches, transposed   x  result's gradient   = filter's gradient
//
// The matrix is made for a block of places at a time, so that it stays in the cache.
#include <algorithm>
#include <vector>

#include "core/alignment.h"
#include "kernels/cpu/convolution/convolution_providers.h"
#include "kernels/cpu/gemm/gemm.h"

namespace tandem::kernels::cpu {
namespace {

/// How much is multiplied at once. Copying patches costs little next to the product with them, and
/// a product needs some places to be fast. The filter's gradient is a sum over places: where it is
/// cut, the parts are added, so it is cut into few.
struct BlockLimits {
  int64_t places, elements;
};

constexpr BlockLimits limits_of(ConvolutionPass pass) {
  return pass == ConvolutionPass::backprop_filter ? BlockLimits{1280, 2 << 20}
                                                  : BlockLimits{384, 512 << 10};
}

/// For each block of rows of the results, those of all images counted as one column of them, and
/// for each group: a row of the matrix `patches` is what the filter sees at one place, [height,
/// width, channels of the group].
template <class T>
class PatchConvolution final : public Convolution {
 public:
  PatchConvolution(ConvolutionPass pass, const ConvolutionShape& shape)
      : pass_(pass),
        s_(shape),
        in_(shape.in / shape.groups),
        out_(shape.out / shape.groups),
        patch_(shape.filter_rows()) {
    const BlockLimits limits = limits_of(pass);
    const int64_t row = s_.window[1].result;
    const int64_t places = std::min(limits.places, limits.elements / std::max<int64_t>(1, patch_));
    block_rows_ = std::clamp<int64_t>(places / row, 1, rows());
    whole_ = product(block_rows_);
    if (const int64_t rest = rows() % block_rows_; rest > 0) last_ = product(rest);
  }

  void run(const void* first, const void* second, void* out, void* workspace,
           const Finish* finish) const override {
    const Workspace at = parts_of(workspace);
    const auto* a = static_cast<const T*>(first);
    const auto* b = static_cast<const T*>(second);
    auto* c = static_cast<T*>(out);
    if (pass_ == ConvolutionPass::backprop_input) {
      std::fill_n(c, s_.images * s_.image_elements(), T(0));
    }
    for (int64_t row = 0; row < rows(); row += block_rows_) {
      Block block{row, std::min(block_rows_, rows() - row), 0};
      for (; block.group < s_.groups; ++block.group) {
        switch (pass_) {
          case ConvolutionPass::forward:
            forward(block, at, a, b, c);
            break;
          case ConvolutionPass::backprop_input:
            backprop_input(block, at, a, b, c);
            break;
          case ConvolutionPass::backprop_filter:
            backprop_filter(block, at, a, b, c);
            break;
        }
      }
      if (finish != nullptr) {
        finish->pixels(c + row * s_.window[1].result * s_.out, block.rows * s_.window[1].result);
      }
    }
  }

  size_t workspace_bytes() const override {
    return patches_bytes() + sums_bytes() +
           std::max(whole_->workspace_bytes(), last_ ? last_->workspace_bytes() : 0);
  }

  const char* provider() const override { return "patches"; }

 private:
  struct Block {
    int64_t row, rows, group;  // The first row of the results, their number, and the group.
  };
  struct Workspace {
    T* patches;
    T* sums;  // The filter's gradient of one block, where there are several.
    void* product;
  };

  /// The rows of the results of all images.
  int64_t rows() const { return s_.images * s_.window[0].result; }

  size_t patches_bytes() const {
    return core::aligned(static_cast<size_t>(block_rows_ * s_.window[1].result * patch_) *
                         sizeof(T));
  }
  size_t sums_bytes() const {
    return pass_ == ConvolutionPass::backprop_filter && block_rows_ < rows()
               ? core::aligned(static_cast<size_t>(patch_ * s_.out) * sizeof(T))
               : 0;
  }
  Workspace parts_of(void* workspace) const {
    auto* bytes = static_cast<char*>(workspace);
    void* sums = bytes + patches_bytes();
    return {static_cast<T*>(workspace), static_cast<T*>(sums),
            bytes + patches_bytes() + sums_bytes()};
  }

  /// The product of a block of `rows` rows of the result.
  std::unique_ptr<Gemm> product(int64_t rows) const {
    const int64_t places = rows * s_.window[1].result;
    switch (pass_) {
      case ConvolutionPass::forward:  // result = patches filter
        return prepare_gemm({.dtype = s_.dtype,
                             .m = places,
                             .n = out_,
                             .k = patch_,
                             .lda = patch_,
                             .ldb = s_.out,
                             .ldc = s_.out});
      case ConvolutionPass::backprop_input:  // patches = result filter^T
        return prepare_gemm({.dtype = s_.dtype,
                             .m = places,
                             .n = patch_,
                             .k = out_,
                             .transpose_b = true,
                             .lda = s_.out,
                             .ldb = s_.out,
                             .ldc = patch_});
      case ConvolutionPass::backprop_filter:  // filter = patches^T result
        break;
    }
    return prepare_gemm({.dtype = s_.dtype,
                         .m = patch_,
                         .n = out_,
                         .k = places,
                         .transpose_a = true,
                         .lda = patch_,
                         .ldb = s_.out,
                         .ldc = s_.out});
  }

  const Gemm& product_of(const Block& block) const {
    return block.rows == block_rows_ ? *whole_ : *last_;
  }
  /// The block's first element of the results, in the group.
  int64_t result_offset(const Block& block) const {
    return block.row * s_.window[1].result * s_.out + block.group * out_;
  }

  void forward(const Block& block, const Workspace& at, const T* image, const T* filter,
               T* result) const {
    copy_patches(block, image, at.patches);
    product_of(block).run(at.patches, filter + block.group * out_, result + result_offset(block),
                          at.product);
  }

  void backprop_input(const Block& block, const Workspace& at, const T* filter, const T* result,
                      T* image) const {
    product_of(block).run(result + result_offset(block), filter + block.group * out_, at.patches,
                          at.product);
    add_patches(block, at.patches, image);
  }

  void backprop_filter(const Block& block, const Workspace& at, const T* image, const T* result,
                       T* filter) const {
    const int64_t group = block.group * out_;
    copy_patches(block, image, at.patches);
    T* to = (block.row == 0 ? filter : at.sums) + group;
    product_of(block).run(at.patches, result + result_offset(block), to, at.product);
    if (block.row == 0) return;
    for (int64_t row = 0; row < patch_; ++row) {
      const T* from = at.sums + row * s_.out + group;
      T* sum = filter + row * s_.out + group;
      for (int64_t i = 0; i < out_; ++i) sum[i] += from[i];
    }
  }

  /// visit(channels of the image or null in the padding, channels of the patch), both `in_` long.
  template <class Image, class Patch, class Visit>
  void for_each_pixel(const Block& block, Image* image, Patch* patch, Visit visit) const {
    const auto& [down, right] = s_.window;
    for (int64_t row = block.row; row < block.row + block.rows; ++row) {
      Image* own = image + row / down.result * s_.image_elements() + block.group * in_;
      const int64_t top = down.start(row % down.result);
      for (int64_t column = 0; column < right.result; ++column) {
        for (int64_t i = 0; i < down.window; ++i) {
          const int64_t y = top + i * down.dilation;
          for (int64_t j = 0; j < right.window; ++j, patch += in_) {
            const int64_t x = right.start(column) + j * right.dilation;
            const bool inside = y >= 0 && y < down.image && x >= 0 && x < right.image;
            visit(inside ? own + (y * right.image + x) * s_.in : nullptr, patch);
          }
        }
      }
    }
  }

  void copy_patches(const Block& block, const T* image, T* patches) const {
    for_each_pixel(block, image, patches, [this](const T* pixel, T* to) {
      if (pixel != nullptr) {
        std::copy_n(pixel, in_, to);
      } else {
        std::fill_n(to, in_, T(0));
      }
    });
  }

  void add_patches(const Block& block, const T* patches, T* image) const {
    for_each_pixel(block, image, patches, [this](T* pixel, const T* from) {
      if (pixel == nullptr) return;
      for (int64_t i = 0; i < in_; ++i) pixel[i] += from[i];
    });
  }

  const ConvolutionPass pass_;
  const ConvolutionShape s_;
  const int64_t in_, out_;  // Channels of a group.
  const int64_t patch_;     // Elements that the filter sees at one place, in a group.
  int64_t block_rows_;      // The rows of the result in a block.
  std::unique_ptr<Gemm> whole_, last_;
};

}  // namespace

std::unique_ptr<Convolution> prepare_patch_convolution(ConvolutionPass pass,
                                                       const ConvolutionShape& shape) {
  if (shape.dtype == DType::float32) {
    return std::make_unique<PatchConvolution<float>>(pass, shape);
  }
  return std::make_unique<PatchConvolution<double>>(pass, shape);
}

}  // namespace tandem::kernels::cpu

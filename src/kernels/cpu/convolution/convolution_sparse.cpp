// Gradients of a convolution whose result's gradient is mostly zero. What is not zero is listed;
// each such element meets, for every row of the filter, a run of the image that lies in one piece:
// the width of the filter times the channels. Sums over elements that meet the same run stay in
// registers.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "core/alignment.h"
#include "kernels/cpu/convolution/convolution_providers.h"
#include "kernels/cpu/convolution/sparse_runs.h"

namespace tandem::kernels::cpu {
namespace {

// Elements of the result's gradient that are listed at once.
constexpr int64_t kBlockElements = 16'384;

/// Rows of the result's gradient of one image.
struct Block {
  int64_t row, rows;
};

template <class T>
class SparseConvolution final : public Convolution {
 public:
  SparseConvolution(ConvolutionPass pass, const ConvolutionShape& shape)
      : pass_(pass),
        s_(shape),
        runs_(sparse_runs<T>()),
        width_(shape.window[1].before + shape.window[1].image + shape.window[1].after),
        height_(shape.window[0].before + shape.window[0].image + shape.window[0].after),
        is_padded_(width_ * height_ * shape.in != shape.image_elements()),
        run_(shape.window[1].window * shape.in),
        filter_row_step_(shape.window[0].dilation * width_ * shape.in) {
    const int64_t row_elements = s_.window[1].result * s_.out;
    block_rows_ = std::clamp<int64_t>(kBlockElements / row_elements, 1, s_.window[0].result);
  }

  void run(const void* first, const void* second, void* out, void* workspace,
           const Finish*) const override {
    const auto* g = static_cast<const T*>(second);
    const Workspace at = parts_of(workspace);
    if (pass_ == ConvolutionPass::backprop_input) {
      backprop_input(static_cast<const T*>(first), g, static_cast<T*>(out), at);
    } else {
      backprop_filter(static_cast<const T*>(first), g, static_cast<T*>(out), at);
    }
  }

  size_t workspace_bytes() const override { return bytes_of(kParts); }
  const char* provider() const override { return "sparse"; }

 private:
  /// The filter or its gradient as [rows, out, run]; what is not zero, where it belongs, and how
  /// much there is of each channel or pixel; the same of one pixel; an image with its padding.
  struct Workspace {
    T* filter;
    T* values;
    Place<T>* places;
    int64_t* counts;
    T* pixel_values;
    Place<T>* pixel_places;
    T* image;
  };
  static constexpr int kParts = 7;

  int64_t block_pixels() const { return block_rows_ * s_.window[1].result; }

  /// The bytes of the first `parts` parts of the workspace. A Place is as wide as an element.
  size_t bytes_of(int parts) const {
    const int64_t listed = block_pixels() * s_.out;
    const std::array<int64_t, kParts> elements{
        s_.filter_elements(),
        listed,
        listed,
        std::max(block_pixels(), s_.out) * static_cast<int64_t>(sizeof(int64_t) / sizeof(T)),
        s_.out,
        s_.out,
        is_padded_ ? padded_elements() : 0};
    size_t bytes = 0;
    for (size_t i = 0; i < static_cast<size_t>(parts); ++i) {
      bytes += core::aligned(static_cast<size_t>(elements[i]) * sizeof(T));
    }
    return bytes;
  }

  Workspace parts_of(void* workspace) const {
    char* bytes = static_cast<char*>(workspace);
    const auto numbers = [&](int part) { return reinterpret_cast<T*>(bytes + bytes_of(part)); };
    const auto places = [&](int part) {
      return reinterpret_cast<Place<T>*>(bytes + bytes_of(part));
    };
    return {numbers(0), numbers(1), places(2), reinterpret_cast<int64_t*>(bytes + bytes_of(3)),
            numbers(4), places(5),  numbers(6)};
  }

  int64_t padded_elements() const { return height_ * width_ * s_.in; }
  /// The start of the first run that a pixel of the result meets, in the padded image.
  int64_t first_run(int64_t row, int64_t column) const {
    return (row * s_.window[0].stride * width_ + column * s_.window[1].stride) * s_.in;
  }

  template <class Visit>
  void for_each_block(Visit visit) const {
    for (int64_t row = 0; row < s_.window[0].result; row += block_rows_) {
      visit(Block{row, std::min(block_rows_, s_.window[0].result - row)});
    }
  }

  /// visit(number of the pixel within the block, row, column).
  template <class Visit>
  void for_each_pixel(const Block& block, Visit visit) const {
    int64_t pixel = 0;
    for (int64_t row = block.row; row < block.row + block.rows; ++row) {
      for (int64_t column = 0; column < s_.window[1].result; ++column) visit(pixel++, row, column);
    }
  }
  /// The block's first element of an image of results.
  int64_t first_element(const Block& block) const {
    return block.row * s_.window[1].result * s_.out;
  }

  /// Each run of a filter's gradient is a sum over one channel's entries in all images.
  void backprop_filter(const T* image, const T* g, T* filter, const Workspace& at) const {
    std::fill_n(at.filter, s_.filter_elements(), T(0));
    for (int64_t i = 0; i < s_.images; ++i) {
      const T* x = padded(image + i * s_.image_elements(), at);
      for_each_block([&](const Block& block) {
        list_by_channel(block, g + i * s_.result_elements(), at);
        for (int64_t channel = 0; channel < s_.out; ++channel) {
          for (int64_t row = 0; row < s_.window[0].window; ++row) {
            runs_.add(at.values + channel * block_pixels(), at.places + channel * block_pixels(),
                      at.counts[channel], x + row * filter_row_step_, 1,
                      at.filter + (row * s_.out + channel) * run_, run_);
          }
        }
      });
    }
    transpose(at.filter, s_.out, run_, filter);
  }

  /// Each run of an image's gradient gets a sum over one pixel's entries.
  void backprop_input(const T* filter, const T* g, T* image, const Workspace& at) const {
    transpose(filter, run_, s_.out, at.filter);
    for (int64_t i = 0; i < s_.images; ++i) {
      T* own = image + i * s_.image_elements();
      T* to = is_padded_ ? at.image : own;
      std::fill_n(to, padded_elements(), T(0));
      for_each_block([&](const Block& block) {
        list_by_pixel(block, g + i * s_.result_elements(), at);
        for (int64_t row = 0; row < s_.window[0].window; ++row) {
          add_pixels(block, at.filter + row * s_.out * run_, to + row * filter_row_step_, at);
        }
      });
      if (is_padded_) copy_inner(to, own);
    }
  }

  /// Lists for each channel what is not zero, and where the runs begin that it meets.
  void list_by_channel(const Block& block, const T* g, const Workspace& at) const {
    std::fill_n(at.counts, s_.out, int64_t{0});
    g += first_element(block);
    for_each_pixel(block, [&](int64_t pixel, int64_t row, int64_t column) {
      const int64_t found =
          runs_.find(g + pixel * s_.out, s_.out, at.pixel_values, at.pixel_places);
      const auto begin = static_cast<Place<T>>(first_run(row, column));
      for (int64_t k = 0; k < found; ++k) {
        const int64_t channel = at.pixel_places[k];
        const int64_t to = channel * block_pixels() + at.counts[channel]++;
        at.values[to] = at.pixel_values[k];
        at.places[to] = begin;
      }
    });
  }

  /// What is not zero of each pixel, and the channels, one after another.
  void list_by_pixel(const Block& block, const T* g, const Workspace& at) const {
    g += first_element(block);
    int64_t listed = 0;
    for_each_pixel(block, [&](int64_t pixel, int64_t, int64_t) {
      at.counts[pixel] =
          runs_.find(g + pixel * s_.out, s_.out, at.values + listed, at.places + listed);
      listed += at.counts[pixel];
    });
  }

  void add_pixels(const Block& block, const T* filter, T* image, const Workspace& at) const {
    int64_t listed = 0;
    for_each_pixel(block, [&](int64_t pixel, int64_t row, int64_t column) {
      const int64_t count = at.counts[pixel];
      if (count == 0) return;
      runs_.add(at.values + listed, at.places + listed, count, filter, run_,
                image + first_run(row, column), run_);
      listed += count;
    });
  }

  /// Each row of the filter: from [rows, columns] to [columns, rows].
  void transpose(const T* from, int64_t rows, int64_t columns, T* to) const {
    for (int64_t matrix = 0; matrix < s_.window[0].window; ++matrix) {
      for (int64_t column = 0; column < columns; ++column) {
        for (int64_t row = 0; row < rows; ++row) *to++ = from[row * columns + column];
      }
      from += rows * columns;
    }
  }

  /// The image in the middle of zeros, if it needs any.
  const T* padded(const T* image, const Workspace& at) const {
    if (!is_padded_) return image;
    std::fill_n(at.image, padded_elements(), T(0));
    for_each_inner_row([&](int64_t inner, int64_t outer, int64_t count) {
      std::copy_n(image + inner, count, at.image + outer);
    });
    return at.image;
  }

  void copy_inner(const T* whole, T* image) const {
    for_each_inner_row([&](int64_t inner, int64_t outer, int64_t count) {
      std::copy_n(whole + outer, count, image + inner);
    });
  }

  /// visit(offset in the image, offset with the padding, elements).
  template <class Visit>
  void for_each_inner_row(Visit visit) const {
    const auto& [down, right] = s_.window;
    const int64_t count = right.image * s_.in;
    for (int64_t row = 0; row < down.image; ++row) {
      visit(row * count, ((row + down.before) * width_ + right.before) * s_.in, count);
    }
  }

  const ConvolutionPass pass_;
  const ConvolutionShape s_;
  const SparseRuns<T> runs_;
  const int64_t width_, height_;  // The sizes of an image with its padding.
  const bool is_padded_;
  const int64_t run_;  // Elements of an image that a row of the filter sees.
  // The distance from what a row of the filter sees to what the next sees.
  const int64_t filter_row_step_;
  int64_t block_rows_;
};

}  // namespace

std::unique_ptr<Convolution> prepare_sparse_convolution(ConvolutionPass pass,
                                                        const ConvolutionShape& shape) {
  if (pass == ConvolutionPass::forward || shape.groups != 1) return nullptr;
  if (shape.window[1].dilation != 1 && shape.window[1].window != 1) return nullptr;
  // Places have 32 bits.
  const auto padded = [](const ops::WindowAxis& axis) {
    return axis.before + axis.image + axis.after;
  };
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (padded(shape.window[0]) * padded(shape.window[1]) * shape.in > kMost) return nullptr;
  if (shape.dtype == DType::float32) {
    return std::make_unique<SparseConvolution<float>>(pass, shape);
  }
  return std::make_unique<SparseConvolution<double>>(pass, shape);
}

}  // namespace tandem::kernels::cpu

// The convolution kernels: which provider computes a convolution of given sizes, and how threads
// share it. Providers (convolution_providers.h) compute on one thread for a number of images; the
// choice between them is by the measurements that stand beside it.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <optional>
#include <vector>

#include "core/alignment.h"
#include "kernels/cpu/convolution/convolution_providers.h"
#include "kernels/cpu/elementwise/epilogue.h"
#include "op/registry.h"

namespace tandem::kernels::cpu {
namespace {

/// Where there is nothing to multiply, all sums are zero.
class ZeroConvolution final : public Convolution {
 public:
  ZeroConvolution(ConvolutionPass pass, const ConvolutionShape& s) {
    const int64_t elements = pass == ConvolutionPass::forward ? s.images * s.result_elements()
                             : pass == ConvolutionPass::backprop_input
                                 ? s.images * s.image_elements()
                                 : s.filter_elements();
    bytes_ = static_cast<size_t>(elements) * size_of(s.dtype);
    pixels_ = s.images * s.window[0].result * s.window[1].result;
  }
  void run(const void*, const void*, void* out, void*, const Finish* finish) const override {
    if (bytes_ == 0) return;
    std::memset(out, 0, bytes_);
    if (finish != nullptr) finish->pixels(out, pixels_);
  }
  const char* provider() const override { return "fill"; }

 private:
  size_t bytes_;
  int64_t pixels_;
};

/// Whether it pays to look for what is not zero: there is little of it, and each meets a run of the
/// filter that is long enough.
bool is_sparse(const ConvolutionShape& s) {
  constexpr int64_t kShortest = 32;
  return s.density < 0.34 && s.window[1].window * s.in >= kShortest;
}

/// Measured on Zen 3, four images a thread, GFLOP/s of one core on a busy machine, oneDNN first:
///
///                                forward   image's gradient   filter's gradient
///   149x149, 32 to 32, 3x3         77  72              86  56             21  66
///   73x73, 80 to 192, 3x3          65  74              37  73             28  80
///   35x35, 288 to 384, 3x3 by 2    59  83              62  69             46  72
///   17x17, 192 to 192, 1x7         51  64              52  72             52  76
///   17x17, 192 to 192, 7x1         85  81              71  79             54  75
///   8x8, 384 to 384, 3x1           59  86              81  82             56  90
bool patches_are_faster_with_avx2(ConvolutionPass pass, const ConvolutionShape& s) {
  const auto& [down, right] = s.window;
  const bool skips = down.stride > 1 || right.stride > 1;
  switch (pass) {
    case ConvolutionPass::forward:
      // Its loops run along a row: they lose where rows are short, and win for a single column.
      return right.result <= 8 || skips || (right.window > 1 && s.out > 64);
    case ConvolutionPass::backprop_input:
      // It takes 32 channels at once where it can.
      return right.result <= 8 || skips || right.window > 3 || s.in % 32 != 0;
    case ConvolutionPass::backprop_filter:
      break;
  }
  return true;
}

/// Measured on an Emerald Rapids Xeon, the same on a quiet machine:
///
///                                forward   image's gradient   filter's gradient
///   149x149, 32 to 32, 3x3       161 115            156  84            148 106
///   73x73, 80 to 192, 3x3        168 135            129 135            141 124
///   35x35, 288 to 384, 3x3 by 2  161 133            131 134            118 133
///   17x17, 192 to 192, 1x7       197 135            198 142            183 136
///   17x17, 192 to 192, 7x1       196 134            186 133            120 128
///   8x8, 384 to 384, 3x1         170 150            156 156            118 160
bool patches_are_faster_with_avx512(ConvolutionPass pass, const ConvolutionShape& s) {
  const auto& [down, right] = s.window;
  const bool skips = down.stride > 1 || right.stride > 1;
  return pass == ConvolutionPass::backprop_filter && (right.result <= 8 || skips);
}

}  // namespace

bool patches_are_faster(ConvolutionPass pass, const ConvolutionShape& s, CpuKind cpu) {
  if (s.groups != 1 || s.in < 32 || s.out < 32) return false;
  return cpu == CpuKind::avx512 ? patches_are_faster_with_avx512(pass, s)
                                : patches_are_faster_with_avx2(pass, s);
}

std::unique_ptr<Convolution> prepare_convolution(ConvolutionPass pass,
                                                 const ConvolutionShape& shape) {
  if (shape.images == 0 || shape.image_elements() == 0 || shape.result_elements() == 0) {
    return std::make_unique<ZeroConvolution>(pass, shape);
  }
  if (auto found = prepare_depthwise_convolution(pass, shape)) return found;
  if (is_sparse(shape)) {
    if (auto found = prepare_sparse_convolution(pass, shape)) return found;
  }
  if (shape.dtype == DType::float32 && !patches_are_faster(pass, shape)) {
    if (auto found = prepare_onednn_convolution(pass, shape)) return found;
  }
  return prepare_patch_convolution(pass, shape);
}

namespace {

using op::Launch;
using op::Signature;

/// A convolution for each thread's number of images. Parts differ by at most one image, so there
/// are at most two.
class Parts {
 public:
  Parts(ConvolutionPass pass, ConvolutionShape shape, int parts) : images_(shape.images) {
    for (int part = 0; part < parts; ++part) {
      const auto [begin, end] = op::part_of(images_, part, parts);
      shape.images = end - begin;
      const auto known = std::ranges::find(made_, shape.images, &Made::images);
      if (known == made_.end()) {
        made_.push_back({shape.images, prepare_convolution(pass, shape)});
        of_part_.push_back(made_.back().convolution);
      } else {
        of_part_.push_back(known->convolution);
      }
    }
  }

  const Convolution& of(const Launch& launch) const {
    assert(static_cast<size_t>(launch.parts) == of_part_.size());
    return *of_part_[static_cast<size_t>(launch.part)];
  }
  /// The first image of a thread's.
  int64_t first(const Launch& launch) const { return op::part_of(images_, launch).first; }
  /// Threads without images have nothing to add.
  bool has_images(int part, int parts) const {
    const auto [begin, end] = op::part_of(images_, part, parts);
    return begin < end;
  }

  size_t workspace_bytes() const {
    size_t bytes = 0;
    for (const Made& made : made_) bytes = std::max(bytes, made.convolution->workspace_bytes());
    return bytes;
  }
  const char* provider() const { return of_part_.front()->provider(); }

 private:
  struct Made {
    int64_t images;
    std::shared_ptr<const Convolution> convolution;
  };
  const int64_t images_;
  std::vector<Made> made_;
  std::vector<std::shared_ptr<const Convolution>> of_part_;
};

/// The epilogue of one thread's run.
class Epilogued final : public Finish {
 public:
  Epilogued(const Epilogue& epilogue, const void* bias, void* workspace)
      : epilogue_(epilogue), workspace_(workspace) {
    epilogue.open(bias, workspace);
  }
  void pixels(void* first, int64_t count) const override {
    epilogue_.apply(first, nullptr, count, workspace_);
  }

 private:
  const Epilogue& epilogue_;
  void* const workspace_;
};

/// Forward, and the image's gradient: each thread computes its images.
class ByImages final : public op::Executable {
 public:
  /// `epilogue` may be null.
  ByImages(ConvolutionPass pass, const ConvolutionShape& shape, std::unique_ptr<Epilogue> epilogue,
           int parts)
      : forward_(pass == ConvolutionPass::forward),
        epilogue_(std::move(epilogue)),
        image_bytes_(shape.image_elements() * static_cast<int64_t>(size_of(shape.dtype))),
        result_bytes_(shape.result_elements() * static_cast<int64_t>(size_of(shape.dtype))),
        parts_(pass, shape, parts) {}

  void run(const Launch& launch) const override {
    const int64_t first = parts_.first(launch);
    const int64_t image = first * image_bytes_;
    const int64_t result = first * result_bytes_;
    std::optional<Epilogued> finish;
    if (epilogue_) {
      finish.emplace(*epilogue_, launch.inputs > 2 ? launch.in<char>(2) : nullptr,
                     launch.workspace<char>() + core::aligned(parts_.workspace_bytes()));
    }
    parts_.of(launch).run(launch.in<char>(0) + (forward_ ? image : 0),
                          launch.in<char>(1) + (forward_ ? 0 : result),
                          launch.out<char>(0) + (forward_ ? result : image), launch.workspace(),
                          finish ? &*finish : nullptr);
  }
  size_t workspace_bytes() const override {
    return core::aligned(parts_.workspace_bytes()) + (epilogue_ ? epilogue_->workspace_bytes() : 0);
  }
  const char* provider() const override { return parts_.provider(); }

 private:
  const bool forward_;
  const std::unique_ptr<Epilogue> epilogue_;
  const int64_t image_bytes_, result_bytes_;
  const Parts parts_;
};

/// The filter's gradient: each thread sums over its images into its workspace, then each joins the
/// sums of all in a part of the filter.
template <class T>
class FilterGradient final : public op::Executable {
 public:
  FilterGradient(const ConvolutionShape& shape, int parts)
      : shape_(shape), parts_(ConvolutionPass::backprop_filter, shape, parts), alone_(parts == 1) {}

  void run(const Launch& launch) const override {
    launch.phase == 0 ? sum_images(launch) : join(launch);
  }
  int phases() const override { return alone_ ? 1 : 2; }
  size_t workspace_bytes() const override {
    return partial_bytes() + core::aligned(parts_.workspace_bytes());
  }
  const char* provider() const override { return parts_.provider(); }

 private:
  /// The thread's sum comes first in its workspace, then what the convolution needs.
  size_t partial_bytes() const {
    return alone_ ? 0 : core::aligned(static_cast<size_t>(shape_.filter_elements()) * sizeof(T));
  }

  void sum_images(const Launch& launch) const {
    const int64_t first = parts_.first(launch);
    T* to = alone_ ? launch.out<T>(0) : launch.workspace<T>();
    parts_.of(launch).run(launch.in<T>(0) + first * shape_.image_elements(),
                          launch.in<T>(1) + first * shape_.result_elements(), to,
                          launch.workspace<char>() + partial_bytes());
  }

  void join(const Launch& launch) const {
    const auto [first, last] = op::part_of(shape_.filter_rows(), launch);
    const int64_t begin = first * shape_.out;
    const int64_t end = last * shape_.out;
    T* out = launch.out<T>(0);
    bool any = false;
    for (int part = 0; part < launch.parts; ++part) {
      if (!parts_.has_images(part, launch.parts) && part > 0) continue;
      const T* partial = launch.workspace<T>(part);
      if (any) {
        for (int64_t i = begin; i < end; ++i) out[i] += partial[i];
      } else {
        std::copy(partial + begin, partial + end, out + begin);
      }
      any = true;
    }
  }

  const ConvolutionShape shape_;
  const Parts parts_;
  const bool alone_;
};

template <ConvolutionPass pass>
op::ExecutablePtr prepare_by_images(const Signature& s, int parts) {
  return std::make_shared<ByImages>(pass, ConvolutionShape::of(s), nullptr, parts);
}

op::ExecutablePtr prepare_fused(const Signature& s, int parts) {
  return std::make_shared<ByImages>(ConvolutionPass::forward, ConvolutionShape::of(s),
                                    prepare_epilogue(s), parts);
}

template <class T>
op::ExecutablePtr prepare_filter_gradient(const Signature& s, int parts) {
  return std::make_shared<FilterGradient<T>>(ConvolutionShape::of(s), parts);
}

}  // namespace

void register_convolution(op::BackendKernels& kernels) {
  const std::vector<DType> floating{DType::float32, DType::float64};
  kernels.add("conv2d", floating, prepare_by_images<ConvolutionPass::forward>);
  kernels.add("fused_conv2d", floating, prepare_fused);
  kernels.add("conv2d_backprop_input", floating,
              prepare_by_images<ConvolutionPass::backprop_input>);
  kernels.add("conv2d_backprop_filter", {DType::float32}, prepare_filter_gradient<float>);
  kernels.add("conv2d_backprop_filter", {DType::float64}, prepare_filter_gradient<double>);
}

}  // namespace tandem::kernels::cpu

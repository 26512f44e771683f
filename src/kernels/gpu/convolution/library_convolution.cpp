// Convolutions by the library of the device's vendor. It wants filters as [out, height, width,
// in / groups], so each run has them in another order in its workspace:
//
//   forward           filter -> workspace; image, workspace -> result
//   image's gradient  filter -> workspace; workspace, result's gradient -> image's gradient
//   filter's gradient image, result's gradient -> workspace -> filter's gradient
#include <optional>

#include "core/alignment.h"
#include "kernels/gpu/convolution/gpu_convolutions.h"
#include "kernels/gpu/elementwise/gpu_epilogue.h"
#include "kernels/gpu/gemm/fused_product.h"
#include "kernels/gpu/library_call.h"

namespace tandem::kernels::gpu {
namespace {

using devices::gpu::LibraryConvolution;

constexpr const char* kTransposeFilter = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), i64 rows, i64 columns) {
  EACH(i, rows * columns) AT(T, 1)[i % columns * rows + i / columns] = AT(T, 0)[i];
}
)";

/// Libraries pad both ends of an axis by as much. Less behind it is as well where no window would
/// reach it; nothing where one would be too many or too few.
std::optional<LibraryConvolution::Axis> axis_of(const ops::WindowAxis& axis) {
  const int64_t seen = (axis.window - 1) * axis.dilation + 1;
  const int64_t room = axis.image + 2 * axis.before - seen;
  if (room < 0 || 1 + room / axis.stride != axis.result) return std::nullopt;
  return LibraryConvolution::Axis{axis.image,  axis.window,   axis.result,
                                  axis.stride, axis.dilation, axis.before};
}

class LibraryConvolutionRun final : public op::Executable {
 public:
  LibraryConvolutionRun(ConvolutionPass pass, const Signature& signature,
                        const ConvolutionShape& shape, const Device& device,
                        std::shared_ptr<const devices::gpu::PreparedConvolution> prepared,
                        const char* provider)
      : pass_(pass),
        bias_(is_fused(signature) && is_bias_and_relu(signature)
                  ? EpilogueInputs::of(signature).bias
                  : -1),
        rows_(shape.filter_rows()),
        columns_(shape.out),
        prepared_(std::move(prepared)),
        provider_(provider),
        transpose_(
            device,
            {.name = "transpose_filter", .words = word_of(shape.dtype), .body = kTransposeFilter}),
        filter_bytes_(
            core::aligned(static_cast<size_t>(shape.filter_elements()) * size_of(shape.dtype))) {
    if (is_fused(signature)) epilogue_.emplace(signature, device);
  }

  void run(const Launch& launch) const override {
    char* const filter = launch.workspace<char>();
    switch (pass_) {
      case ConvolutionPass::forward:
        transpose(launch, launch.in<void>(1), filter, rows_, columns_);
        if (bias_ >= 0 && convolve_with_bias_and_relu(launch, filter)) return;
        convolve(launch, launch.in<void>(0), filter, launch.out<void>(0));
        if (epilogue_) epilogue_->run(launch);
        return;
      case ConvolutionPass::backprop_input:
        transpose(launch, launch.in<void>(0), filter, rows_, columns_);
        return convolve(launch, launch.out<void>(0), filter, launch.in<void>(1));
      case ConvolutionPass::backprop_filter:
        convolve(launch, launch.in<void>(0), filter, launch.in<void>(1));
        return transpose(launch, filter, launch.out<void>(0), columns_, rows_);
    }
  }

  size_t workspace_bytes() const override { return filter_bytes_ + prepared_->workspace_bytes(); }
  const char* provider() const override { return provider_; }

 private:
  void transpose(const Launch& launch, const void* from, const void* to, int64_t rows,
                 int64_t columns) const {
    Call(launch, transpose_)
        .memory(from)
        .memory(to)
        .whole(rows)
        .whole(columns)
        .each(rows * columns);
  }

  void convolve(const Launch& launch, const void* image, const void* filter,
                const void* result) const {
    const auto& memory = static_cast<devices::gpu::GpuQueue&>(*launch.queue).memory();
    const devices::gpu::Location own = memory.locate(filter);
    issue_library_call(launch, [&](devices::gpu::Stream& stream) {
      prepared_->run(stream, memory.locate(image), own, memory.locate(result),
                     {own.memory, own.offset + filter_bytes_});
    });
  }

  bool convolve_with_bias_and_relu(const Launch& launch, const void* filter) const {
    const auto& memory = static_cast<devices::gpu::GpuQueue&>(*launch.queue).memory();
    const devices::gpu::Location own = memory.locate(filter);
    bool is_done = false;
    issue_library_call(launch, [&](devices::gpu::Stream& stream) {
      is_done = prepared_->run_with_bias_and_relu(
          stream, memory.locate(launch.in<void>(0)), own, memory.locate(launch.in<void>(bias_)),
          memory.locate(launch.out<void>(0)), {own.memory, own.offset + filter_bytes_});
    });
    return is_done;
  }

  const ConvolutionPass pass_;
  const int bias_;  // The input that the library adds before relu; -1 where it does not.
  std::optional<Epilogue> epilogue_;  // What follows, where the library does not do it.
  const int64_t rows_, columns_;      // The filter's as a matrix [.., out].
  const std::shared_ptr<const devices::gpu::PreparedConvolution> prepared_;
  const char* const provider_;
  const Kernel transpose_;
  const size_t filter_bytes_;
};

LibraryConvolution::Computes computes(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::forward:
      return LibraryConvolution::Computes::result;
    case ConvolutionPass::backprop_input:
      return LibraryConvolution::Computes::image_gradient;
    case ConvolutionPass::backprop_filter:
      break;
  }
  return LibraryConvolution::Computes::filter_gradient;
}

}  // namespace

ExecutablePtr prepare_library_convolution(ConvolutionPass pass, const Signature& signature,
                                          const ConvolutionShape& shape, const Device& device) {
  const auto vertical = axis_of(shape.window[0]);
  const auto horizontal = axis_of(shape.window[1]);
  if (!vertical || !horizontal) return nullptr;
  const auto library = queue_of(device).memory().driver().convolutions();
  if (!library) return nullptr;
  const auto prepared = library->prepare({.computes = computes(pass),
                                          .dtype = shape.dtype,
                                          .images = shape.images,
                                          .in = shape.in,
                                          .out = shape.out,
                                          .groups = shape.groups,
                                          .vertical = *vertical,
                                          .horizontal = *horizontal});
  if (!prepared) return nullptr;
  return std::make_shared<LibraryConvolutionRun>(pass, signature, shape, device, prepared,
                                                 library->name());
}

}  // namespace tandem::kernels::gpu

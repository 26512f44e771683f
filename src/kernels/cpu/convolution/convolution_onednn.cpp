// Convolutions by oneDNN, where it has a kernel made for the shape.
#include <fmt/format.h>

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/alignment.h"
#include "kernels/cpu/convolution/convolution_providers.h"
#include "tandem/error.h"

namespace tandem::kernels::cpu {
namespace {

using Memory = dnnl::memory;
using Tag = Memory::format_tag;
using Description = Memory::desc;

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

dnnl_stream_t stream() {
  thread_local const dnnl::stream own(engine());
  return own.get();
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

template <size_t N>
void execute(const dnnl::primitive& primitive, const dnnl_exec_arg_t (&arguments)[N]) {
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive.get(), stream(), static_cast<int>(N), arguments);
  if (status == dnnl_success) return;
  throw FailedPrecondition(
      fmt::format("conv2d: oneDNN ended with status {}", static_cast<int>(status)));
}

/// The operands as oneDNN sees them: channels are the second axis by name, the last in memory.
struct Operands {
  explicit Operands(const ConvolutionShape& s)
      : image({s.images, s.in, s.window[0].image, s.window[1].image}, Memory::data_type::f32,
              Tag::nhwc),
        result({s.images, s.out, s.window[0].result, s.window[1].result}, Memory::data_type::f32,
               Tag::nhwc),
        filter(filter_sizes(s), Memory::data_type::f32, filter_strides(s)),
        best_filter(filter_sizes(s), Memory::data_type::f32, Tag::any) {
    for (const ops::WindowAxis& axis : s.window) {
      strides.push_back(axis.stride);
      dilations.push_back(axis.dilation - 1);
      before.push_back(axis.before);
      after.push_back(axis.after);
    }
  }

  // [groups, out, in, height, width] of a group each, and without the first if there is one group.
  static Memory::dims filter_sizes(const ConvolutionShape& s) {
    const Memory::dims sizes{s.out / s.groups, s.in / s.groups, s.window[0].window,
                             s.window[1].window};
    return s.groups == 1 ? sizes : joined(s.groups, sizes);
  }
  static Memory::dims filter_strides(const ConvolutionShape& s) {
    const int64_t element = s.in / s.groups * s.out;
    const Memory::dims strides{1, s.out, s.window[1].window * element, element};
    return s.groups == 1 ? strides : joined(s.out / s.groups, strides);
  }
  static Memory::dims joined(int64_t first, Memory::dims rest) {
    rest.insert(rest.begin(), first);
    return rest;
  }

  Description image, result, filter, best_filter;
  Memory::dims strides, dilations, before, after;
};

using Forward = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;
constexpr auto kDirect = dnnl::algorithm::convolution_direct;

Forward::primitive_desc forward_of(const Operands& o) {
  return {{dnnl::prop_kind::forward_training, kDirect, o.image, o.best_filter, o.result, o.strides,
           o.dilations, o.before, o.after},
          user_scratchpad(),
          engine()};
}

// Bytes of the result that are computed before they are finished: they stay in the second cache.
constexpr int64_t kBlockBytes = 256 << 10;

/// A primitive for a number of images, and its operands.
struct Step {
  template <class PrimitiveDesc, class Primitive>
  Step(const ConvolutionShape& shape, const Operands& own, const PrimitiveDesc& chosen, Primitive*)
      : images(shape.images),
        pixels(shape.images * shape.window[0].result * shape.window[1].result),
        operands(own),
        scratchpad(chosen.scratchpad_desc()),
        primitive(Primitive(chosen)) {}

  int64_t images, pixels;
  Operands operands;
  Description scratchpad;
  dnnl::primitive primitive;
};

/// The filter is moved into the layout that the fast kernels want before each run, or its gradient
/// out of it after: filters are small next to the work that they cause.
class OneDnnConvolution final : public Convolution {
 public:
  /// `steps`: one for all images; or forward one for a block of images, and one for the rest.
  OneDnnConvolution(ConvolutionPass pass, const ConvolutionShape& shape,
                    const Description& plain_filter, const Description& filter,
                    std::vector<Step> steps)
      : pass_(pass),
        shape_(shape),
        plain_filter_(plain_filter),
        filter_(filter),
        steps_(std::move(steps)) {
    if (filter_ == plain_filter_) return;
    const bool gradient = pass == ConvolutionPass::backprop_filter;
    const dnnl::reorder::primitive_desc move(engine(), gradient ? filter_ : plain_filter_, engine(),
                                             gradient ? plain_filter_ : filter_, user_scratchpad());
    move_scratchpad_ = move.scratchpad_desc();
    move_ = dnnl::reorder(move);
    moves_ = true;
  }

  void run(const void* first, const void* second, void* out, void* workspace,
           const Finish* finish) const override {
    char* own_filter = static_cast<char*>(workspace);
    char* scratchpad = own_filter + (moves_ ? core::aligned(filter_.get_size()) : 0);
    switch (pass_) {
      case ConvolutionPass::forward:
        return forward(static_cast<const float*>(first), moved_in(second, own_filter, scratchpad),
                       static_cast<float*>(out), scratchpad, finish);
      case ConvolutionPass::backprop_input:
        return compute(steps_[0], {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST}, out,
                       moved_in(first, own_filter, scratchpad), second, scratchpad);
      case ConvolutionPass::backprop_filter:
        compute(steps_[0], {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}, first,
                moves_ ? own_filter : out, second, scratchpad);
        if (moves_) move(filter_, own_filter, plain_filter_, out, scratchpad);
    }
  }

  size_t workspace_bytes() const override {
    size_t scratchpad = moves_ ? move_scratchpad_.get_size() : 0;
    for (const Step& step : steps_) scratchpad = std::max(scratchpad, step.scratchpad.get_size());
    return (moves_ ? core::aligned(filter_.get_size()) : 0) + scratchpad;
  }

  const char* provider() const override { return "onednn"; }

 private:
  /// What oneDNN calls image, filter and result.
  struct Names {
    int image, filter, result;
  };

  static Memory memory(const Description& description, const void* data) {
    return Memory(description, engine(), const_cast<void*>(data));
  }

  void forward(const float* image, const void* filter, float* result, void* scratchpad,
               const Finish* finish) const {
    for (int64_t left = shape_.images; left > 0;) {
      const Step& step = left >= steps_.front().images ? steps_.front() : steps_.back();
      compute(step, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}, image, filter, result,
              scratchpad);
      if (finish != nullptr) finish->pixels(result, step.pixels);
      image += step.images * shape_.image_elements();
      result += step.images * shape_.result_elements();
      left -= step.images;
    }
  }

  void compute(const Step& step, const Names& names, const void* image, const void* filter,
               const void* result, void* scratchpad) const {
    const Memory image_memory = memory(step.operands.image, image);
    const Memory filter_memory = memory(filter_, filter);
    const Memory result_memory = memory(step.operands.result, result);
    const Memory scratchpad_memory = memory(step.scratchpad, scratchpad);
    execute(step.primitive, {{names.image, image_memory.get()},
                             {names.filter, filter_memory.get()},
                             {names.result, result_memory.get()},
                             {DNNL_ARG_SCRATCHPAD, scratchpad_memory.get()}});
  }

  const void* moved_in(const void* filter, void* to, void* scratchpad) const {
    if (!moves_) return filter;
    move(plain_filter_, filter, filter_, to, scratchpad);
    return to;
  }

  void move(const Description& from_layout, const void* from, const Description& to_layout,
            void* to, void* scratchpad) const {
    const Memory source = memory(from_layout, from);
    const Memory target = memory(to_layout, to);
    const Memory scratchpad_memory = memory(move_scratchpad_, scratchpad);
    execute(move_, {{DNNL_ARG_FROM, source.get()},
                    {DNNL_ARG_TO, target.get()},
                    {DNNL_ARG_SCRATCHPAD, scratchpad_memory.get()}});
  }

  const ConvolutionPass pass_;
  const ConvolutionShape shape_;
  const Description plain_filter_, filter_;  // The filter as it is given, and as it is used.
  const std::vector<Step> steps_;
  bool moves_ = false;
  Description move_scratchpad_;
  dnnl::primitive move_;
};

/// Its direct loops, or with AVX-512 batches of products. Its plain loops, and its products with
/// patches, are slower than ours.
template <class PrimitiveDesc>
bool is_fast(const PrimitiveDesc& chosen) {
  const std::string_view made = chosen.impl_info_str();
  return made.starts_with("jit") || made.starts_with("brgconv");
}

/// Forward in blocks of images. The filter's layout is the first block's.
std::unique_ptr<Convolution> prepare_forward(const ConvolutionShape& shape) {
  ConvolutionShape block = shape;
  const int64_t image_bytes = shape.result_elements() * static_cast<int64_t>(sizeof(float));
  block.images = std::clamp<int64_t>(kBlockBytes / image_bytes, 1, shape.images);
  Operands operands(block);
  const Forward::primitive_desc chosen = forward_of(operands);
  if (!is_fast(chosen)) return nullptr;
  const Description plain = operands.filter;
  const Description filter = chosen.weights_desc();
  constexpr Forward* kForward = nullptr;
  std::vector<Step> steps{Step(block, operands, chosen, kForward)};
  if (const int64_t rest = shape.images % block.images; rest > 0) {
    block.images = rest;
    operands = Operands(block);
    operands.best_filter = filter;
    steps.emplace_back(block, operands, forward_of(operands), kForward);
  }
  return std::make_unique<OneDnnConvolution>(ConvolutionPass::forward, shape, plain, filter,
                                             std::move(steps));
}

template <class Primitive>
std::unique_ptr<Convolution> prepare_backward(ConvolutionPass pass, const ConvolutionShape& shape) {
  const Operands o(shape);
  const typename Primitive::primitive_desc chosen(
      {kDirect, o.image, o.best_filter, o.result, o.strides, o.dilations, o.before, o.after},
      user_scratchpad(), engine(), forward_of(o));
  if (!is_fast(chosen)) return nullptr;
  Description filter;
  if constexpr (std::is_same_v<Primitive, BackwardData>) {
    filter = chosen.weights_desc();
  } else {
    filter = chosen.diff_weights_desc();
  }
  std::vector<Step> steps{Step(shape, o, chosen, static_cast<Primitive*>(nullptr))};
  return std::make_unique<OneDnnConvolution>(pass, shape, o.filter, filter, std::move(steps));
}

}  // namespace

std::unique_ptr<Convolution> prepare_onednn_convolution(ConvolutionPass pass,
                                                        const ConvolutionShape& shape) {
  try {
    switch (pass) {
      case ConvolutionPass::forward:
        return prepare_forward(shape);
      case ConvolutionPass::backprop_input:
        return prepare_backward<BackwardData>(pass, shape);
      case ConvolutionPass::backprop_filter:
        return prepare_backward<BackwardWeights>(pass, shape);
    }
  } catch (const dnnl::error&) {
    // It has none for this shape.
  }
  return nullptr;
}

}  // namespace tandem::kernels::cpu

#include <fmt/format.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>

#include "kernels/cpu/convolution.h"
#include "tandem/error.h"

namespace tandem::cpu {
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

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

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

/// The filter is moved into the layout that the fast kernels want before each run, or its gradient
/// out of it after: filters are small next to the work that they cause.
class OneDnnConvolution final : public Convolution {
 public:
  template <class PrimitiveDesc, class Primitive>
  OneDnnConvolution(ConvolutionPass pass, const Operands& operands, const PrimitiveDesc& chosen,
                    const Description& filter, Primitive*)
      : pass_(pass),
        operands_(operands),
        filter_(filter),
        scratchpad_(chosen.scratchpad_desc()),
        primitive_(Primitive(chosen)) {
    if (filter_ == operands.filter) return;
    const bool gradient = pass == ConvolutionPass::backprop_filter;
    const dnnl::reorder::primitive_desc move(engine(), gradient ? filter_ : operands.filter,
                                             engine(), gradient ? operands.filter : filter_,
                                             user_scratchpad());
    move_scratchpad_ = move.scratchpad_desc();
    move_ = dnnl::reorder(move);
    moves_ = true;
  }

  void run(const void* first, const void* second, void* out, void* workspace) const override {
    char* own_filter = static_cast<char*>(workspace);
    char* scratchpad = own_filter + (moves_ ? aligned(filter_.get_size()) : 0);
    switch (pass_) {
      case ConvolutionPass::forward:
        return compute({DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}, first,
                       moved_in(second, own_filter, scratchpad), out, scratchpad);
      case ConvolutionPass::backprop_input:
        return compute({DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST}, out,
                       moved_in(first, own_filter, scratchpad), second, scratchpad);
      case ConvolutionPass::backprop_filter:
        compute({DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}, first,
                moves_ ? own_filter : out, second, scratchpad);
        if (moves_) move(filter_, own_filter, operands_.filter, out, scratchpad);
    }
  }

  size_t workspace_bytes() const override {
    const size_t moving = moves_ ? aligned(filter_.get_size()) : 0;
    return moving + std::max(scratchpad_.get_size(), moves_ ? move_scratchpad_.get_size() : 0);
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

  void compute(const Names& names, const void* image, const void* filter, const void* result,
               void* scratchpad) const {
    const Memory image_memory = memory(operands_.image, image);
    const Memory filter_memory = memory(filter_, filter);
    const Memory result_memory = memory(operands_.result, result);
    const Memory scratchpad_memory = memory(scratchpad_, scratchpad);
    execute(primitive_, {{names.image, image_memory.get()},
                         {names.filter, filter_memory.get()},
                         {names.result, result_memory.get()},
                         {DNNL_ARG_SCRATCHPAD, scratchpad_memory.get()}});
  }

  const void* moved_in(const void* filter, void* to, void* scratchpad) const {
    if (!moves_) return filter;
    move(operands_.filter, filter, filter_, to, scratchpad);
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
  const Operands operands_;
  const Description filter_;
  const Description scratchpad_;
  const dnnl::primitive primitive_;
  bool moves_ = false;
  Description move_scratchpad_;
  dnnl::primitive move_;
};

/// oneDNN's plain loops, and its products with patches, are slower than ours.
template <class PrimitiveDesc>
bool is_fast(const PrimitiveDesc& chosen) {
  return std::string_view(chosen.impl_info_str()).starts_with("jit");
}

}  // namespace

std::unique_ptr<Convolution> prepare_onednn_convolution(ConvolutionPass pass,
                                                        const ConvolutionShape& shape) {
  const Operands o(shape);
  const auto make = [&](const auto& chosen, const Description& filter,
                        auto* primitive) -> std::unique_ptr<Convolution> {
    if (!is_fast(chosen)) return nullptr;
    return std::make_unique<OneDnnConvolution>(pass, o, chosen, filter, primitive);
  };
  try {
    const Forward::primitive_desc forward = forward_of(o);
    switch (pass) {
      case ConvolutionPass::forward:
        return make(forward, forward.weights_desc(), static_cast<Forward*>(nullptr));
      case ConvolutionPass::backprop_input: {
        const BackwardData::primitive_desc backward(
            {kDirect, o.image, o.best_filter, o.result, o.strides, o.dilations, o.before, o.after},
            user_scratchpad(), engine(), forward);
        return make(backward, backward.weights_desc(), static_cast<BackwardData*>(nullptr));
      }
      case ConvolutionPass::backprop_filter: {
        const BackwardWeights::primitive_desc backward(
            {kDirect, o.image, o.best_filter, o.result, o.strides, o.dilations, o.before, o.after},
            user_scratchpad(), engine(), forward);
        return make(backward, backward.diff_weights_desc(), static_cast<BackwardWeights*>(nullptr));
      }
    }
  } catch (const dnnl::error&) {
    // It has none for this shape.
  }
  return nullptr;
}

}  // namespace tandem::cpu

// This file is compiled once per instruction set; the best one is chosen when a kernel is prepared.
#include "kernels/cpu/attention.h"

#include "op/registry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets what they expand to.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "kernels/cpu/attention_backward.h"
#include "kernels/cpu/attention_forward.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels::cpu::HWY_NAMESPACE {
namespace {

template <class T>
constexpr AttentionFns<T> kAttention{forward<T>, backward<T>, forward_workspace<T>,
                                     backward_workspace<T>};

AttentionFns<float> attention_float32() { return kAttention<float>; }
AttentionFns<double> attention_float64() { return kAttention<double>; }

}  // namespace
}  // namespace tandem::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <memory>

#include "kernels/cpu/nest.h"

namespace tandem::kernels::cpu {
namespace {

HWY_EXPORT(attention_float32);
HWY_EXPORT(attention_float64);

AttentionFns<float> best(float) { return HWY_DYNAMIC_DISPATCH(attention_float32)(); }
AttentionFns<double> best(double) { return HWY_DYNAMIC_DISPATCH(attention_float64)(); }

using op::Launch;
using op::Signature;

/// Where an operand [batch, tokens, heads, width] has the tokens of a head.
class Operand {
 public:
  explicit Operand(const Shape& shape)
      : tokens_(shape[1]), heads_(shape[2]), width_(shape.rank() == 4 ? shape[3] : 1) {}

  template <class T>
  Rows<T> rows(T* data, int64_t batch, int64_t head) const {
    const int64_t step = heads_ * width_;
    return {data + batch * tokens_ * step + head * width_, step};
  }

 private:
  int64_t tokens_, heads_, width_;
};

/// The mask, which may be the input after `operands` others, for each batch entry and head.
class Mask {
 public:
  Mask(const Signature& s, size_t operands, AttentionShape& shape) {
    if (s.inputs.size() == operands) return;
    const op::TensorType& mask = s.inputs.back();
    const Shape all{shape.batch, shape.heads, shape.queries, shape.keys};
    const auto step = [&](int axis) { return broadcast_stride(mask.shape, all, axis); };
    shape.mask = mask.dtype == DType::boolean ? MaskKind::boolean : MaskKind::additive;
    shape.mask_query_step = step(2);
    shape.mask_key_step = step(3);
    input_ = static_cast<int>(operands);
    batch_bytes_ = step(0) * static_cast<int64_t>(size_of(mask.dtype));
    head_bytes_ = step(1) * static_cast<int64_t>(size_of(mask.dtype));
  }

  const void* of(const Launch& launch, int64_t batch, int64_t head) const {
    if (input_ < 0) return nullptr;
    return launch.in<char>(input_) + batch * batch_bytes_ + head * head_bytes_;
  }

 private:
  int input_ = -1;
  int64_t batch_bytes_ = 0, head_bytes_ = 0;
};

AttentionShape shape_of(const Signature& s, size_t query) {
  const Shape& q = s.inputs[query].shape;
  const Shape& v = s.inputs[query + 2].shape;
  return {.batch = q[0],
          .heads = q[2],
          .queries = q[1],
          .keys = v[1],
          .width = q[3],
          .value_width = v[3],
          .causal = s.attrs.get<bool>("causal"),
          .scale = s.attrs.get<double>("scale")};
}

/// Threads take whole batch entries if those can be dealt evenly. Otherwise they deal what there is
/// of heads; since they then touch what others wrote before and read afterwards, they meet first (a
/// phase in which nothing is done) and, as always with phases, at the end.
class Dealt : public op::Executable {
 public:
  Dealt(int64_t batch, int parts) : even_(batch % parts == 0) {}

  int phases() const override { return even_ ? 1 : 2; }
  void run(const Launch& launch) const final {
    if (launch.phase + 1 == phases()) compute(launch);
  }

 private:
  virtual void compute(const Launch& launch) const = 0;

  const bool even_;
};

template <class T>
class Attention final : public Dealt {
 public:
  Attention(const Signature& s, int parts)
      : Dealt(s.inputs[0].shape[0], parts),
        shape_(shape_of(s, 0)),
        mask_(s, 3, shape_),
        query_(s.inputs[0].shape),
        key_(s.inputs[1].shape),
        value_(s.inputs[2].shape),
        result_(s.outputs[0].shape),
        logarithms_(s.outputs[1].shape) {}

  size_t workspace_bytes() const override {
    return static_cast<size_t>(fns_.forward_workspace(shape_)) * sizeof(T);
  }

 private:
  void compute(const Launch& launch) const override {
    const int64_t blocks = query_blocks(shape_);
    const auto [begin, end] = op::part_of(shape_.pairs() * blocks, launch);
    for (int64_t at = begin; at < end;) {
      const int64_t first = at % blocks;
      const int64_t last = std::min(blocks, first + end - at);
      fns_.forward(shape_, head(launch, at / blocks), first, last, launch.workspace<T>());
      at += last - first;
    }
  }

  AttentionHead<T> head(const Launch& launch, int64_t pair) const {
    const int64_t batch = pair / shape_.heads;
    const int64_t head = pair % shape_.heads;
    return {query_.rows(launch.in<T>(0), batch, head),
            key_.rows(launch.in<T>(1), batch, head),
            value_.rows(launch.in<T>(2), batch, head),
            mask_.of(launch, batch, head),
            result_.rows(launch.out<T>(0), batch, head),
            logarithms_.rows(launch.out<T>(1), batch, head)};
  }

  AttentionShape shape_;
  const Mask mask_;
  const Operand query_, key_, value_, result_, logarithms_;
  const AttentionFns<T> fns_ = best(T());
};

template <class T>
class AttentionGrad final : public Dealt {
 public:
  AttentionGrad(const Signature& s, int parts)
      : Dealt(s.inputs[0].shape[0], parts),
        shape_(shape_of(s, 1)),
        mask_(s, 6, shape_),
        result_(s.inputs[0].shape),
        query_(s.inputs[1].shape),
        key_(s.inputs[2].shape),
        value_(s.inputs[3].shape),
        logarithms_(s.inputs[5].shape) {}

  size_t workspace_bytes() const override {
    return static_cast<size_t>(fns_.backward_workspace(shape_)) * sizeof(T);
  }

 private:
  void compute(const Launch& launch) const override {
    const auto [begin, end] = op::part_of(shape_.pairs(), launch);
    for (int64_t pair = begin; pair < end; ++pair) {
      fns_.backward(shape_, head(launch, pair), launch.workspace<T>());
    }
  }

  AttentionGradHead<T> head(const Launch& launch, int64_t pair) const {
    const int64_t batch = pair / shape_.heads;
    const int64_t head = pair % shape_.heads;
    return {result_.rows(launch.in<T>(0), batch, head),
            query_.rows(launch.in<T>(1), batch, head),
            key_.rows(launch.in<T>(2), batch, head),
            value_.rows(launch.in<T>(3), batch, head),
            result_.rows(launch.in<T>(4), batch, head),
            logarithms_.rows(launch.in<T>(5), batch, head),
            mask_.of(launch, batch, head),
            query_.rows(launch.out<T>(0), batch, head),
            key_.rows(launch.out<T>(1), batch, head),
            value_.rows(launch.out<T>(2), batch, head)};
  }

  AttentionShape shape_;
  const Mask mask_;
  const Operand result_, query_, key_, value_, logarithms_;
  const AttentionFns<T> fns_ = best(T());
};

template <template <class> class E, class T>
op::ExecutablePtr prepare(const Signature& s, int parts) {
  return std::make_shared<E<T>>(s, parts);
}

}  // namespace

void register_attention(op::Registry& registry) {
  registry.add_kernel("attention", "cpu", {DType::float32}, prepare<Attention, float>);
  registry.add_kernel("attention", "cpu", {DType::float64}, prepare<Attention, double>);
  registry.add_kernel("attention_grad", "cpu", {DType::float32}, prepare<AttentionGrad, float>);
  registry.add_kernel("attention_grad", "cpu", {DType::float64}, prepare<AttentionGrad, double>);
}

}  // namespace tandem::kernels::cpu
#endif

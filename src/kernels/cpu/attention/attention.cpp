// Attention and its gradient: here the operands, the mask and how the work is dealt to threads;
// what a thread does for one head is in attention_forward.h and attention_backward.h.
//
// This file is compiled once per instruction set; the best one is chosen when a kernel is prepared.
#include "kernels/cpu/attention/attention_rows.h"
#include "op/registry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention/attention.cpp"
#include <hwy/foreach_target.h>
// These come after foreach_target.h, which sets what they expand to.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "kernels/cpu/attention/attention_backward.h"
#include "kernels/cpu/attention/attention_forward.h"

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
#include <algorithm>
#include <memory>
#include <string>

namespace tandem::kernels::cpu {
namespace {

HWY_EXPORT(attention_float32);
HWY_EXPORT(attention_float64);

AttentionFns<float> best(float) { return HWY_DYNAMIC_DISPATCH(attention_float32)(); }
AttentionFns<double> best(double) { return HWY_DYNAMIC_DISPATCH(attention_float64)(); }

using op::Launch;
using op::Signature;

template <class T>
Rows<const T> rows_in(const Launch& launch, const AttentionOperand& operand, int64_t batch,
                      int64_t head) {
  return {launch.in<T>(operand.index) + operand.offset(batch, head), operand.step};
}

template <class T>
Rows<T> rows_out(const Launch& launch, const AttentionOperand& operand, int64_t batch,
                 int64_t head) {
  return {launch.out<T>(operand.index) + operand.offset(batch, head), operand.step};
}

const void* mask_of(const Launch& launch, const AttentionMask& mask, int64_t batch, int64_t head) {
  return mask.index < 0 ? nullptr : launch.in<char>(mask.index) + mask.offset(batch, head);
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
        shape_(AttentionShape::of(s, 0)),
        mask_(s, shape_),
        operands_(0, s.inputs),
        result_(0, s.outputs[0].shape),
        logarithms_(1, s.outputs[1].shape) {}

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
    return {.query = rows_in<T>(launch, operands_.query, batch, head),
            .key = rows_in<T>(launch, operands_.key, batch, head),
            .value = rows_in<T>(launch, operands_.value, batch, head),
            .mask = mask_of(launch, mask_, batch, head),
            .result = rows_out<T>(launch, result_, batch, head),
            .logarithms = rows_out<T>(launch, logarithms_, batch, head)};
  }

  AttentionShape shape_;
  const AttentionMask mask_;
  const AttentionOperands operands_;
  const AttentionOperand result_, logarithms_;
  const AttentionFns<T> fns_ = best(T());
};

template <class T>
class AttentionGrad final : public Dealt {
 public:
  AttentionGrad(const Signature& s, int parts)
      : Dealt(s.inputs[0].shape[0], parts),
        shape_(AttentionShape::of(s, 1)),
        mask_(s, shape_),
        operands_(1, s.inputs),
        gradients_(0, s.outputs),
        gradient_(0, s.inputs[0].shape),
        result_(operands_.count + 1, s.inputs[0].shape),
        logarithms_(operands_.count + 2, s.inputs[0].shape.without(3)) {}

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
    return {.gradient = rows_in<T>(launch, gradient_, batch, head),
            .query = rows_in<T>(launch, operands_.query, batch, head),
            .key = rows_in<T>(launch, operands_.key, batch, head),
            .value = rows_in<T>(launch, operands_.value, batch, head),
            .result = rows_in<T>(launch, result_, batch, head),
            .logarithms = rows_in<T>(launch, logarithms_, batch, head),
            .mask = mask_of(launch, mask_, batch, head),
            .to_query = rows_out<T>(launch, gradients_.query, batch, head),
            .to_key = rows_out<T>(launch, gradients_.key, batch, head),
            .to_value = rows_out<T>(launch, gradients_.value, batch, head)};
  }

  AttentionShape shape_;
  const AttentionMask mask_;
  const AttentionOperands operands_, gradients_;
  const AttentionOperand gradient_, result_, logarithms_;
  const AttentionFns<T> fns_ = best(T());
};

template <template <class> class E, class T>
op::ExecutablePtr prepare(const Signature& s, int parts) {
  return std::make_shared<E<T>>(s, parts);
}

}  // namespace

void register_attention(op::BackendKernels& kernels) {
  for (const std::string name : {"attention", "self_attention"}) {
    kernels.add(name, {DType::float32}, prepare<Attention, float>);
    kernels.add(name, {DType::float64}, prepare<Attention, double>);
    kernels.add(name + "_grad", {DType::float32}, prepare<AttentionGrad, float>);
    kernels.add(name + "_grad", {DType::float64}, prepare<AttentionGrad, double>);
  }
}

}  // namespace tandem::kernels::cpu
#endif

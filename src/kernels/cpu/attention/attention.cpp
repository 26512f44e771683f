// Attention and its gradient: here the operands, the mask and how the work is dealt to threads;
// what a thread does for one head is in attention_forward.h and attention_backward.h.
//
// This file is compiled once per instruction set; the best one is chosen when a kernel is prepared.
#include "kernels/cpu/attention/attention_shape.h"
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

#include "kernels/cpu/nest.h"

namespace tandem::kernels::cpu {
namespace {

HWY_EXPORT(attention_float32);
HWY_EXPORT(attention_float64);

AttentionFns<float> best(float) { return HWY_DYNAMIC_DISPATCH(attention_float32)(); }
AttentionFns<double> best(double) { return HWY_DYNAMIC_DISPATCH(attention_float64)(); }

using op::Launch;
using op::Signature;

/// Says where an operand [batch, tokens, heads, width] has the tokens of a head; or one of query,
/// key and value that lie together [batch, tokens, 3, heads, width]; or a value for each token and
/// head [batch, tokens, heads].
class Operand {
 public:
  Operand(int index, const Shape& shape, int part = 0) : index_(index) {
    const bool together = shape.rank() == 5;
    const int64_t heads = shape[together ? 3 : 2];
    width_ = shape.rank() == 3 ? 1 : shape.extent(shape.rank() - 1);
    step_ = (together ? 3 : 1) * heads * width_;
    batch_step_ = shape[1] * step_;
    start_ = together ? part * heads * width_ : 0;
  }

  template <class T>
  Rows<const T> in(const Launch& launch, int64_t batch, int64_t head) const {
    return {launch.in<T>(index_) + offset(batch, head), step_};
  }
  template <class T>
  Rows<T> out(const Launch& launch, int64_t batch, int64_t head) const {
    return {launch.out<T>(index_) + offset(batch, head), step_};
  }

 private:
  int64_t offset(int64_t batch, int64_t head) const {
    return start_ + batch * batch_step_ + head * width_;
  }

  int index_;
  int64_t width_, step_, batch_step_, start_;
};

/// Query, key and value: operands from `first` on, or all in that one.
struct Operands {
  Operands(int first, const op::TensorTypes& types)
      : count(types[static_cast<size_t>(first)].shape.rank() == 5 ? 1 : 3),
        query(operand(first, types, 0)),
        key(operand(first, types, 1)),
        value(operand(first, types, 2)) {}

  int count;
  Operand query, key, value;

 private:
  Operand operand(int first, const op::TensorTypes& types, int part) const {
    const int index = count == 1 ? first : first + part;
    return {index, types[static_cast<size_t>(index)].shape, part};
  }
};

/// The sizes of a call with query, key and value from input `first` on.
AttentionShape shape_of(const Signature& s, size_t first) {
  const Shape& query = s.inputs[first].shape;
  const Shape& value = s.inputs[query.rank() == 5 ? first : first + 2].shape;
  return {.batch = query[0],
          .heads = query[query.rank() - 2],
          .queries = query[1],
          .keys = value[1],
          .width = query[query.rank() - 1],
          .value_width = value[value.rank() - 1],
          .causal = s.attrs.get<bool>("causal"),
          .scale = s.attrs.get<double>("scale")};
}

/// The mask, the last input if there is one, for each batch entry and head.
class Mask {
 public:
  Mask(const Signature& s, AttentionShape& shape) {
    if (!s.attrs.get<bool>("masked")) return;
    const op::TensorType& mask = s.inputs.back();
    const Shape all{shape.batch, shape.heads, shape.queries, shape.keys};
    const auto step = [&](int axis) { return broadcast_stride(mask.shape, all, axis); };
    shape.mask = mask.dtype == DType::boolean ? MaskKind::boolean : MaskKind::additive;
    shape.mask_query_step = step(2);
    shape.mask_key_step = step(3);
    input_ = static_cast<int>(s.inputs.size()) - 1;
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
    return {.query = operands_.query.in<T>(launch, batch, head),
            .key = operands_.key.in<T>(launch, batch, head),
            .value = operands_.value.in<T>(launch, batch, head),
            .mask = mask_.of(launch, batch, head),
            .result = result_.out<T>(launch, batch, head),
            .logarithms = logarithms_.out<T>(launch, batch, head)};
  }

  AttentionShape shape_;
  const Mask mask_;
  const Operands operands_;
  const Operand result_, logarithms_;
  const AttentionFns<T> fns_ = best(T());
};

template <class T>
class AttentionGrad final : public Dealt {
 public:
  AttentionGrad(const Signature& s, int parts)
      : Dealt(s.inputs[0].shape[0], parts),
        shape_(shape_of(s, 1)),
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
    return {.gradient = gradient_.in<T>(launch, batch, head),
            .query = operands_.query.in<T>(launch, batch, head),
            .key = operands_.key.in<T>(launch, batch, head),
            .value = operands_.value.in<T>(launch, batch, head),
            .result = result_.in<T>(launch, batch, head),
            .logarithms = logarithms_.in<T>(launch, batch, head),
            .mask = mask_.of(launch, batch, head),
            .to_query = gradients_.query.out<T>(launch, batch, head),
            .to_key = gradients_.key.out<T>(launch, batch, head),
            .to_value = gradients_.value.out<T>(launch, batch, head)};
  }

  AttentionShape shape_;
  const Mask mask_;
  const Operands operands_, gradients_;
  const Operand gradient_, result_, logarithms_;
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

// Evaluates an expression block by block, so that what one call gives the next is still in the
// innermost cache.
#include <algorithm>
#include <array>
#include <cassert>
#include <vector>

#include "kernels/cpu/elementwise/pointwise.h"
#include "kernels/nest.h"
#include "kernels/part.h"
#include "op/expression.h"
#include "op/registry.h"

namespace tandem::kernels::cpu {
namespace {

using op::Expression;
using op::Launch;
using op::Signature;

constexpr int64_t kBlockBytes = 4096;

/// How an input meets the elements of a block.
struct Input {
  enum class Kind {
    goes_on,   ///< The input is as large as the result.
    stays,     ///< One element.
    periodic,  ///< A run that is repeated.
    nested,    ///< The input is repeated in some other way.
  };
  Kind kind = Kind::goes_on;
  int64_t period = 0;
  int expansion = -1;  // Which block of the workspace it is repeated into, if it is.
  Nest<1> outer;
  Axis<1> inner;

  Input(const Shape& shape, const Shape& result) {
    if (shape.count() == result.count()) return;
    for (int axis = 0; axis < result.rank(); ++axis) {
      outer.add({result[axis], {broadcast_stride(shape, result, axis)}});
    }
    inner = outer.take_inner();
    if (shape.count() == 1) {
      kind = Kind::stays;
    } else if (outer.rank() == 1 && outer[0].strides[0] == 0 && inner.strides[0] == 1) {
      kind = Kind::periodic;
      period = inner.size;
    } else {
      kind = Kind::nested;
    }
  }

  /// As many whole periods as fit into `count` elements, and the beginning of another.
  template <class T>
  void repeat(const T* x, T* to, int64_t count) const {
    std::copy_n(x, std::min(period, count), to);
    for (int64_t done = period; done < count; done *= 2) {
      std::copy_n(to, std::min(done, count - done), to + done);
    }
  }

  /// Elements [begin, end) of the input repeated to the result's shape.
  template <class T>
  void expand(const T* x, T* to, int64_t begin, int64_t end) const {
    for_each_run(outer, inner.size, begin, end,
                 [&](const Position<1>& at, int64_t first, int64_t count, int64_t index) {
                   const T* from = x + at.offset();
                   if (inner.strides[0] == 0) {
                     std::fill_n(to + (index - begin), count, *from);
                   } else {
                     std::copy_n(from + first, count, to + (index - begin));
                   }
                 });
  }
};

template <class T>
class Fused final : public op::Executable {
 public:
  explicit Fused(const Signature& s)
      : expression_(s.attrs.get<op::ExpressionPtr>("expression")),
        split_(s.outputs[0].shape),
        block_(kBlockBytes / static_cast<int64_t>(sizeof(T))) {
    for (const op::TensorType& input : s.inputs) {
      inputs_.emplace_back(input.shape, s.outputs[0].shape);
    }
    align_blocks();
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!is_expanded(inputs_[i])) continue;
      inputs_[i].expansion = static_cast<int>(expanded_.size());
      expanded_.push_back(static_cast<int>(i));
    }
    assign_places();
  }

  size_t workspace_bytes() const override {
    return static_cast<size_t>(block_) * sizeof(T) *
           (expanded_.size() + static_cast<size_t>(temporaries_));
  }

  void run(const Launch& launch) const override {
    const auto [begin, end] = split_.part(launch);
    T* expansions = launch.workspace<T>();
    T* temporaries = expansions + block_ * static_cast<int64_t>(expanded_.size());
    bool fresh = true;
    for (int64_t at = begin; at < end;) {
      const int64_t count = block_at(at, end);
      for (size_t e = 0; e < expanded_.size(); ++e) {
        const Input& input = inputs_[static_cast<size_t>(expanded_[e])];
        const T* x = launch.in<T>(expanded_[e]);
        T* to = expansions + static_cast<int64_t>(e) * block_;
        if (input.kind == Input::Kind::nested) {
          input.expand(x, to, at, at + count);
        } else if (fresh) {  // It lies the same in every block.
          input.repeat(x, to, count);
        }
      }
      fresh = false;
      evaluate(launch, expansions, temporaries, at, count);
      at += count;
    }
  }

 private:
  struct FusedCall {
    RunFn<T> run;
    int arity;
    std::array<int, 2> operands;
    Parameters parameters;
    int temporary = -1;  // Where the result goes; -1: straight to `output`.
    int output = -1;     // The op's output that it is, if any.
  };

  /// Blocks hold whole periods, or lie within one.
  void align_blocks() {
    bool uniform = true;
    for (const Input& input : inputs_) {
      if (input.kind != Input::Kind::periodic) continue;
      if (period_ == 0) period_ = input.period;
      if (period_ != input.period) uniform = false;
    }
    if (!uniform) {  // Treat them like any other.
      for (Input& input : inputs_) {
        if (input.kind == Input::Kind::periodic) input.kind = Input::Kind::nested;
      }
      period_ = 0;
    }
    if (period_ > 0 && period_ <= block_) block_ = block_ / period_ * period_;
  }

  bool is_expanded(const Input& input) const {
    return input.kind == Input::Kind::nested ||
           (input.kind == Input::Kind::periodic && period_ <= block_);
  }

  int64_t block_at(int64_t at, int64_t end) const {
    int64_t count = std::min(block_, end - at);
    if (period_ > block_) count = std::min(count, period_ - at % period_);
    return count;
  }

  /// Looks the functions up and finds each result a place, using again those that are read for the
  /// last time. The last call writes its output straight away; outputs before it wait in a
  /// temporary, because the op's outputs may lie where its inputs lie.
  void assign_places() {
    const auto& calls = expression_->calls;
    std::vector<int> last_use(calls.size(), -1);
    for (size_t i = 0; i < calls.size(); ++i) {
      for (int operand : calls[i].operands) {
        if (operand >= expression_->inputs) {
          last_use[static_cast<size_t>(operand - expression_->inputs)] = static_cast<int>(i);
        }
      }
    }
    for (int output : expression_->outputs) {
      last_use[static_cast<size_t>(output)] = static_cast<int>(calls.size());
    }
    std::vector<int> free;
    for (size_t i = 0; i < calls.size(); ++i) {
      const Pointwise<T>* function = find_pointwise<T>(calls[i].op->name);
      assert(function != nullptr);
      FusedCall call{};
      call.arity = function->inputs;
      unsigned going_on = 0;
      for (int k = 0; k < call.arity; ++k) {
        const int operand = calls[i].operands[static_cast<size_t>(k)];
        call.operands[static_cast<size_t>(k)] = operand;
        const bool stays = operand < expression_->inputs &&
                           inputs_[static_cast<size_t>(operand)].kind == Input::Kind::stays;
        if (!stays) going_on |= 1u << k;
      }
      call.run = function->runs[going_on];
      call.parameters = function->parameters(calls[i].attrs);
      const auto output = std::ranges::find(expression_->outputs, static_cast<int>(i));
      if (output != expression_->outputs.end()) {
        call.output = static_cast<int>(output - expression_->outputs.begin());
      }
      // Run functions may write what they read, so operands read for the last time make room.
      for (int operand : calls[i].operands) {
        const int from = operand - expression_->inputs;
        if (from < 0 || last_use[static_cast<size_t>(from)] != static_cast<int>(i)) continue;
        const int place = calls_[static_cast<size_t>(from)].temporary;
        if (std::ranges::find(free, place) == free.end()) free.push_back(place);
      }
      const bool straight = call.output >= 0 && i + 1 == calls.size();
      if (!straight) {
        if (free.empty()) free.push_back(temporaries_++);
        call.temporary = free.back();
        free.pop_back();
      }
      calls_.push_back(call);
    }
  }

  void evaluate(const Launch& launch, const T* expansions, T* temporaries, int64_t at,
                int64_t count) const {
    for (const FusedCall& call : calls_) {
      std::array<const T*, 2> operands{};
      for (int k = 0; k < call.arity; ++k) {
        operands[static_cast<size_t>(k)] =
            address(launch, expansions, temporaries, call.operands[static_cast<size_t>(k)], at);
      }
      T* to = call.temporary < 0 ? launch.out<T>(call.output) + at
                                 : temporaries + call.temporary * block_;
      call.run(operands.data(), to, count, call.parameters.data());
    }
    for (const FusedCall& call : calls_) {
      if (call.output < 0 || call.temporary < 0) continue;
      std::copy_n(temporaries + call.temporary * block_, count, launch.out<T>(call.output) + at);
    }
  }

  const T* address(const Launch& launch, const T* expansions, const T* temporaries, int operand,
                   int64_t at) const {
    if (operand >= expression_->inputs) {
      return temporaries +
             calls_[static_cast<size_t>(operand - expression_->inputs)].temporary * block_;
    }
    const Input& input = inputs_[static_cast<size_t>(operand)];
    if (input.expansion >= 0) return expansions + input.expansion * block_;
    const T* x = launch.in<T>(operand);
    if (input.kind == Input::Kind::stays) return x;
    return input.kind == Input::Kind::periodic ? x + at % period_ : x + at;
  }

  const std::shared_ptr<const Expression> expression_;
  const RowSplit split_;
  int64_t block_;
  int64_t period_ = 0;
  std::vector<Input> inputs_;
  std::vector<int> expanded_;  // Inputs that are repeated into the workspace.
  std::vector<FusedCall> calls_;
  int temporaries_ = 0;
};

template <class T>
op::ExecutablePtr prepare_fused(const Signature& s, int) {
  return std::make_shared<Fused<T>>(s);
}

}  // namespace

void register_fused(op::BackendKernels& kernels) {
  kernels.add("fused", {DType::float32}, prepare_fused<float>);
  kernels.add("fused", {DType::float64}, prepare_fused<double>);
}

}  // namespace tandem::kernels::cpu

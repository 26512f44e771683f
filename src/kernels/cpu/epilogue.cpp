#include "kernels/cpu/epilogue.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <span>
#include <vector>

#include "kernels/cpu/pointwise.h"
#include "op/expression.h"

namespace tandem::kernels::cpu {
namespace {

using Steps = std::span<const op::Expression::Step>;

/// Elements that stay in the innermost cache from one function to the next.
template <class T>
constexpr int64_t kBlock = 4096 / sizeof(T);

template <class T>
class StepFunctions final : public ElementFunctions {
 public:
  explicit StepFunctions(Steps steps) {
    for (const op::Expression::Step& step : steps) {
      const Pointwise<T>* function = find_pointwise<T>(step.op->name);
      assert(function != nullptr);
      const unsigned all_go_on = (1u << function->inputs) - 1;
      // The operands of a sum with the bias may stand either way round; the others have one.
      functions_.push_back({function->runs[all_go_on], function->parameters(step.attrs)});
    }
  }

  void apply(void* elements, int64_t count) const override {
    T* const at = static_cast<T*>(elements);
    for (int64_t done = 0; done < count; done += kBlock<T>) {
      apply(at + done, nullptr, std::min(kBlock<T>, count - done));
    }
  }

  /// With the elements' bias, for who has one. A block at a time is fastest.
  void apply(T* at, const T* bias, int64_t count) const {
    const std::array<const T*, 2> operands{at, bias};
    for (const Function& function : functions_) {
      function.run(operands.data(), at, count, function.parameters.data());
    }
  }

 private:
  struct Function {
    RunFn<T> run;
    Parameters parameters;
  };

  std::vector<Function> functions_;
};

/// Goes through blocks of whole rows, with the bias repeated to the length of one.
template <class T>
class PointwiseEpilogue final : public Epilogue {
 public:
  PointwiseEpilogue(Steps steps, bool has_bias, int64_t columns)
      : functions_(steps),
        columns_(columns),
        has_bias_(has_bias),
        block_rows_(std::max<int64_t>(1, kBlock<T> / std::max<int64_t>(1, columns))) {}

  void open(const void* bias, void* workspace) const override {
    if (!has_bias_) return;
    T* to = static_cast<T*>(workspace);
    for (int64_t row = 0; row < block_rows_; ++row) {
      std::copy_n(static_cast<const T*>(bias), columns_, to + row * columns_);
    }
  }

  void apply(void* rows, int64_t count, const void* workspace) const override {
    for (T* at = static_cast<T*>(rows); count > 0; count -= block_rows_) {
      const int64_t elements = std::min(count, block_rows_) * columns_;
      functions_.apply(at, static_cast<const T*>(workspace), elements);
      at += elements;
    }
  }

  size_t workspace_bytes() const override {
    return has_bias_ ? static_cast<size_t>(block_rows_ * columns_) * sizeof(T) : 0;
  }

 private:
  const StepFunctions<T> functions_;
  const int64_t columns_;
  const bool has_bias_;
  const int64_t block_rows_;
};

const op::Expression& expression_of(const op::Signature& signature) {
  return *signature.attrs.get<op::ExpressionPtr>("epilogue");
}

}  // namespace

std::unique_ptr<Epilogue> prepare_epilogue(const op::Signature& signature) {
  const op::Expression& expression = expression_of(signature);
  const auto& [dtype, shape] = signature.outputs[0];
  const bool has_bias = expression.inputs == 2;
  const int64_t columns = shape[shape.rank() - 1];
  if (dtype == DType::float32) {
    return std::make_unique<PointwiseEpilogue<float>>(expression.steps, has_bias, columns);
  }
  return std::make_unique<PointwiseEpilogue<double>>(expression.steps, has_bias, columns);
}

std::unique_ptr<ElementFunctions> prepare_epilogue_after_bias(const op::Signature& signature) {
  const op::Expression& expression = expression_of(signature);
  const Steps rest = Steps(expression.steps).subspan(expression.inputs == 2 ? 1 : 0);
  if (rest.empty()) return nullptr;
  if (signature.outputs[0].dtype == DType::float32)
    return std::make_unique<StepFunctions<float>>(rest);
  return std::make_unique<StepFunctions<double>>(rest);
}

}  // namespace tandem::kernels::cpu

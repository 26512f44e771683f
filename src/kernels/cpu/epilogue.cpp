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

constexpr int64_t kBlockBytes = 4096;

/// Goes through blocks of whole rows that stay in the innermost cache, with the bias repeated to
/// the length of one.
template <class T>
class PointwiseEpilogue final : public Epilogue {
 public:
  PointwiseEpilogue(std::span<const op::Expression::Step> steps, bool has_bias, int64_t columns)
      : columns_(columns), has_bias_(has_bias) {
    const int64_t fitting = kBlockBytes / static_cast<int64_t>(sizeof(T));
    block_rows_ = std::max<int64_t>(1, fitting / std::max<int64_t>(1, columns));
    for (const op::Expression::Step& step : steps) {
      const Pointwise<T>* function = find_pointwise<T>(step.op->name);
      assert(function != nullptr);
      const unsigned all_go_on = (1u << function->inputs) - 1;
      // The operands of a sum with the bias may stand either way round; the other steps have one.
      steps_.push_back({function->runs[all_go_on], function->parameters(step.attrs)});
    }
  }

  void open(const void* bias, void* workspace) const override {
    if (!has_bias_) return;
    T* to = static_cast<T*>(workspace);
    for (int64_t row = 0; row < block_rows_; ++row) {
      std::copy_n(static_cast<const T*>(bias), columns_, to + row * columns_);
    }
  }

  void apply(void* rows, int64_t count, const void* workspace) const override {
    T* at = static_cast<T*>(rows);
    while (count > 0) {
      const int64_t now = std::min(count, block_rows_);
      for (const Step& step : steps_) {
        const std::array<const T*, 2> operands{at, static_cast<const T*>(workspace)};
        step.run(operands.data(), at, now * columns_, step.parameters.data());
      }
      at += now * columns_;
      count -= now;
    }
  }

  size_t workspace_bytes() const override {
    return has_bias_ ? static_cast<size_t>(block_rows_ * columns_) * sizeof(T) : 0;
  }

 private:
  struct Step {
    RunFn<T> run;
    Parameters parameters;
  };

  const int64_t columns_;
  const bool has_bias_;
  int64_t block_rows_;
  std::vector<Step> steps_;
};

using Steps = std::span<const op::Expression::Step>;

const op::Expression& expression_of(const op::Signature& signature) {
  return *signature.attrs.get<op::ExpressionPtr>("epilogue");
}

std::unique_ptr<Epilogue> prepare(const op::Signature& signature, Steps steps, bool has_bias) {
  const auto& [dtype, shape] = signature.outputs[0];
  const int64_t columns = shape[shape.rank() - 1];
  if (dtype == DType::float32) {
    return std::make_unique<PointwiseEpilogue<float>>(steps, has_bias, columns);
  }
  return std::make_unique<PointwiseEpilogue<double>>(steps, has_bias, columns);
}

}  // namespace

std::unique_ptr<Epilogue> prepare_epilogue(const op::Signature& signature) {
  const op::Expression& expression = expression_of(signature);
  return prepare(signature, expression.steps, expression.inputs == 2);
}

std::unique_ptr<Epilogue> prepare_epilogue_after_bias(const op::Signature& signature) {
  const op::Expression& expression = expression_of(signature);
  const Steps rest = Steps(expression.steps).subspan(expression.inputs == 2 ? 1 : 0);
  return rest.empty() ? nullptr : prepare(signature, rest, false);
}

}  // namespace tandem::kernels::cpu

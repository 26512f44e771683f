#include "kernels/cpu/elementwise/epilogue.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <span>
#include <vector>

#include "kernels/cpu/elementwise/pointwise.h"
#include "op/expression.h"

namespace tandem::kernels::cpu {
namespace {

using Calls = std::span<const op::Expression::Call>;

/// What a call is applied to.
enum class Source { result, bias, companion };

/// Elements that stay in the innermost cache from one function to the next.
template <class T>
constexpr int64_t kBlock = 4096 / sizeof(T);

template <class T>
class CallFunctions final : public ElementFunctions {
 public:
  /// `sources` are those of the expression's inputs.
  CallFunctions(Calls calls, std::span<const Source> sources) {
    for (const op::Expression::Call& call : calls) {
      const Pointwise<T>* function = find_pointwise<T>(call.op->name);
      assert(function != nullptr);
      const unsigned all_go_on = (1u << function->inputs) - 1;
      Function& made = functions_.emplace_back(
          Function{function->runs[all_go_on], function->parameters(call.attrs)});
      for (size_t i = 0; i < call.operands.size(); ++i) {
        const auto operand = static_cast<size_t>(call.operands[i]);
        made.sources[i] = operand < sources.size() ? sources[operand] : Source::result;
      }
    }
  }

  void apply(void* elements, const void* companions, int64_t count) const override {
    T* const at = static_cast<T*>(elements);
    const T* const companion = static_cast<const T*>(companions);
    for (int64_t done = 0; done < count; done += kBlock<T>) {
      apply(at + done, nullptr, companion == nullptr ? nullptr : companion + done,
            std::min(kBlock<T>, count - done));
    }
  }

  /// Applies the calls, with the elements' bias where there is one. A block at a time is fastest.
  void apply(T* at, const T* bias, const T* companion, int64_t count) const {
    const std::array<const T*, 3> of_source{at, bias, companion};
    for (const Function& function : functions_) {
      const std::array<const T*, 2> operands{of_source[static_cast<size_t>(function.sources[0])],
                                             of_source[static_cast<size_t>(function.sources[1])]};
      function.run(operands.data(), at, count, function.parameters.data());
    }
  }

 private:
  struct Function {
    RunFn<T> run;
    Parameters parameters;
    std::array<Source, 2> sources{};
  };

  std::vector<Function> functions_;
};

/// Goes through blocks of whole rows, with the bias repeated to the length of one.
template <class T>
class PointwiseEpilogue final : public Epilogue {
 public:
  PointwiseEpilogue(Calls calls, std::span<const Source> sources, bool has_bias, int64_t columns)
      : functions_(calls, sources),
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

  void apply(void* rows, const void* companions, int64_t count,
             const void* workspace) const override {
    const T* companion = static_cast<const T*>(companions);
    for (T* at = static_cast<T*>(rows); count > 0; count -= block_rows_) {
      const int64_t elements = std::min(count, block_rows_) * columns_;
      functions_.apply(at, static_cast<const T*>(workspace), companion, elements);
      at += elements;
      if (companion != nullptr) companion += elements;
    }
  }

  size_t workspace_bytes() const override {
    return has_bias_ ? static_cast<size_t>(block_rows_ * columns_) * sizeof(T) : 0;
  }

 private:
  const CallFunctions<T> functions_;
  const int64_t columns_;
  const bool has_bias_;
  const int64_t block_rows_;
};

const op::Expression& expression_of(const op::Signature& signature) {
  return *signature.attrs.get<op::ExpressionPtr>("epilogue");
}

std::vector<Source> sources_of(const EpilogueInputs& inputs) {
  std::vector<Source> sources{Source::result};
  if (inputs.bias >= 0) sources.push_back(Source::bias);
  if (inputs.companion >= 0) sources.push_back(Source::companion);
  return sources;
}

}  // namespace

std::unique_ptr<Epilogue> prepare_epilogue(const op::Signature& signature) {
  const Calls calls = expression_of(signature).calls;
  const EpilogueInputs inputs = EpilogueInputs::of(signature);
  const std::vector<Source> sources = sources_of(inputs);
  const auto& [dtype, shape] = signature.outputs[0];
  const bool has_bias = inputs.bias >= 0;
  const int64_t columns = shape[shape.rank() - 1];
  if (dtype == DType::float32) {
    return std::make_unique<PointwiseEpilogue<float>>(calls, sources, has_bias, columns);
  }
  return std::make_unique<PointwiseEpilogue<double>>(calls, sources, has_bias, columns);
}

std::unique_ptr<ElementFunctions> prepare_epilogue_after_bias(const op::Signature& signature) {
  const EpilogueInputs inputs = EpilogueInputs::of(signature);
  const Calls rest = Calls(expression_of(signature).calls).subspan(inputs.bias >= 0 ? 1 : 0);
  if (rest.empty()) return nullptr;
  const std::vector<Source> sources = sources_of(inputs);
  if (signature.outputs[0].dtype == DType::float32)
    return std::make_unique<CallFunctions<float>>(rest, sources);
  return std::make_unique<CallFunctions<double>>(rest, sources);
}

}  // namespace tandem::kernels::cpu

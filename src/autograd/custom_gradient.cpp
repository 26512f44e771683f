// Functions whose gradient the user writes. What such a function does is hidden from the tapes;
// they get one record of the whole call, with the user's gradient.
#include <fmt/format.h>

#include <algorithm>

#include "op/apply.h"
#include "tandem/error.h"
#include "tandem/gradient_tape.h"
#include "tandem/ops.h"

namespace tandem {
namespace {

/// Stands in for the tapes while a function with a gradient of its own runs, and notes which
/// trainable variables it reads.
class VariableGuard final : public op::Recorder {
 public:
  VariableGuard() { tapes_.swap(op::recorders()), op::recorders().push_back(this); }
  ~VariableGuard() override { tapes_.swap(op::recorders()); }
  VariableGuard(const VariableGuard&) = delete;
  VariableGuard& operator=(const VariableGuard&) = delete;

  void record(const op::OpDef&, const Tensors&, const Tensors&, const op::Attrs&) override {}
  void record_custom(const std::shared_ptr<const op::GradientFn>&, const Tensors&,
                     const Tensors&) override {}
  void record_read(const Variable& variable, const Tensor& value) override {
    if (!variable.trainable()) return;
    const auto is_known = [&](const Variable& one) { return one.body() == variable.body(); };
    if (std::any_of(variables.begin(), variables.end(), is_known)) return;
    variables.push_back(variable);
    values.push_back(value);
  }

  Variables variables;
  Tensors values;

 private:
  std::vector<op::Recorder*> tapes_;
};

/// The same value under an identity of its own: a tape must be able to tell an output from an
/// input.
Tensor renamed(const Tensor& tensor) {
  return Tensor(std::make_shared<TensorBody>(*tensor.body()));
}

/// The user's gradient function as a tape calls it.
op::GradientFn checked(std::function<Tensors(const Tensors&)> gradient) {
  return [gradient = std::move(gradient)](const op::Call& call, const Tensors& given) {
    Tensors upstream = given;
    for (size_t i = 0; i < upstream.size(); ++i) {
      if (upstream[i].defined()) continue;
      upstream[i] = fill(call.outputs[i].shape(), 0.0, call.outputs[i].dtype());
    }
    Tensors result = gradient(upstream);
    if (result.size() != call.inputs.size()) {
      throw InvalidArgument(
          fmt::format("custom_gradient: the gradient function returned {} tensors for {} inputs",
                      result.size(), call.inputs.size()));
    }
    for (size_t i = 0; i < result.size(); ++i) {
      if (!result[i].defined() || result[i].shape() == call.inputs[i].shape()) continue;
      throw InvalidArgument(
          fmt::format("custom_gradient: the gradient of input {} has shape {}, the input {}", i,
                      result[i].shape().str(), call.inputs[i].shape().str()));
    }
    return result;
  };
}

}  // namespace

Tensors call_with_gradient(const std::function<CustomGradients(const Tensors&)>& f,
                           const Tensors& inputs) {
  if (op::recorders().empty()) return f(inputs).values;
  CustomGradients result;
  Variables variables;
  Tensors sources = inputs;
  {
    VariableGuard guard;
    result = f(inputs);
    variables = std::move(guard.variables);
    sources.insert(sources.end(), guard.values.begin(), guard.values.end());
  }
  if (!variables.empty()) {
    if (!result.gradient_with_variables) {
      throw InvalidArgument(
          fmt::format("custom_gradient: the function reads the trainable variable '{}', whose "
                      "gradient would be lost; pass its value as an argument",
                      variables[0].name()));
    }
    result.gradient = [all = std::move(result.gradient_with_variables),
                       variables](const Tensors& g) { return all(g, variables); };
    for (op::Recorder* recorder : op::recorders()) {
      for (size_t i = 0; i < variables.size(); ++i) {
        recorder->record_read(variables[i], sources[inputs.size() + i]);
      }
    }
  }
  Tensors outputs;
  for (const Tensor& value : result.values) {
    if (!value.defined()) throw InvalidArgument("custom_gradient: a value is an empty Tensor");
    outputs.push_back(renamed(value));
  }
  const auto gradient = std::make_shared<const op::GradientFn>(checked(std::move(result.gradient)));
  for (op::Recorder* recorder : op::recorders())
    recorder->record_custom(gradient, sources, outputs);
  return outputs;
}

}  // namespace tandem

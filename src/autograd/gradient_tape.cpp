#include "tandem/gradient_tape.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "op/apply.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem {
namespace {

using Key = const TensorBody*;

struct Record {
  const op::OpDef* op;
  Tensors inputs;
  Tensors outputs;
  op::Attrs attrs;
};

Key key_of(const Tensor& tensor) { return tensor.body().get(); }

}  // namespace

class GradientTape::Body final : public op::Recorder {
 public:
  explicit Body(const GradientTapeOptions& options) : options_(options) { open(); }
  ~Body() override { close(); }

  void watch(const Tensor& tensor) {
    check_differentiable(tensor.dtype());
    tracked_.insert(key_of(tensor));
    watched_.push_back(tensor);
  }

  void watch(const Variable& variable) {
    check_differentiable(variable.dtype());
    watched_variables_.push_back(variable);
  }

  void record(const op::OpDef& op, const Tensors& inputs, const Tensors& outputs,
              const op::Attrs& attrs) override {
    if (op.no_gradient) return;
    if (std::ranges::none_of(inputs, [this](const Tensor& t) { return is_tracked(t); })) return;
    for (const Tensor& output : outputs) tracked_.insert(key_of(output));
    records_.push_back({&op, inputs, outputs, attrs});
  }

  void record_read(const Variable& variable, const Tensor& value) override {
    const auto same = [&](const Variable& v) { return v.body() == variable.body(); };
    const bool wanted = std::ranges::any_of(watched_variables_, same) ||
                        (options_.watch_accessed_variables && variable.trainable());
    if (!wanted || !is_floating(value.dtype())) return;
    tracked_.insert(key_of(value));
    reads_.emplace_back(variable, value);
  }

  Tensors gradient(const Tensor& target, const Tensors& sources) {
    for (const Tensor& source : sources) check_differentiable(source.dtype());
    const auto gradients = backward(target);
    Tensors result;
    for (const Tensor& source : sources) {
      const auto found = gradients.find(key_of(source));
      result.push_back(found == gradients.end() ? Tensor() : found->second);
    }
    return result;
  }

  Tensors gradient(const Tensor& target, const Variables& sources) {
    for (const Variable& source : sources) check_differentiable(source.dtype());
    const auto gradients = backward(target);
    Tensors result;
    for (const Variable& source : sources) {
      Tensor sum;
      for (const auto& [variable, value] : reads_) {
        if (variable.body() != source.body() || counted_before(value, source)) continue;
        const auto found = gradients.find(key_of(value));
        if (found != gradients.end()) sum = sum.defined() ? add(sum, found->second) : found->second;
      }
      result.push_back(sum);
    }
    return result;
  }

 private:
  bool is_tracked(const Tensor& tensor) const { return tracked_.contains(key_of(tensor)); }

  /// While tracing, several reads of one variable can be one value: it counts once.
  bool counted_before(const Tensor& value, const Variable& source) const {
    for (const auto& [variable, earlier] : reads_) {
      if (&earlier == &value) return false;
      if (variable.body() == source.body() && key_of(earlier) == key_of(value)) return true;
    }
    return false;
  }

  static void check_differentiable(DType dtype) {
    if (is_floating(dtype)) return;
    throw InvalidArgument(fmt::format(
        "gradient tape: a {} tensor has no derivative; floating types have", name_of(dtype)));
  }

  /// The gradients of everything that the target was computed from, latest record first.
  std::unordered_map<Key, Tensor> backward(const Tensor& target) {
    if (spent_) {
      throw FailedPrecondition(
          "gradient tape: gradient() was called already; make the tape persistent to call it "
          "again");
    }
    check_differentiable(target.dtype());
    spent_ = !options_.persistent;
    close();  // The backward pass is for outer tapes to record, not for this one.
    std::unordered_map<Key, Tensor> gradients;
    if (is_tracked(target)) {
      gradients[key_of(target)] = fill(target.shape(), 1.0, target.dtype());
      for (auto record = records_.rbegin(); record != records_.rend(); ++record) {
        propagate(*record, gradients);
      }
    }
    if (options_.persistent) open();
    return gradients;
  }

  void propagate(const Record& record, std::unordered_map<Key, Tensor>& gradients) const {
    Tensors output_gradients;
    bool reached = false;
    for (const Tensor& output : record.outputs) {
      const auto found = gradients.find(key_of(output));
      reached |= found != gradients.end();
      output_gradients.push_back(found == gradients.end() ? Tensor() : found->second);
    }
    if (!reached) return;
    // A gradient function sees its first output's gradient always, later ones only if they exist.
    if (!output_gradients[0].defined()) {
      output_gradients[0] = fill(record.outputs[0].shape(), 0.0, record.outputs[0].dtype());
    }
    op::Call call{record.inputs, record.outputs, record.attrs, {}};
    for (const Tensor& input : record.inputs) call.needed.push_back(is_tracked(input));
    const Tensors input_gradients = record.op->gradient(call, output_gradients);
    for (size_t i = 0; i < input_gradients.size(); ++i) {
      if (!call.needed[i] || !input_gradients[i].defined()) continue;
      Tensor& sum = gradients[key_of(record.inputs[i])];
      sum = sum.defined() ? add(sum, input_gradients[i]) : input_gradients[i];
    }
  }

  void open() { op::recorders().push_back(this); }
  void close() { std::erase(op::recorders(), static_cast<op::Recorder*>(this)); }

  const GradientTapeOptions options_;
  bool spent_ = false;
  std::vector<Record> records_;
  std::unordered_set<Key> tracked_;
  Tensors watched_;
  Variables watched_variables_;
  std::vector<std::pair<Variable, Tensor>> reads_;
};

GradientTape::GradientTape(const GradientTapeOptions& options)
    : body_(std::make_unique<Body>(options)) {}
GradientTape::~GradientTape() = default;

void GradientTape::watch(const Tensor& tensor) { body_->watch(tensor); }
void GradientTape::watch(const Variable& variable) { body_->watch(variable); }

Tensors GradientTape::gradient(const Tensor& target, const Variables& sources) {
  return body_->gradient(target, sources);
}
Tensors GradientTape::gradient(const Tensor& target, const Tensors& sources) {
  return body_->gradient(target, sources);
}

}  // namespace tandem

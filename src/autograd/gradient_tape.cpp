// Reverse mode. While a tape is open, op::apply tells it of every call; it keeps those that a
// watched tensor leads into. Going backward it first finds which of the records lie between the
// sources and the targets, then walks these from the last to the first: each op's gradient function
// makes the gradients of its inputs from those of its outputs, with ops, so that outer tapes see
// them.
#include "tandem/gradient_tape.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "op/apply.h"
#include "tandem/error.h"
#include "tandem/ops.h"
#include "tensor/row_slices.h"

namespace tandem {
namespace {

using Key = const TensorBody*;
using Keys = std::unordered_set<Key>;
using Gradients = std::unordered_map<Key, Tensor>;

struct Record {
  const op::GradientFn* gradient;
  std::shared_ptr<const op::GradientFn> owner;  // Keeps the function alive where it is not an op's.
  Tensors inputs;
  Tensors outputs;
  op::Attrs attrs;
};

Key key_of(const Tensor& tensor) { return tensor.body().get(); }

void check_differentiable(DType dtype) {
  if (is_floating(dtype)) return;
  throw InvalidArgument(fmt::format(
      "gradient tape: a {} tensor has no derivative; floating types have", name_of(dtype)));
}

void accumulate(Tensor& sum, const Tensor& gradient) {
  if (!sum.defined()) {
    sum = gradient;
  } else if (sum.is_row_sparse() && gradient.is_row_sparse()) {
    const RowSlices& a = sum.row_slices();
    const RowSlices& b = gradient.row_slices();
    sum = row_sparse(sum.shape(),
                     concat({cast(a.indices, DType::int64), cast(b.indices, DType::int64)}, 0),
                     concat({a.values, b.values}, 0));
  } else {
    sum = add(sum, gradient);
  }
}

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
    if (!op.no_gradient) add_record({&op.gradient, nullptr, inputs, outputs, attrs});
  }

  void record_custom(const std::shared_ptr<const op::GradientFn>& gradient, const Tensors& inputs,
                     const Tensors& outputs) override {
    add_record({gradient.get(), gradient, inputs, outputs, {}});
  }

  void record_read(const Variable& variable, const Tensor& value) override {
    const auto same = [&](const Variable& v) { return v.body() == variable.body(); };
    const bool wanted = std::ranges::any_of(watched_variables_, same) ||
                        (options_.watch_accessed_variables && variable.trainable());
    if (!wanted || !is_floating(value.dtype())) return;
    tracked_.insert(key_of(value));
    reads_.emplace_back(variable, value);
  }

  bool is_tracked(const Tensor& tensor) const override { return tracked_.contains(key_of(tensor)); }

  Tensors gradient(const Tensors& targets, const Tensors& sources, const GradientOptions& options) {
    Keys keys;
    for (const Tensor& source : sources) {
      check_differentiable(source.dtype());
      keys.insert(key_of(source));
    }
    const Gradients gradients = backward(targets, std::move(keys), options);
    Tensors result;
    for (const Tensor& source : sources) {
      const auto found = gradients.find(key_of(source));
      result.push_back(found == gradients.end() ? Tensor() : found->second);
      if (!result.back().defined()) result.back() = unconnected(source, options);
    }
    return result;
  }

  Tensors gradient(const Tensors& targets, const Variables& sources,
                   const GradientOptions& options) {
    Keys keys;
    for (const Variable& source : sources) {
      check_differentiable(source.dtype());
      for (const auto& [variable, value] : reads_) {
        if (variable.body() == source.body()) keys.insert(key_of(value));
      }
    }
    const Gradients gradients = backward(targets, std::move(keys), options);
    Tensors result;
    for (const Variable& source : sources) {
      Tensor sum;
      Keys counted;  // While tracing, several reads of one variable can be one value.
      for (const auto& [variable, value] : reads_) {
        if (variable.body() != source.body() || !counted.insert(key_of(value)).second) continue;
        const auto found = gradients.find(key_of(value));
        if (found != gradients.end()) accumulate(sum, found->second);
      }
      result.push_back(sum.defined() ? sum : unconnected(source, options));
    }
    return result;
  }

  void pause() {
    if (paused_++ == 0) close();
  }
  void resume() {
    if (--paused_ == 0 && !spent_) open();
  }

  void reset() {
    records_.clear();
    tracked_.clear();
    watched_.clear();
    watched_variables_.clear();
    reads_.clear();
    if (spent_ && paused_ == 0) open();
    spent_ = false;
  }

  Variables watched_variables() const {
    Variables all = watched_variables_;
    for (const auto& [variable, value] : reads_) all.push_back(variable);
    Variables each_once;
    for (const Variable& variable : all) {
      const auto same = [&](const Variable& v) { return v.body() == variable.body(); };
      if (std::ranges::none_of(each_once, same)) each_once.push_back(variable);
    }
    return each_once;
  }

 private:
  void add_record(Record record) {
    const auto is_tracked = [this](const Tensor& t) { return tracked_.contains(key_of(t)); };
    if (std::ranges::none_of(record.inputs, is_tracked)) return;
    for (const Tensor& output : record.outputs) tracked_.insert(key_of(output));
    records_.push_back(std::move(record));
  }

  /// Gradients on the way from the targets to the sources, latest record first.
  Gradients backward(const Tensors& targets, Keys sources, const GradientOptions& options) {
    if (spent_) {
      throw FailedPrecondition(
          "gradient tape: gradient() was called already; make the tape persistent to call it "
          "again");
    }
    if (!options.output_gradients.empty() && options.output_gradients.size() != targets.size()) {
      throw InvalidArgument(fmt::format("gradient tape: {} output gradients for {} targets",
                                        options.output_gradients.size(), targets.size()));
    }
    for (const Tensor& target : targets) check_differentiable(target.dtype());
    spent_ = !options_.persistent;
    // Else the backward pass is for outer tapes to record, not for this one.
    const bool records = options_.persistent && options_.records_gradients && paused_ == 0;
    if (!records) close();
    const auto reopen = [this, records](void*) {
      if (!records && options_.persistent && paused_ == 0) open();
    };
    const std::unique_ptr<void, decltype(reopen)> at_end(this, reopen);

    Gradients gradients;
    for (size_t i = 0; i < targets.size(); ++i) {
      if (!tracked_.contains(key_of(targets[i]))) continue;
      accumulate(gradients[key_of(targets[i])], seed(targets[i], i, options));
    }
    if (gradients.empty()) return gradients;
    const Keys wanted = leading_from(std::move(sources));
    for (size_t i = records_.size(); i-- > 0;) propagate(records_[i], wanted, gradients);
    return gradients;
  }

  static Tensor seed(const Tensor& target, size_t index, const GradientOptions& options) {
    Tensor given = options.output_gradients.empty() ? Tensor() : options.output_gradients[index];
    if (!given.defined()) return fill(target.shape(), 1.0, target.dtype());
    if (type_of(given) == type_of(target)) return given;
    throw InvalidArgument(fmt::format("gradient tape: output gradient {} is {}, its target {}",
                                      index, type_of(given).str(), type_of(target).str()));
  }

  /// The sources and all that was computed from them.
  Keys leading_from(Keys sources) const {
    for (const Record& record : records_) {
      const bool leads = std::ranges::any_of(
          record.inputs, [&](const Tensor& t) { return sources.contains(key_of(t)); });
      if (!leads) continue;
      for (const Tensor& output : record.outputs) sources.insert(key_of(output));
    }
    return sources;
  }

  static void propagate(const Record& record, const Keys& wanted, Gradients& gradients) {
    op::Call call{record.inputs, record.outputs, record.attrs, {}};
    for (const Tensor& input : record.inputs) {
      call.needed.push_back(wanted.contains(key_of(input)));
    }
    if (std::ranges::find(call.needed, true) == call.needed.end()) return;
    Tensors output_gradients;
    bool reached = false;
    for (const Tensor& output : record.outputs) {
      const auto found = gradients.find(key_of(output));
      reached |= found != gradients.end();
      output_gradients.push_back(found == gradients.end() ? Tensor() : found->second);
    }
    if (!reached) return;
    const op::NearScope near(record.outputs[0]);
    // A gradient function sees its first output's gradient always, later ones only if they exist.
    if (!output_gradients[0].defined()) {
      output_gradients[0] = fill(record.outputs[0].shape(), 0.0, record.outputs[0].dtype());
    }
    const Tensors input_gradients = (*record.gradient)(call, output_gradients);
    for (size_t i = 0; i < input_gradients.size(); ++i) {
      if (!call.needed[i] || !input_gradients[i].defined()) continue;
      accumulate(gradients[key_of(record.inputs[i])], input_gradients[i]);
    }
  }

  template <class Source>
  static Tensor unconnected(const Source& source, const GradientOptions& options) {
    if (options.unconnected == UnconnectedGradients::none) return {};
    if constexpr (std::is_same_v<Source, Variable>) {
      if (op::interpreter().is_replica()) {
        return fill(op::operand_of(source).type.shape, 0.0, source.dtype());
      }
    }
    return fill(source.shape(), 0.0, source.dtype());
  }

  void open() { op::recorders().push_back(this); }
  void close() { std::erase(op::recorders(), static_cast<op::Recorder*>(this)); }

  const GradientTapeOptions options_;
  bool spent_ = false;
  int paused_ = 0;
  std::deque<Record> records_;  // Its elements stay where they are while more are recorded.
  Keys tracked_;
  Tensors watched_;
  Variables watched_variables_;
  std::vector<std::pair<Variable, Tensor>> reads_;
};

GradientTape::GradientTape(const GradientTapeOptions& options)
    : body_(std::make_unique<Body>(options)) {}
GradientTape::~GradientTape() = default;

void GradientTape::watch(const Tensor& tensor) { body_->watch(tensor); }
void GradientTape::watch(const Variable& variable) { body_->watch(variable); }

Tensors GradientTape::gradient(const Tensors& targets, const Variables& sources,
                               const GradientOptions& options) {
  return body_->gradient(targets, sources, options);
}
Tensors GradientTape::gradient(const Tensors& targets, const Tensors& sources,
                               const GradientOptions& options) {
  return body_->gradient(targets, sources, options);
}
Tensors GradientTape::gradient(const Tensor& target, const Variables& sources,
                               const GradientOptions& options) {
  return body_->gradient({target}, sources, options);
}
Tensors GradientTape::gradient(const Tensor& target, const Tensors& sources,
                               const GradientOptions& options) {
  return body_->gradient({target}, sources, options);
}
Tensor GradientTape::gradient(const Tensor& target, const Variable& source,
                              const GradientOptions& options) {
  return body_->gradient({target}, Variables{source}, options)[0];
}
Tensor GradientTape::gradient(const Tensor& target, const Tensor& source,
                              const GradientOptions& options) {
  return body_->gradient({target}, Tensors{source}, options)[0];
}

GradientTape::Pause::Pause(GradientTape& tape) : tape_(tape) { tape_.body_->pause(); }
GradientTape::Pause::~Pause() { tape_.body_->resume(); }
GradientTape::Pause GradientTape::stop_recording() { return Pause(*this); }

void GradientTape::reset() { body_->reset(); }
Variables GradientTape::watched_variables() const { return body_->watched_variables(); }

}  // namespace tandem

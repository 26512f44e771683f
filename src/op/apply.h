/// The one way into every op: validate, run it or add it to the trace, tell the tapes.
#pragma once

#include "op/op_def.h"
#include "tensor/store.h"

namespace tandem::op {

/// A store range as an operand, with the shape it is seen with.
struct RangeOperand {
  StoreRange range;
  TensorType type;
  VariableAggregation aggregation = VariableAggregation::none;
};
using RangeOperands = std::vector<RangeOperand>;

/// The variable, or a replica's own part of it where it is cut.
RangeOperand operand_of(const Variable& variable);

/// What a call does: runs now, or becomes part of a graph.
class Interpreter {
 public:
  virtual ~Interpreter() = default;
  /// The outputs of a validated call.
  virtual Tensors interpret(const Signature& signature, const Tensors& inputs,
                            const RangeOperands& ranges) = 0;
  /// The value of a variable: a call of "read_variable", or what gives the same in less time.
  virtual Tensor read(const Variable& variable);
  /// True when calls are those of one of several replicas.
  virtual bool is_replica() const { return false; }
};

/// The interpreter that calls of this thread go to.
Interpreter& interpreter();

/// Runs ops as they are called. Defined by the runtime.
Interpreter& eager_interpreter();

/// While it lives, calls of this thread go to `interpreter`.
class InterpreterScope {
 public:
  explicit InterpreterScope(Interpreter& interpreter);
  ~InterpreterScope();
  InterpreterScope(const InterpreterScope&) = delete;
  InterpreterScope& operator=(const InterpreterScope&) = delete;

 private:
  Interpreter* former_;
};

/// While it lives, calls of this thread belong to `tensor`: traces place them, where nothing else
/// says otherwise, on the device that computes it. So gradients are computed beside their ops.
class NearScope {
 public:
  explicit NearScope(const Tensor& tensor);
  ~NearScope();
  NearScope(const NearScope&) = delete;
  NearScope& operator=(const NearScope&) = delete;

  /// The tensor of this thread's innermost scope, or null.
  static const Tensor* current();

 private:
  const Tensor* former_;
};

/// The replica's own part of a variable that is cut, whose gradient then is that of the part; the
/// value of any other. For a function that runs on replicas.
Tensor read_part(const Variable& variable);

/// Sees every call that could have a gradient: a tape.
class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual void record(const OpDef& op, const Tensors& inputs, const Tensors& outputs,
                      const Attrs& attrs) = 0;
  virtual void record_read(const Variable& variable, const Tensor& value) = 0;
  /// True for a tensor whose gradient the recorder may be asked for.
  virtual bool is_tracked(const Tensor&) const { return false; }
  /// Outputs whose gradient is not that of the calls they came from.
  virtual void record_custom(const std::shared_ptr<const GradientFn>& gradient,
                             const Tensors& inputs, const Tensors& outputs) = 0;
};

/// Recorders of this thread, outermost first.
std::vector<Recorder*>& recorders();

/// A tensor that is zero but for some rows as one that has them all; itself otherwise.
Tensor with_all_rows(const Tensor& tensor);

Tensors apply(const OpDef& op, Tensors inputs, Attrs attrs = {}, const RangeOperands& ranges = {});

/// The same for ops of one output.
Tensor apply_one(const OpDef& op, Tensors inputs, Attrs attrs = {},
                 const RangeOperands& ranges = {});

}  // namespace tandem::op

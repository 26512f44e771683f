/// What an op is: its shape rule, its gradient, how its work splits over threads. Written once, and
/// used by eager calls, traces, every device and every strategy.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/tensor_type.h"
#include "op/attrs.h"
#include "tandem/tensor.h"

namespace tandem::op {

using tandem::TensorType;
using tandem::TensorTypes;

struct OpDef;

/// One call of an op with everything but the values. Shapes may be symbolic.
struct Signature {
  const OpDef* op = nullptr;
  TensorTypes inputs;
  TensorTypes outputs;
  Attrs attrs;
  TensorTypes ranges;  ///< Parts of variable stores that the op reads or writes in place.

  Signature resolved(int64_t rows) const;
  std::string str() const;  ///< "matmul(float32[128,784], float32[784,10])"
};

/// How the work of one call is cut: into `extent` equal units of each output, dealt to threads in
/// contiguous, nearly equal parts. An input that is `aligned` is read by each thread only in the
/// units it writes. An extent of 1 is work for one thread.
struct Split {
  enum class Unit {
    row,    ///< A place of each output's leading axis.
    chunk,  ///< kChunk elements of all inputs or outputs, laid end to end; see UpdateLayout for
            ///< ranges.
  };
  static constexpr int64_t kChunk = 64;

  int64_t extent = 1;  ///< Negative: a multiple of the rows.
  Unit unit = Unit::row;
  std::vector<bool> aligned{};  ///< Which inputs are aligned; missing ones are not.

  bool is_aligned(size_t input) const { return input < aligned.size() && aligned[input]; }
};

/// A call as its gradient sees it.
struct Call {
  const Tensors& inputs;
  const Tensors& outputs;
  const Attrs& attrs;
  std::vector<bool> needed;  ///< Inputs whose gradients somebody wants.
};

/// Makes from the gradients of the outputs (undefined ones are zero) those of the inputs, written
/// with ops. An undefined result is zero.
using GradientFn = std::function<Tensors(const Call&, const Tensors& output_gradients)>;

struct OpDef {
  std::string name;

  /// Validates and returns the outputs' types. `outputs`, `op` of the argument are not set yet.
  std::function<TensorTypes(const Signature&)> infer;

  std::function<Split(const Signature&)> split;

  /// Exactly one of the two is set; registration checks it.
  GradientFn gradient{};
  bool no_gradient = false;

  /// Floating-point operations of a call without symbolic sizes; one per element of the first
  /// output unless set.
  std::function<double(const Signature&)> flops{};

  /// The op changes its ranges in place.
  bool writes_ranges = false;

  /// The op has the operands of an UpdateLayout, and is split as that says.
  bool is_update = false;

  /// Each element of the output is a function of the inputs' elements at the same place, all of one
  /// type: calls may be fused.
  bool pointwise = false;

  /// Output i may lie where input i lay, if they have one type and the input is aligned and not
  /// used again.
  bool in_place = false;

  /// The output is the input's elements in the same order: the same memory, wherever it can be.
  bool is_view = false;

  /// The op reads, and with `writes_peers` also writes, the operands of all replicas; see
  /// collective/.
  bool is_collective = false;
  bool writes_peers = false;

  /// The values depend on StepScalars, not only on the inputs.
  bool depends_on_run = false;

  /// Two calls alike give different values: see StepScalars::random.
  bool is_random = false;

  /// An effect beyond the outputs keeps a call alive in a graph whose outputs nobody uses.
  bool has_effect() const { return writes_ranges; }

  int id = -1;  ///< Set by the registry.
};

/// The usual splits: by the leading axis of the output, with inputs of the same rank and leading
/// axis aligned; no split; over the elements of all inputs, all of them aligned.
Split split_rows(const Signature& signature);
Split split_none(const Signature& signature);
Split split_chunks(const Signature& signature);

}  // namespace tandem::op

/// Several elementwise calls as one: what a fused op computes for each element.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "op/op_def.h"

namespace tandem::op {

struct Expression {
  /// One call. Operands below `inputs` are the fused op's inputs, the others results of calls, in
  /// order.
  struct Call {
    const OpDef* op;
    std::vector<int> operands;
    Attrs attrs;
  };

  int inputs = 0;
  std::vector<Call> calls;
  std::vector<int> outputs;  ///< Calls whose results leave the op.

  std::string str() const;  ///< "relu(add(in0, in1))", each output after a comma.
};

}  // namespace tandem::op

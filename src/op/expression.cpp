#include "op/expression.h"

#include <fmt/format.h>

namespace tandem::op {
namespace {

std::string operand(const Expression& expression, int index) {
  if (index < expression.inputs) return fmt::format("in{}", index);
  const Expression::Call& call = expression.calls[static_cast<size_t>(index - expression.inputs)];
  std::string operands;
  for (int each : call.operands) {
    operands += fmt::format("{}{}", operands.empty() ? "" : ", ", operand(expression, each));
  }
  return fmt::format("{}({})", call.op->name, operands);
}

}  // namespace

std::string Expression::str() const {
  std::string text;
  for (int output : outputs) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", operand(*this, inputs + output));
  }
  return text;
}

}  // namespace tandem::op

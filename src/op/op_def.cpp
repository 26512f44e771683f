#include "op/op_def.h"

#include <fmt/format.h>

namespace tandem::op {
namespace {

TensorTypes resolved_all(TensorTypes types, int64_t rows) {
  for (TensorType& type : types) type = type.resolved(rows);
  return types;
}

}  // namespace

Signature Signature::resolved(int64_t rows) const {
  return {op, resolved_all(inputs, rows), resolved_all(outputs, rows), attrs.resolved(rows),
          ranges};
}

std::string Signature::str() const {
  return fmt::format("{}({}){}", op->name, listed(inputs),
                     attrs.empty() ? "" : " {" + attrs.str() + "}");
}

Split split_rows(const Signature& signature) {
  const Shape& output = signature.outputs[0].shape;
  Split split{.extent = output.leading_extent()};
  for (const TensorType& input : signature.inputs) {
    split.aligned.push_back(input.shape.rank() == output.rank() && output.rank() > 0 &&
                            input.shape.leading_extent() == output.leading_extent());
  }
  return split;
}

Split split_none(const Signature&) { return {}; }

Split split_chunks(const Signature& signature) {
  int64_t elements = 0;
  for (const TensorType& input : signature.inputs) elements += input.shape.total_extent();
  return {.extent = (elements + Split::kChunk - 1) / Split::kChunk,
          .unit = Split::Unit::chunk,
          .aligned = std::vector<bool>(signature.inputs.size(), true)};
}

}  // namespace tandem::op

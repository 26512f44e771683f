#include <array>

#include "kernels/gpu/elementwise/gpu_epilogue.h"

namespace tandem::kernels::gpu {
namespace {

/// x0 is the product, then come the bias and the companion where there are any.
ElementText text_of(const Signature& s) {
  const DType dtype = s.outputs[0].dtype;
  const EpilogueInputs inputs = EpilogueInputs::of(s);
  PrintedExpression printed = print_epilogue(s, "x0", "x1", inputs.bias < 0 ? "x1" : "x2");
  const size_t count =
      1 + static_cast<size_t>(inputs.bias >= 0) + static_cast<size_t>(inputs.companion >= 0);
  return {.name = s.op->name,
          .words = types_of(dtype),
          .inputs = std::vector<DType>(count, dtype),
          .outputs = {dtype},
          .functions = {kMathFunctions},
          .statements = std::move(printed.statements),
          .results = std::move(printed.results),
          .parameters = std::move(printed.parameters)};
}

/// Rows and columns if there is a bias, which stays from row to row; else all elements at once.
Loops loops_of(const EpilogueInputs& inputs, int64_t rows, int64_t columns) {
  Loops loops;
  if (inputs.bias < 0) {
    loops.sizes = {rows * columns};
    loops.moves = {{true}};
    if (inputs.companion >= 0) loops.moves.push_back({true});
  } else {
    loops.sizes = {rows, columns};
    loops.moves = {{true, true}, {false, true}};
    if (inputs.companion >= 0) loops.moves.push_back({true, true});
  }
  return loops;
}

int64_t columns_of(const Signature& s) {
  const Shape& shape = s.outputs[0].shape;
  return shape[shape.rank() - 1];
}

int64_t rows_of(const Signature& s) {
  const int64_t columns = columns_of(s);
  return columns == 0 ? 0 : count_of(s.outputs[0]) / columns;
}

}  // namespace

Epilogue::Epilogue(const Signature& s, const Device& device)
    : inputs_(EpilogueInputs::of(s)),
      rows_(rows_of(s)),
      columns_(columns_of(s)),
      kernel_(device, text_of(s), loops_of(inputs_, rows_, columns_)) {}

void Epilogue::run(const Launch& launch) const {
  const auto input = [&](int index) { return index < 0 ? nullptr : launch.in<void>(index); };
  run(launch, launch.out<void>(0), input(inputs_.bias), input(inputs_.companion), rows_);
}

void Epilogue::run(const Launch& launch, void* data, const void* bias, const void* companion,
                   int64_t rows) const {
  const void* operands[4];
  size_t count = 0;
  operands[count++] = data;
  if (inputs_.bias >= 0) operands[count++] = bias;
  if (inputs_.companion >= 0) operands[count++] = companion;
  operands[count++] = data;
  if (inputs_.bias < 0) {
    const int64_t sizes[] = {rows * columns_};
    kernel_.run(launch, {operands, count}, sizes);
  } else {
    const int64_t sizes[] = {rows, columns_};
    kernel_.run(launch, {operands, count}, sizes);
  }
}

PrintedExpression print_epilogue(const Signature& s, const std::string& product,
                                 const std::string& bias, const std::string& companion) {
  const EpilogueInputs inputs = EpilogueInputs::of(s);
  std::array<std::string, 3> names{product};
  size_t count = 1;
  if (inputs.bias >= 0) names[count++] = bias;
  if (inputs.companion >= 0) names[count++] = companion;
  return print(*s.attrs.get<op::ExpressionPtr>("epilogue"), s.outputs[0].dtype,
               std::span(names).first(count));
}

}  // namespace tandem::kernels::gpu

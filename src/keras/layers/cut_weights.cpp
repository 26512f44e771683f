#include "keras/layers/cut_weights.h"

#include <fmt/format.h>

#include "collective/collective.h"
#include "collective/parts.h"
#include "distribute/strategy_body.h"
#include "op/apply.h"
#include "tandem/distribute/mesh.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::keras {
WeightCut cut_of(const Variable& weight) {
  const int parts = collective::group_size(collective::Axis::model);
  if (parts == 1) return {};
  const distribute::Strategy strategy = distribute::get_strategy();
  const distribute::LayoutMap* layouts = strategy.body().layouts();
  return {layouts == nullptr ? -1 : layouts->cut_axis(weight.name()), parts};
}

Tensor part_of(const Variable& weight, const WeightCut& cut) {
  if (cut.is_whole()) return weight.value();
  const VariableCut& kept = weight.body()->cut;
  const bool is_kept = kept.parts == cut.parts && kept.axis == cut.axis;
  return is_kept ? op::read_part(weight) : collective::own_part(weight.value(), cut.axis);
}

void check_cut(const std::string& kind, const std::string& path, const Shape& shape, int cut_axes) {
  const distribute::Strategy strategy = distribute::get_strategy();
  const distribute::LayoutMap* layouts = strategy.body().layouts();
  if (layouts == nullptr) return;
  const int axis = layouts->cut_axis(path);
  if (axis < 0) return;
  const distribute::TensorLayout* layout = layouts->find(path);
  const int parts = strategy.body().span().model;
  if (axis >= shape.rank() || shape.extent(axis) % parts != 0) {
    throw InvalidArgument(
        fmt::format("'{}' is {} and its layout {}; it cannot be cut into {} equal parts", path,
                    shape.str(), layout->str(), parts));
  }
  if (axis < cut_axes) return;
  throw Unimplemented(fmt::format(
      "'{}', a weight of a layer of the kind {}, has the layout {}; Dense, "
      "MultiHeadAttention and Embedding, by rows of its table, have forms for parts, and "
      "layers of one's own with WeightOptions::cut_axes",
      path, kind, layout->str()));
}

Tensor matmul_of_parts(const Tensor& a, const Tensor& b) {
  const collective::PartsScope of_parts;
  return collective::all_reduce({matmul(a, b)}, collective::Axis::model)[0];
}

Tensor dropout_of_parts(const Tensor& x, double rate, const DropoutOptions& options, int cut) {
  const int axis = cut >= 0 ? cut : collective::cut_axis(x);
  if (axis < 0) return dropout(x, rate, options);
  const collective::PartsScope of_parts;
  const auto parts = static_cast<size_t>(collective::group_size(collective::Axis::model));
  const Tensor whole = concat(Tensors(parts, ones_like(x)), axis);
  const Tensor y = x * collective::own_part(dropout(whole, rate, options), axis);
  return cut >= 0 ? y : collective::marked_part(y, axis);
}

}  // namespace tandem::keras

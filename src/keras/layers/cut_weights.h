/// Weights of which each replica along a mesh's axis of the model has a part, which its device
/// keeps (VariableCut). The forms of layers that compute with parts are written with these; which
/// weights are cut says the strategy's LayoutMap.
#pragma once

#include <string>

#include "tandem/ops/random.h"
#include "tandem/variable.h"

namespace tandem::keras {

struct WeightCut {
  int axis = -1;  ///< The axis that is cut; -1: the weight is whole.
  int parts = 1;

  bool is_whole() const { return axis < 0; }
  /// The same number of parts along another axis.
  WeightCut along(int other) const { return {is_whole() ? -1 : other, parts}; }
  Shape part_of(const Shape& whole) const {
    return is_whole() ? whole : whole.with(axis, whole.extent(axis) / parts);
  }
};

/// How a weight is cut in the function that is being traced.
WeightCut cut_of(const Variable& weight);

/// This replica's part of the weight's value.
Tensor part_of(const Variable& weight, const WeightCut& cut);

/// Throws InvalidArgument where the current strategy has a layout for a weight of a layer of this
/// kind that does not fit its shape, and Unimplemented where it cuts another axis than the first
/// `cut_axes`, for which the layer has forms.
void check_cut(const std::string& kind, const std::string& path, const Shape& shape, int cut_axes);

/// The sum over the replicas of the products of their parts.
Tensor matmul_of_parts(const Tensor& a, const Tensor& b);

/// dropout(x), in which a value that is cut, along `cut` or as it is marked, loses the elements
/// that the whole would lose.
Tensor dropout_of_parts(const Tensor& x, double rate, const DropoutOptions& options = {},
                        int cut = -1);

}  // namespace tandem::keras

/// keras.distribution: see tandem/distribute/mesh.h, where these are defined.
///
///   keras::distribution::set_distribution(keras::distribution::ModelParallel(layouts));
///   ...                                            // Models made from now on are cut as it says.
///   keras::distribution::set_distribution();       // No longer.
#pragma once

#include <functional>
#include <optional>

#include "tandem/distribute/mesh.h"
#include "tandem/tensor.h"
#include "tandem/variable.h"

namespace tandem::keras::distribution {

using tandem::distribute::DataParallel;
using tandem::distribute::DeviceMesh;
using tandem::distribute::LayoutMap;
using tandem::distribute::ModelParallel;
using tandem::distribute::ModelParallelOptions;
using tandem::distribute::TensorLayout;

/// Until it is called again, this thread is in the scope of the strategy, or of none. Throws
/// FailedPrecondition inside a scope that somebody else has opened.
TANDEM_API void set_distribution(const std::optional<tandem::distribute::Strategy>& strategy = {});

/// What was set, if anything was.
TANDEM_API std::optional<tandem::distribute::Strategy> distribution();

/// The value whose part each device has after a layer that is cut by columns; other values as they
/// are. For code between layers that does more than work element by element.
TANDEM_API Tensor gather(const Tensor& x);

// ---- For layers of one's own that compute with parts of their weights ----
//
//   const int axis = cut_axis(kernel);                               // As the layouts say.
//   if (axis == 1) return mark_part(matmul(gather(x), part_of(kernel, 1)), 1);     // By columns.
//   if (axis == 0) return sum_of_parts([&] { return matmul(part_of(x, 1), part_of(kernel, 0)); });
//   return matmul(x, kernel.value());
//
// A layer without such forms is right, too: a weight that is cut is joined where it is read.

/// The axis along which the layouts of the strategy that is being traced for cut the weight; -1
/// where it is whole, as outside of strategy.run.
TANDEM_API int cut_axis(const Variable& weight);

/// The axis along which a value is cut of which each device has its part; -1 where it is whole.
TANDEM_API int cut_axis(const Tensor& x);

/// This device's part of a weight along `axis`, whatever its own layout; with -1 its value.
TANDEM_API Tensor part_of(const Variable& weight, int axis);

/// This device's part of a value along `axis`. One that is cut already is returned as it is. Throws
/// InvalidArgument where the axis cannot be cut into equal parts, and for a value that is cut along
/// another axis.
TANDEM_API Tensor part_of(const Tensor& x, int axis);

/// `part`, known from now on as this device's part of a value that is cut along `axis`.
TANDEM_API Tensor mark_part(const Tensor& part, int axis);

/// The sum over the devices of what `f` makes of their parts, which all have then.
TANDEM_API Tensor sum_of_parts(const std::function<Tensor()>& f);

/// How many devices have parts of the same values, in the step that is being traced; 1 without any.
TANDEM_API int part_count();

/// The number of this device among those that have parts of the same value: an int32 scalar.
TANDEM_API Tensor part_number();

}  // namespace tandem::keras::distribution

/// Reductions over any axes, and running sums. Any thread may call them.
///
/// All of them throw InvalidArgument, naming the op and the shape, for an axis that is out of range
/// or given twice, and for a dtype that they do not take.
#pragma once

#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "tandem/tensor.h"

namespace tandem {

/// Axes of a tensor: `{0, -1}`, a vector, or a single one; negative ones count from the end.
/// Unless any are given, all axes; an empty vector is none.
class Axes {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  Axes() = default;
  Axes(int axis) : list_(std::vector<int>{axis}) {}
  Axes(std::initializer_list<int> axes) : list_(axes) {}
  Axes(std::vector<int> axes) : list_(std::move(axes)) {}
  Axes(std::optional<std::vector<int>> axes) : list_(std::move(axes)) {}
  // NOLINTEND(google-explicit-constructor)

  bool given() const { return list_.has_value(); }
  /// Requires that they are given.
  const std::vector<int>& list() const { return *list_; }

 private:
  std::optional<std::vector<int>> list_;
};

struct ReduceOptions {
  Axes axes{};            ///< All axes unless given.
  bool keepdims = false;  ///< Reduced axes stay, with size 1.
};

/// float32, float64, int32 and int64; whole numbers wrap round. The sum of nothing is 0.
TANDEM_API Tensor reduce_sum(const Tensor& x, const ReduceOptions& options = {});

/// float32 and float64. The mean of nothing is NaN. Within `strategy.run` this is the mean over the
/// replica's own part; see compute_average_loss.
TANDEM_API Tensor reduce_mean(const Tensor& x, const ReduceOptions& options = {});

/// The largest and the smallest element: float32, float64, int32, int64 and uint8. NaN if any
/// element is. Of nothing: the least and the greatest value of the dtype. Elements that tie for
/// the extreme share its gradient equally.
TANDEM_API Tensor reduce_max(const Tensor& x, const ReduceOptions& options = {});
TANDEM_API Tensor reduce_min(const Tensor& x, const ReduceOptions& options = {});

/// float32, float64, int32 and int64; whole numbers wrap round. The product of nothing is 1.
TANDEM_API Tensor reduce_prod(const Tensor& x, const ReduceOptions& options = {});

/// Whether any, or every, element of a bool tensor is true. Of nothing: false, and true. No
/// gradient.
TANDEM_API Tensor reduce_any(const Tensor& x, const ReduceOptions& options = {});
TANDEM_API Tensor reduce_all(const Tensor& x, const ReduceOptions& options = {});

/// The mean of the squared distance to the mean: float32 and float64.
TANDEM_API Tensor reduce_variance(const Tensor& x, const ReduceOptions& options = {});

/// The square root of the variance. Its gradient is not finite where that is 0.
TANDEM_API Tensor reduce_std(const Tensor& x, const ReduceOptions& options = {});

/// log(reduce_sum(exp(x))), without overflow: float32 and float64. -inf where every element is, and
/// of nothing.
TANDEM_API Tensor reduce_logsumexp(const Tensor& x, const ReduceOptions& options = {});

/// The index of the largest or smallest element along `axis`, the first of equals, as int64:
/// float32, float64, int32, int64 and uint8. NaN counts only where there is nothing else, as in
/// TensorFlow (in NumPy it comes first); the index is then 0. Throws InvalidArgument when the axis
/// has no elements. No gradient.
TANDEM_API Tensor argmax(const Tensor& x, int axis = -1);
TANDEM_API Tensor argmin(const Tensor& x, int axis = -1);

struct CumsumOptions {
  int axis = 0;            ///< A negative one counts from the end.
  bool exclusive = false;  ///< Each element is left out of its own sum.
  bool reverse = false;    ///< Sums run from the end to the start.
};

/// Running sums along one axis: float32, float64, int32 and int64.
TANDEM_API Tensor cumsum(const Tensor& x, const CumsumOptions& options = {});

}  // namespace tandem

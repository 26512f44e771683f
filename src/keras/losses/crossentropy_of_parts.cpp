#include "keras/losses/crossentropy_of_parts.h"

#include "collective/collective.h"
#include "collective/parts.h"
#include "tandem/ops.h"

namespace tandem::keras::losses {
namespace {

const ReduceOptions kLast{.axes = {{-1}}};
const ReduceOptions kLastKept{.axes = {{-1}}, .keepdims = true};

/// The largest score of each example, [.., 1]; 0 where that is no number. What is subtracted from
/// all scores cancels in the gradient.
Tensor largest(const Tensor& scores) {
  const Tensor own = stop_gradient(reduce_max(scores, kLastKept));
  const Tensor of_all = collective::gather_parts(collective::marked_part(own, own.rank() - 1));
  const Tensor most = reduce_max(of_all, kLastKept);
  return where(is_finite(most), most, zeros_like(most));
}

/// True at the score of the true class, where this replica has it.
Tensor is_true_class(const Tensor& classes, const Tensor& scores) {
  const int64_t own = scores.shape().extents().back();
  const Tensor first = cast(collective::model_rank(), classes.dtype()) *
                       scalar_like(static_cast<double>(own), classes);
  const Tensor numbers = range(0, static_cast<double>(own), 1, classes.dtype());
  return equal(expand_dims(classes - first, -1), numbers);
}

/// Zeros, for classes that exist; gather() refuses others.
Tensor checked(const Tensor& classes, const Tensor& scores) {
  const int64_t all =
      scores.shape().extents().back() * collective::group_size(collective::Axis::model);
  return gather(zeros({all}, scores.dtype()), classes);
}

}  // namespace

Tensor sparse_crossentropy_of_parts(const Tensor& classes, const Tensor& scores) {
  const collective::PartsScope of_parts;
  const Tensor shifted = scores - largest(scores);
  const Tensor sum = reduce_sum(exp(shifted), kLast);
  const Tensor nothing = scalar_like(0, shifted);
  const Tensor picked = reduce_sum(where(is_true_class(classes, scores), shifted, nothing), kLast);
  const Tensors of_all = collective::all_reduce({sum, picked}, collective::Axis::model);
  return log(of_all[0]) - of_all[1] + checked(classes, scores);
}

}  // namespace tandem::keras::losses

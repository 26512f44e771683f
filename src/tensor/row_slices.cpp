#include "tensor/row_slices.h"

#include <fmt/format.h>

#include "core/tensor_type.h"
#include "tandem/error.h"

namespace tandem {
namespace {

std::vector<int64_t> indices_of(const Tensor& indices) {
  if (indices.dtype() == DType::int64) return indices.to_vector<int64_t>();
  const auto narrow = indices.to_vector<int32_t>();
  return {narrow.begin(), narrow.end()};
}

template <class T>
Tensor summed(const Shape& shape, const RowSlices& slices) {
  std::vector<T> elements(static_cast<size_t>(shape.count()));
  const auto values = slices.values.to_vector<T>();
  const auto width = shape.rows() == 0 ? 0 : elements.size() / static_cast<size_t>(shape.rows());
  size_t next = 0;
  for (int64_t row : indices_of(slices.indices)) {
    T* to = elements.data() + static_cast<size_t>(row) * width;
    for (size_t i = 0; i < width; ++i) to[i] += values[next++];
  }
  return Tensor::from(elements, shape);
}

}  // namespace

Tensor row_sparse(const Shape& shape, const Tensor& indices, const Tensor& values) {
  auto body = std::make_shared<TensorBody>();
  body->dtype = values.dtype();
  body->shape = shape;
  body->trace = values.body()->trace;
  body->slices = std::make_shared<const RowSlices>(RowSlices{indices, values});
  return Tensor(std::move(body));
}

Tensor whole(const Tensor& tensor) {
  const TensorBody& body = *tensor.body();
  if (!body.slices) return tensor;
  check_has_value(body, "reading");
  return body.dtype == DType::float32 ? summed<float>(body.shape, *body.slices)
                                      : summed<double>(body.shape, *body.slices);
}

bool Tensor::is_row_sparse() const { return checked().slices != nullptr; }

const RowSlices& Tensor::row_slices() const {
  if (is_row_sparse()) return *body_->slices;
  throw FailedPrecondition(fmt::format(
      "row_slices: the tensor {} has all its rows; see is_row_sparse", type_of(*this).str()));
}

}  // namespace tandem

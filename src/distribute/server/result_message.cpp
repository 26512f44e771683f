#include "distribute/server/result_message.h"

#include <span>
#include <vector>

#include "tensor/body.h"

namespace tandem::distribute {

void append_tensors(MessageWriter& writer, const Tensors& tensors) {
  writer.add(static_cast<uint64_t>(tensors.size()));
  for (const Tensor& tensor : tensors) {
    std::vector<int64_t> extents;
    for (int axis = 0; axis < tensor.rank(); ++axis) extents.push_back(tensor.shape().extent(axis));
    const int64_t count = tensor.shape().count();
    writer.add(tensor.dtype()).add_list(extents);
    writer.add_bytes(tensor.body()->data(), static_cast<size_t>(count) * size_of(tensor.dtype()));
  }
}

Tensors read_tensors(MessageReader& reader) {
  Tensors tensors;
  for (auto left = reader.read<uint64_t>(); left > 0; --left) {
    const auto dtype = reader.read<DType>();
    const Shape shape{std::span<const int64_t>(reader.read_list<int64_t>())};
    const int64_t count = shape.count();
    const char* const data = reader.read_bytes(static_cast<size_t>(count) * size_of(dtype));
    tensors.push_back(Tensor::copy_of(data, dtype, shape));
  }
  return tensors;
}

}  // namespace tandem::distribute

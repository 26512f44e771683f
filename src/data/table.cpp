#include "data/table.h"

#include "data/row_copy.h"
#include "tandem/config.h"
#include "tensor/body.h"

namespace tandem::data {
namespace {

bool is_run(std::span<const int64_t> places) {
  for (size_t i = 1; i < places.size(); ++i) {
    if (places[i] != places[i - 1] + 1) return false;
  }
  return true;
}

}  // namespace

Table::Table(const Tensors& tensors) : rows_(tensors[0].shape()[0]) {
  for (const Tensor& tensor : tensors) {
    columns_.push_back(on_device(tensor, devices::host_device()));
    columns_.back().body()->ready.wait(config::wait_deadline());
  }
}

Element Table::row(int64_t place) const {
  Element element;
  element.reserve(columns_.size());
  for (const Tensor& column : columns_) {
    auto body = std::make_shared<TensorBody>(*column.body());
    body->shape = column.shape().without(0);
    body->offset += body->bytes() * static_cast<size_t>(place);
    element.emplace_back(std::move(body));
  }
  return element;
}

Element Table::gather(std::span<const int64_t> places, BatchMemory& memory) const {
  Element batch;
  batch.reserve(columns_.size());
  const auto count = static_cast<int64_t>(places.size());
  if (is_run(places)) {
    const int64_t first = places.empty() ? 0 : places[0];
    for (const Tensor& column : columns_) {
      batch.push_back(column.rows(first, first + count));
    }
    return batch;
  }
  const auto copy = std::make_shared<RowCopy>(places);
  for (const Tensor& column : columns_) {
    const auto to = memory.take(batch.size(), column.dtype(), column.shape().with(0, count));
    copy->add(column.body(), to);
    batch.emplace_back(to);
  }
  RowCopy::run(copy);
  return batch;
}

}  // namespace tandem::data

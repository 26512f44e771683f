#include "data/table.h"

#include <cstring>

#include "tandem/config.h"
#include "tensor/body.h"

namespace tandem::data {
namespace {

const char* row_of(const TensorBody& column, size_t row_bytes, int64_t place) {
  return static_cast<const char*>(column.data()) + row_bytes * static_cast<size_t>(place);
}

/// A row begins far from the one before: its first lines are asked for while that one is copied,
/// and the processor asks for those after them by itself.
void foresee(const char* row, size_t bytes) {
  constexpr size_t kLine = 64;
  constexpr size_t kAhead = 8 * kLine;
  for (size_t at = 0; at < std::min(bytes, kAhead); at += kLine) __builtin_prefetch(row + at);
}

void copy_rows(const TensorBody& from, size_t row_bytes, std::span<const int64_t> places,
               char* to) {
  constexpr size_t kRowsAhead = 2;
  for (size_t i = 0; i < places.size(); ++i, to += row_bytes) {
    if (i + kRowsAhead < places.size()) {
      foresee(row_of(from, row_bytes, places[i + kRowsAhead]), row_bytes);
    }
    std::memcpy(to, row_of(from, row_bytes, places[i]), row_bytes);
  }
}

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

Element Table::gathered(std::span<const int64_t> places, BatchMemory& memory) const {
  Element batch;
  batch.reserve(columns_.size());
  const auto count = static_cast<int64_t>(places.size());
  const bool run = is_run(places);
  for (const Tensor& column : columns_) {
    if (run) {
      batch.push_back(column.rows(places[0], places[0] + count));
      continue;
    }
    const TensorBody& from = *column.body();
    const auto to = memory.take(batch.size(), from.dtype, from.shape.with(0, count));
    copy_rows(from, to->bytes() / places.size(), places, static_cast<char*>(to->data()));
    batch.emplace_back(to);
  }
  return batch;
}

}  // namespace tandem::data

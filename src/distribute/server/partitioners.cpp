// How variables can be cut into shards for parameter servers: TensorFlow's partitioners.
#include <fmt/format.h>

#include <algorithm>

#include "tandem/distribute/parameter_server.h"
#include "tandem/error.h"

namespace tandem::distribute::partitioners {
namespace {

int64_t checked(const char* partitioner, const char* name, int64_t value) {
  if (value >= 1) return value;
  throw InvalidArgument(
      fmt::format("partitioners::{}: {} is {}, 1 or more is accepted", partitioner, name, value));
}

int64_t bytes_of(const Shape& shape, DType dtype) {
  return shape.count() * static_cast<int64_t>(size_of(dtype));
}

int64_t rows_of(const Shape& shape) {
  return shape.rank() == 0 ? 1 : std::max<int64_t>(shape.extent(0), 1);
}

}  // namespace

Partitioner fixed_shards(int64_t shards) {
  checked("fixed_shards", "shards", shards);
  return [shards](const Shape& shape, DType) { return std::min(shards, rows_of(shape)); };
}

Partitioner min_size(int64_t min_shard_bytes, int64_t max_shards) {
  checked("min_size", "min_shard_bytes", min_shard_bytes);
  checked("min_size", "max_shards", max_shards);
  return [=](const Shape& shape, DType dtype) {
    const int64_t filled = std::max<int64_t>(bytes_of(shape, dtype) / min_shard_bytes, 1);
    return std::min({filled, max_shards, rows_of(shape)});
  };
}

Partitioner max_size(int64_t max_shard_bytes, std::optional<int64_t> max_shards) {
  checked("max_size", "max_shard_bytes", max_shard_bytes);
  if (max_shards) checked("max_size", "max_shards", *max_shards);
  return [=](const Shape& shape, DType dtype) {
    // A shard has whole rows.
    const int64_t rows = rows_of(shape);
    const int64_t row_bytes = std::max<int64_t>(bytes_of(shape, dtype) / rows, 1);
    const int64_t rows_each = std::max<int64_t>(max_shard_bytes / row_bytes, 1);
    const int64_t needed = (rows + rows_each - 1) / rows_each;
    return std::min(needed, max_shards.value_or(needed));
  };
}

}  // namespace tandem::distribute::partitioners

#include "distribute/range/parameter_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "execution/run_arguments.h"
#include "tandem/error.h"

namespace tandem::distribute {
namespace {

constexpr int64_t kChunk = 64;  // Elements.

int64_t element_bytes(const TensorType& variable) {
  return static_cast<int64_t>(size_of(variable.dtype));
}

}  // namespace

ParameterLayout::ParameterLayout(const TensorTypes& variables, int servers,
                                 const Partitioner& partitioner)
    : variables_(variables), pieces_(static_cast<size_t>(servers)) {
  partitioner ? cut_as(partitioner) : cut_evenly();
}

void ParameterLayout::cut_evenly() {
  int64_t all = 0;
  for (const TensorType& variable : variables_) {
    all += variable.shape.count() * element_bytes(variable);
  }
  const int64_t servers = this->servers();
  int64_t start = 0;  // The bytes of the variables before this one.
  for (size_t v = 0; v < variables_.size(); ++v) {
    const int64_t size = element_bytes(variables_[v]);
    const int64_t count = variables_[v].shape.count();
    int64_t begin = 0;
    for (int64_t s = 0; s < servers && begin < count; ++s) {
      const int64_t range_end = (s + 1) * all / servers - start;  // In bytes of this variable.
      const int64_t whole_chunks = range_end / (kChunk * size) * kChunk;
      const int64_t end = s + 1 == servers ? count : std::clamp(whole_chunks, begin, count);
      if (end > begin) pieces_[static_cast<size_t>(s)].push_back({v, begin, end});
      begin = end;
    }
    start += count * size;
  }
}

void ParameterLayout::cut_as(const Partitioner& partitioner) {
  size_t next = 0;  // The server whose turn it is.
  for (size_t v = 0; v < variables_.size(); ++v) {
    const Shape& shape = variables_[v].shape;
    const int64_t wanted = partitioner(shape, variables_[v].dtype);
    if (wanted < 1) {
      throw InvalidArgument(fmt::format(
          "ParameterServerStrategy: the partitioner wants {} shards of a variable of shape {}; 1 "
          "or more are accepted",
          wanted, shape.str()));
    }
    const int64_t rows = shape.rank() == 0 ? 1 : shape.extent(0);
    const int64_t each = rows == 0 ? 0 : shape.count() / rows;
    const int shards = static_cast<int>(std::min(wanted, std::max<int64_t>(rows, 1)));
    for (int i = 0; i < shards; ++i) {
      const graph::BatchShard part = graph::shard_of(rows, i, shards);
      const int64_t begin = part.row_offset * each;
      const int64_t end = begin + part.rows * each;
      if (end > begin) pieces_[next].push_back({v, begin, end});
      next = (next + 1) % pieces_.size();
    }
  }
}

int64_t ParameterLayout::bytes(int server) const {
  int64_t bytes = 0;
  for (const ServerPiece& piece : pieces(server)) {
    bytes += piece.count() * element_bytes(variables_[piece.variable]);
  }
  return bytes;
}

}  // namespace tandem::distribute

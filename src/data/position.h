/// Where an iterator stands, as bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::data {

struct Position {
  int64_t epoch = 0;
  int64_t elements = 0;         ///< The number of elements already given.
  std::string transformations;  ///< The transformations of the data set, as Source::str() has them.

  bool operator==(const Position&) const = default;
};

std::string to_bytes(const Position& position);

/// Throws DataLoss for anything that to_bytes did not make.
Position position_from(std::string_view bytes);

}  // namespace tandem::data

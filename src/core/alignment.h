/// Where memory that kernels see starts and what its parts are rounded up to: a cache line, which
/// no vector crosses and no two threads write at once.
#pragma once

#include <cstddef>

namespace tandem::core {

inline constexpr size_t kAlignment = 64;

/// `bytes` rounded up to a multiple of kAlignment.
constexpr size_t aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace tandem::core

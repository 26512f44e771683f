/// The checksum of checkpoints: CRC-32C (Castagnoli), with the instruction for it where the
/// processor has one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::checkpoint {

/// The checksum of some bytes followed by `bytes` more, from that of the former (0 of none).
uint32_t extend_crc32c(uint32_t crc, const void* data, size_t bytes);

inline uint32_t crc32c(const void* data, size_t bytes) { return extend_crc32c(0, data, bytes); }

/// The checksum of two runs of bytes that follow each other, from those of each.
uint32_t combine_crc32c(uint32_t first, uint32_t second, size_t second_bytes);

/// A checksum as it is stored: one of bytes that contain their own checksum would be of little
/// worth.
constexpr uint32_t mask_crc32c(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

/// For tests: as on a processor that has no instruction for it.
uint32_t extend_crc32c_by_table(uint32_t crc, const void* data, size_t bytes);

}  // namespace tandem::checkpoint

#include "checkpoint/crc32c.h"

#include <array>
#include <cstring>

namespace tandem::checkpoint {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78u;  // Reflected: the highest bit is x^0.

constexpr uint32_t times_x(uint32_t a) { return (a & 1) != 0 ? a >> 1 ^ kPolynomial : a >> 1; }

/// The product of two polynomials, modulo the checksum's.
constexpr uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = 1u << 31; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = times_x(b);
  }
  return product;
}

/// x to the power of 8 * 2^i.
constexpr auto kPowers = []() {
  std::array<uint32_t, 64> powers{};
  powers[0] = 1u << 23;
  for (size_t i = 1; i < powers.size(); ++i) powers[i] = multiply(powers[i - 1], powers[i - 1]);
  return powers;
}();

/// x to the power of 8 * `bytes`: what a checksum is multiplied by when that many zeros follow.
constexpr uint32_t power(size_t bytes) {
  uint32_t result = 1u << 31;
  for (size_t i = 0; bytes != 0; bytes >>= 1, ++i) {
    if ((bytes & 1) != 0) result = multiply(kPowers[i], result);
  }
  return result;
}

constexpr auto kTable = []() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = times_x(crc);
    table[i] = crc;
  }
  return table;
}();

#if defined(__x86_64__)

uint64_t word_at(const uint8_t* at) {
  uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

/// The instruction takes three cycles, and one can start in each: three lanes run side by side.
__attribute__((target("sse4.2"))) uint32_t extend_by_instruction(uint32_t crc, const uint8_t* at,
                                                                 size_t bytes) {
  constexpr size_t kLane = 8 << 10;
  constexpr uint32_t kAcrossLane = power(kLane);
  uint64_t state = ~crc;
  for (; bytes >= 3 * kLane; bytes -= 3 * kLane, at += 3 * kLane) {
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t i = 0; i < kLane; i += 8) {
      state = __builtin_ia32_crc32di(state, word_at(at + i));
      second = __builtin_ia32_crc32di(second, word_at(at + kLane + i));
      third = __builtin_ia32_crc32di(third, word_at(at + 2 * kLane + i));
    }
    second ^= multiply(kAcrossLane, static_cast<uint32_t>(state));
    state = third ^ multiply(kAcrossLane, static_cast<uint32_t>(second));
  }
  for (; bytes >= 8; bytes -= 8, at += 8) state = __builtin_ia32_crc32di(state, word_at(at));
  auto rest = static_cast<uint32_t>(state);
  for (; bytes > 0; --bytes, ++at) rest = __builtin_ia32_crc32qi(rest, *at);
  return ~rest;
}

bool has_instruction() {
  static const bool has = __builtin_cpu_supports("sse4.2") != 0;
  return has;
}

#endif

}  // namespace

uint32_t extend_crc32c_by_table(uint32_t crc, const void* data, size_t bytes) {
  const auto* at = static_cast<const uint8_t*>(data);
  crc = ~crc;
  for (size_t i = 0; i < bytes; ++i) crc = kTable[(crc ^ at[i]) & 0xff] ^ crc >> 8;
  return ~crc;
}

uint32_t extend_crc32c(uint32_t crc, const void* data, size_t bytes) {
#if defined(__x86_64__)
  if (has_instruction())
    return extend_by_instruction(crc, static_cast<const uint8_t*>(data), bytes);
#endif
  return extend_crc32c_by_table(crc, data, bytes);
}

uint32_t combine_crc32c(uint32_t first, uint32_t second, size_t second_bytes) {
  return multiply(power(second_bytes), first) ^ second;
}

}  // namespace tandem::checkpoint

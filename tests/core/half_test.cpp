#include "core/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tandem::core {
namespace {

constexpr uint32_t kFloat16Infinity = 0x7c00;

TEST(Float16, EveryNumberSurvivesTheWayToFloatAndBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = to_float(Float16{static_cast<uint16_t>(bits)});
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(to_float16(value))));
    } else {
      EXPECT_EQ(to_float16(value).bits, bits);
    }
  }
}

TEST(Float16, RoundsToTheNearestAndTiesToEven) {
  for (uint32_t bits = 0; bits + 1 < kFloat16Infinity; ++bits) {
    const float below = to_float(Float16{static_cast<uint16_t>(bits)});
    const float above = to_float(Float16{static_cast<uint16_t>(bits + 1)});
    const float middle = (below + above) / 2;
    EXPECT_EQ(to_float16(middle).bits, bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(to_float16(std::nextafter(middle, below)).bits, bits);
    EXPECT_EQ(to_float16(std::nextafter(middle, above)).bits, bits + 1);
  }
}

TEST(Float16, WhatIsTooLargeBecomesInfinity) {
  EXPECT_EQ(to_float16(65519.0f).bits, kFloat16Infinity - 1);
  EXPECT_EQ(to_float16(65520.0f).bits, kFloat16Infinity);
  EXPECT_EQ(to_float16(-std::numeric_limits<float>::infinity()).bits, 0x8000 | kFloat16Infinity);
}

TEST(BFloat16, EveryNumberSurvivesTheWayToFloatAndBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = to_float(BFloat16{static_cast<uint16_t>(bits)});
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(to_bfloat16(value))));
    } else {
      EXPECT_EQ(to_bfloat16(value).bits, bits);
    }
  }
}

TEST(BFloat16, RoundsTiesToEven) {
  EXPECT_EQ(to_bfloat16(1.0f + 0x1p-8f).bits, 0x3f80);
  EXPECT_EQ(to_bfloat16(1.0f + 0x3p-8f).bits, 0x3f82);
}

}  // namespace
}  // namespace tandem::core

#include "collective/element_sum.h"

#include <algorithm>

#include "collective/tree.h"
#include "core/half.h"

namespace tandem::collective {
namespace {

template <class T>
T plus(T a, T b) {
  return static_cast<T>(a + b);
}
bool plus(bool a, bool b) { return a || b; }
core::Float16 plus(core::Float16 a, core::Float16 b) {
  return core::to_float16(to_float(a) + to_float(b));
}
core::BFloat16 plus(core::BFloat16 a, core::BFloat16 b) {
  return core::to_bfloat16(to_float(a) + to_float(b));
}

/// The two do not overlap, which lets the compiler add several elements at once.
template <class T>
void add_to(T* __restrict sums, const T* __restrict values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sums[i] = plus(sums[i], values[i]);
}

template <class T>
void sum(std::span<const void* const> values, void* out, int64_t count) {
  constexpr int64_t kBlock = 256;
  constexpr int kMostRanks = 1 << 16;
  T* const result = static_cast<T*>(out);
  if (values.size() == 2) {
    const T* a = static_cast<const T*>(values[0]);
    const T* b = static_cast<const T*>(values[1]);
    if (result == a || result == b) {
      add_to(result, result == a ? b : a, count);
    } else {
      for (int64_t i = 0; i < count; ++i) result[i] = plus(a[i], b[i]);
    }
    return;
  }
  T sums[tree_depth(kMostRanks)][kBlock];
  for (int64_t i = 0; i < count; i += kBlock) {
    const int64_t n = std::min(kBlock, count - i);
    const auto value = [&](int r, int) {
      return static_cast<const T*>(values[static_cast<size_t>(r)]) + i;
    };
    const auto add = [&](const T* a, const T* b, int depth) -> const T* {
      for (int64_t k = 0; k < n; ++k) sums[depth][k] = plus(a[k], b[k]);
      return sums[depth];
    };
    const T* total = tree_sum(0, static_cast<int>(values.size()), value, add);
    if (total != result + i) std::copy_n(total, n, result + i);
  }
}

}  // namespace

void sum_elements(DType dtype, std::span<const void* const> values, void* out, int64_t count) {
  switch (dtype) {
    case DType::float32:
      return sum<float>(values, out, count);
    case DType::float64:
      return sum<double>(values, out, count);
    case DType::float16:
      return sum<core::Float16>(values, out, count);
    case DType::bfloat16:
      return sum<core::BFloat16>(values, out, count);
    case DType::uint8:
      return sum<uint8_t>(values, out, count);
    case DType::int32:
      return sum<int32_t>(values, out, count);
    case DType::int64:
      return sum<int64_t>(values, out, count);
    case DType::boolean:
      return sum<bool>(values, out, count);
    case DType::int8:
      return sum<int8_t>(values, out, count);
    case DType::int16:
      return sum<int16_t>(values, out, count);
    case DType::uint16:
      return sum<uint16_t>(values, out, count);
    case DType::uint32:
      return sum<uint32_t>(values, out, count);
    case DType::uint64:
      return sum<uint64_t>(values, out, count);
  }
}

}  // namespace tandem::collective

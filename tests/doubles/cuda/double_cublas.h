/// What the doubles of cuBLAS and of cuBLASLt have in common: handles, and matrices that lie column
/// by column, with the rules for sizes, leading dimensions and strides.
#pragma once

#include <algorithm>
#include <bit>
#include <type_traits>

#include "device/cuda/cuda_cublas.h"
#include "double_calls.h"

namespace tandem::doubles::cuda {

struct CublasDouble {
  DoubleContextPtr context;
  CUstream stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
};

Book<CublasDouble>& cublas_handles();

template <class Body>
cublasStatus_t cublas_call(const char* name, const Body& body) {
  constexpr LibraryErrors<cublasStatus_t> kErrors{
      CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_INVALID_VALUE, CUBLAS_STATUS_EXECUTION_FAILED};
  return library_call(name, kErrors, body);
}

/// TensorFloat-32 has 10 bits behind the leading one.
template <class T>
T rounded(T value, bool is_rounded) {
  if constexpr (std::is_same_v<T, float>) {
    if (is_rounded) {
      return std::bit_cast<float>((std::bit_cast<uint32_t>(value) + 0x1000u) & ~0x1fffu);
    }
  }
  return value;
}

/// A matrix as cuBLAS takes it: element (i, j) of it is at i + j * ld, transposed or not.
template <class T>
struct ColumnMajor {
  T* data;
  int64_t rows, columns;  // The matrix's as it is multiplied.
  int64_t ld;
  long long stride;
  bool is_transposed = false;

  T& at(int64_t batch, int64_t i, int64_t j) const {
    return data[batch * stride + (is_transposed ? j + i * ld : i + j * ld)];
  }

  /// What it takes of memory, checked.
  UsedMemory used(const char* name, int64_t batch, int device) const {
    const int64_t lines = is_transposed ? columns : rows;
    const int64_t others = is_transposed ? rows : columns;
    require(ld >= std::max<int64_t>(1, lines),
            fmt::format("{}: a leading dimension of {} for {} rows", name, ld, lines));
    require(stride >= 0, fmt::format("{}: a stride of {}", name, stride));
    if (lines == 0 || others == 0 || batch == 0)
      return {reinterpret_cast<CUdeviceptr>(data), 0, device};
    const int64_t last = (batch - 1) * stride + (others - 1) * ld + lines;
    return {reinterpret_cast<CUdeviceptr>(data), static_cast<size_t>(last) * sizeof(T), device};
  }
};

/// Element (i, j) of one of the products.
template <class T>
T dot(const ColumnMajor<const T>& left, const ColumnMajor<const T>& right, int64_t batch, int64_t i,
      int64_t j, bool is_rounded) {
  T sum = 0;
  for (int64_t l = 0; l < left.columns; ++l) {
    sum += rounded(left.at(batch, i, l), is_rounded) * rounded(right.at(batch, l, j), is_rounded);
  }
  return sum;
}

/// Descriptors of cuBLASLt that are live.
size_t cublaslt_descriptors();

}  // namespace tandem::doubles::cuda

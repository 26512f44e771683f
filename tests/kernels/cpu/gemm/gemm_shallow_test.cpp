#include <gtest/gtest.h>

#include "kernels/cpu/gemm/gemm.h"

namespace tandem::kernels::cpu {
namespace {

template <class T>
void check(int64_t m, int64_t n, int64_t k, bool transpose_b) {
  const int64_t lda = k + 3;
  const int64_t ldb = (transpose_b ? k : n) + 2;
  const int64_t ldc = n + 1;
  const GemmShape shape{dtype_of<T>, m, n, k, false, transpose_b, lda, ldb, ldc};
  std::vector<T> a(static_cast<size_t>(m * lda));
  std::vector<T> b(static_cast<size_t>((transpose_b ? n : k) * ldb));
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<T>(static_cast<int>(i * 7 % 11) - 5);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<T>(static_cast<int>(i * 5 % 13) - 6);
  std::vector<T> c(static_cast<size_t>(m * ldc), T{99});
  const auto gemm = prepare_gemm_with("shallow", shape);
  std::vector<char> workspace(gemm->workspace_bytes() + 1);
  gemm->run(a.data(), b.data(), c.data(), workspace.data());
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < ldc; ++j) {
      T wanted = j < n ? T{0} : T{99};  // What lies between the rows is not touched.
      for (int64_t p = 0; j < n && p < k; ++p) {
        wanted += a[static_cast<size_t>(i * lda + p)] *
                  b[static_cast<size_t>(transpose_b ? j * ldb + p : p * ldb + j)];
      }
      ASSERT_EQ(c[static_cast<size_t>(i * ldc + j)], wanted) << i << "," << j;
    }
  }
}

TEST(ShallowGemm, EqualsThePlainSums) {
  for (int64_t m : {1, 3, 4, 9}) {
    for (int64_t n : {1, 16, 17, 40, 67}) {
      for (int64_t k : {1, 10, 16}) {
        for (bool transpose_b : {false, true}) {
          check<float>(m, n, k, transpose_b);
          check<double>(m, n, k, transpose_b);
        }
      }
    }
  }
}

TEST(ShallowGemm, IsChosenForFewTermsOnly) {
  const auto chosen = [](int64_t n, int64_t k, bool transpose_a) {
    const GemmShape shape{DType::float32, 64, n, k, transpose_a, true, transpose_a ? 64 : k, k, n};
    return std::string(prepare_gemm(shape)->provider());
  };
  EXPECT_EQ(chosen(1024, 10, false), "shallow");
  EXPECT_NE(chosen(1024, 17, false), "shallow");
  EXPECT_NE(chosen(1024, 10, true), "shallow");
  EXPECT_NE(chosen(10, 10, false), "shallow");
}

}  // namespace
}  // namespace tandem::kernels::cpu

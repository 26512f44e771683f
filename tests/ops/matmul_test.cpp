#include <gtest/gtest.h>

#include "harness/op_check.h"

namespace tandem::harness {
namespace {

std::vector<double> plain_product(const Tensor& a, const Tensor& b, bool ta, bool tb) {
  const auto x = a.to_vector<double>();
  const auto y = b.to_vector<double>();
  const int64_t m = a.shape()[ta ? 1 : 0];
  const int64_t k = a.shape()[ta ? 0 : 1];
  const int64_t n = b.shape()[tb ? 0 : 1];
  const auto at = [](const std::vector<double>& v, int64_t i, int64_t j, int64_t columns, bool t,
                     int64_t rows) {
    return v[static_cast<size_t>(t ? j * rows + i : i * columns + j)];
  };
  std::vector<double> c(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t p = 0; p < k; ++p) {
        c[static_cast<size_t>(i * n + j)] += at(x, i, p, k, ta, m) * at(y, p, j, n, tb, k);
      }
    }
  }
  return c;
}

TEST(Matmul, EveryTransposition) {
  for (const auto& [m, k, n] :
       std::vector<std::array<int64_t, 3>>{{4, 3, 2}, {1, 5, 1}, {7, 2, 17}, {3, 0, 2}}) {
    for (int transposed = 0; transposed < 4; ++transposed) {
      const bool ta = (transposed & 1) != 0;
      const bool tb = (transposed & 2) != 0;
      const Tensor a = spread(ta ? Shape{k, m} : Shape{m, k}, 1);
      const Tensor b = spread(tb ? Shape{n, k} : Shape{k, n}, 2);
      check_op({.name = "matmul " + a.shape().str() + b.shape().str(),
                .inputs = {a, b},
                .f =
                    [=](const Tensors& t) {
                      return matmul(t[0], t[1], {.transpose_a = ta, .transpose_b = tb});
                    },
                .expected = plain_product(a, b, ta, tb),
                .shape = {m, n},
                .follows_rows = !ta && m != (tb ? n : k)});
    }
  }
}

TEST(Matmul, LargeProductsOnSeveralThreads) {
  const Tensor a = spread({65, 129}, 1);
  const Tensor b = spread({129, 33}, 2);
  check_op({.name = "large",
            .inputs = {a, b},
            .f = [](const Tensors& t) { return matmul(t[0], t[1]); },
            .expected = plain_product(a, b, false, false),
            .shape = {65, 33},
            .differentiable = false,
            .follows_rows = true,
            .tolerance = 1e-11});
}

TEST(Matmul, ErrorsReadLikeTheDocumentation) {
  const auto message = [](const Shape& a, const Shape& b,
                          const MatmulOptions& options) -> std::string {
    try {
      matmul(fill(a, 1), fill(b, 1), options);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message({4, 3}, {5, 2}, {}), "matmul: inner sizes differ, [4,3] and [5,2]");
  EXPECT_EQ(message({4, 3}, {4, 2}, {.transpose_b = true}),
            "matmul: inner sizes differ, [4,3] and [4,2] (transposed)");
  EXPECT_EQ(message({3}, {3, 2}, {}), "matmul: both sides must be matrices, got [3] and [3,2]");
  EXPECT_THROW(matmul(fill({2, 2}, 1, DType::int32), fill({2, 2}, 1, DType::int32)),
               InvalidArgument);
}

}  // namespace
}  // namespace tandem::harness

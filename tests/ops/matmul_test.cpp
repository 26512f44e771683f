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

/// Matrix by matrix, `a` and `b` repeated along batch axes of size 1.
std::vector<double> plain_products(const Tensor& a, const Tensor& b, bool ta, bool tb,
                                   const Shape& batch) {
  const auto matrices_of = [&](const Tensor& x) {
    const Shape& shape = x.shape();
    const Shape matrix{shape[shape.rank() - 2], shape[shape.rank() - 1]};
    const auto values = x.to_vector<double>();
    const auto size = static_cast<size_t>(matrix.count());
    std::vector<Tensor> matrices;
    for (int64_t index = 0; index < batch.count(); ++index) {
      int64_t rest = index;
      int64_t own = 0;
      int64_t stride = 1;
      for (int axis = batch.rank() - 1; axis >= 0; --axis) {
        const int64_t coordinate = rest % batch[axis];
        rest /= batch[axis];
        const int in_x = axis - (batch.rank() - (shape.rank() - 2));
        if (in_x < 0) continue;
        if (shape[in_x] != 1) own += coordinate * stride;
        stride *= shape[in_x];
      }
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(size) * own;
      matrices.push_back(doubles({first, first + static_cast<std::ptrdiff_t>(size)}, matrix));
    }
    return matrices;
  };
  const auto as = matrices_of(a);
  const auto bs = matrices_of(b);
  std::vector<double> c;
  for (size_t i = 0; i < as.size(); ++i) {
    const auto product = plain_product(as[i], bs[i], ta, tb);
    c.insert(c.end(), product.begin(), product.end());
  }
  return c;
}

TEST(Matmul, BatchesBroadcast) {
  struct Batches {
    Shape a, b, c;
  };
  const std::vector<Batches> cases = {
      {{3}, {3}, {3}},       {{3}, {}, {3}},           {{}, {3}, {3}},       {{2, 3}, {3}, {2, 3}},
      {{2, 1}, {3}, {2, 3}}, {{2, 1}, {1, 3}, {2, 3}}, {{1}, {1}, {1}},      {{0}, {0}, {0}},
      {{0}, {1}, {0}},       {{1, 3}, {2, 1}, {2, 3}}, {{2, 3}, {}, {2, 3}},
  };
  const auto with_matrix = [](const Shape& batch, int64_t rows, int64_t columns) {
    return batch.inserted(batch.rank(), rows).inserted(batch.rank() + 1, columns);
  };
  for (const Batches& batches : cases) {
    for (int transposed = 0; transposed < 4; ++transposed) {
      const bool ta = (transposed & 1) != 0;
      const bool tb = (transposed & 2) != 0;
      const Tensor a = spread(with_matrix(batches.a, ta ? 2 : 5, ta ? 5 : 2), 1);
      const Tensor b = spread(with_matrix(batches.b, tb ? 4 : 2, tb ? 2 : 4), 2);
      const bool split_a = batches.a.rank() > 0 && batches.a.rows() > 1;
      check_op({.name = "matmul " + a.shape().str() + b.shape().str(),
                .inputs = {a, b},
                .f =
                    [=](const Tensors& t) {
                      return matmul(t[0], t[1], {.transpose_a = ta, .transpose_b = tb});
                    },
                .expected = plain_products(a, b, ta, tb, batches.c),
                .shape = with_matrix(batches.c, 5, 4),
                .follows_rows = split_a && batches.a.rank() >= batches.b.rank() &&
                                a.shape()[0] != b.shape()[0]});
    }
  }
}

/// Parts of threads begin and end within matrices.
TEST(Matmul, ManyMatricesOnSeveralThreads) {
  for (const bool ta : {false, true}) {
    const Tensor a = spread(ta ? Shape{7, 32, 31} : Shape{7, 31, 32}, 1);
    const Tensor b = spread({7, 32, 33}, 2);
    check_op({.name = "many",
              .inputs = {a, b},
              .f = [ta](const Tensors& t) { return matmul(t[0], t[1], {.transpose_a = ta}); },
              .expected = plain_products(a, b, ta, false, {7}),
              .shape = {7, 31, 33},
              .differentiable = false,
              .tolerance = 1e-11});
  }
}

TEST(Matmul, SecondDerivativesOfBatches) {
  // f = sum (a b) (a b): the derivative of its gradient along a is checked by differences.
  const Tensor b = spread({3, 2}, 4);
  check_op({.name = "gradient",
            .inputs = {spread({2, 4, 3}, 3)},
            .f =
                [b = b.to_vector<double>()](const Tensors& t) {
                  GradientTape tape;
                  tape.watch(t[0]);
                  const Tensor c = matmul(t[0], cast(doubles(b, {3, 2}), t[0].dtype()));
                  return tape.gradient(reduce_sum(c * c * 0.5), Tensors{t[0]})[0];
                },
            .expected =
                [&] {
                  const Tensor a = spread({2, 4, 3}, 3);
                  const auto c = plain_products(a, b, false, false, {2});
                  return plain_products(doubles(c, {2, 4, 2}), b, false, true, {2});
                }(),
            .shape = {2, 4, 3}});
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
  EXPECT_EQ(message({2, 4, 3}, {5, 3, 2}, {}),
            "matmul: batch axes do not broadcast, [2,4,3] and [5,3,2]");
  EXPECT_THROW(matmul(fill({2, 2}, 1, DType::int32), fill({2, 2}, 1, DType::int32)),
               InvalidArgument);
}

}  // namespace
}  // namespace tandem::harness

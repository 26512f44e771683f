#include "kernels/cpu/gemm/shared_matmul.h"

#include <gtest/gtest.h>
#include <hwy/aligned_allocator.h>

#include <barrier>
#include <random>
#include <thread>
#include <vector>

namespace tandem::kernels::cpu {
namespace {

using Matrix = std::vector<float>;

Matrix random_matrix(int64_t elements, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(-1, 1);
  Matrix matrix(static_cast<size_t>(elements));
  for (float& element : matrix) element = value(random);
  return matrix;
}

GemmShape shape_of(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b) {
  return {DType::float32,      m, n, k, transpose_a, transpose_b, transpose_a ? m : k,
          transpose_b ? k : n, n};
}

/// Doubles what it is given, so that an element it got twice shows.
class Doubling final : public ElementFunctions {
 public:
  void apply(void* elements, const void*, int64_t count) const override {
    for (int64_t i = 0; i < count; ++i) static_cast<float*>(elements)[i] *= 2;
  }
};

Matrix bias_of(const GemmShape& s) { return random_matrix(s.n, 3); }

/// On as many threads, `rounds` times in the same workspaces.
Matrix run(const op::Executable& executable, const GemmShape& s, int parts, int rounds = 1,
           bool with_bias = false) {
  Matrix a = random_matrix(s.m * s.k, 1);
  Matrix b = random_matrix(s.k * s.n, 2);
  Matrix c(static_cast<size_t>(s.m * s.n));
  Matrix bias = bias_of(s);
  void* addresses[] = {a.data(), b.data(), c.data(), bias.data()};
  const std::vector<int> operands = with_bias ? std::vector{0, 1, 3, 2} : std::vector{0, 1, 2};
  const size_t stride = (executable.workspace_bytes() + 63) / 64 * 64;
  const auto workspaces = hwy::AllocateAligned<char>(stride * static_cast<size_t>(parts));
  std::barrier meeting(parts);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(parts));
  for (int part = 0; part < parts; ++part) {
    threads.emplace_back([&, part] {
      op::Launch launch{.addresses = addresses,
                        .operands = operands.data(),
                        .inputs = with_bias ? 3 : 2,
                        .outputs = 1,
                        .workspaces = workspaces.get(),
                        .workspace_stride = stride,
                        .part = part,
                        .parts = parts};
      for (int round = 0; round < rounds; ++round) {
        for (launch.phase = 0; launch.phase < executable.phases(); ++launch.phase) {
          executable.run(launch);
          meeting.arrive_and_wait();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return c;
}

Matrix by_definition(const GemmShape& s) {
  const Matrix a = random_matrix(s.m * s.k, 1);
  const Matrix b = random_matrix(s.k * s.n, 2);
  Matrix c(static_cast<size_t>(s.m * s.n));
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < s.k; ++p) {
        sum +=
            static_cast<double>(a[static_cast<size_t>(s.transpose_a ? p * s.m + i : i * s.k + p)]) *
            static_cast<double>(b[static_cast<size_t>(s.transpose_b ? j * s.k + p : p * s.n + j)]);
      }
      c[static_cast<size_t>(i * s.n + j)] = static_cast<float>(sum);
    }
  }
  return c;
}

// Sizes of one panel and of many, of fewer panels than threads, and that no panel divides.
const GemmShape kShapes[] = {
    shape_of(6, 16, 8, false, false),     shape_of(5, 7, 3, true, true),
    shape_of(70, 600, 330, true, false),  shape_of(401, 130, 64, false, true),
    shape_of(800, 40, 100, false, false),
};

TEST(SharedMatmul, AnyNumberOfThreadsGivesTheSameBits) {
  for (const GemmShape& shape : kShapes) {
    SCOPED_TRACE(testing::Message() << shape.m << "x" << shape.n << "x" << shape.k);
    const Matrix expected = by_definition(shape);
    const Matrix alone = run(*make_shared_matmul(shape, {}, nullptr, 1), shape, 1);
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(alone[i], expected[i], 1e-4) << i;
    for (const int parts : {2, 3, 7}) {
      EXPECT_EQ(run(*make_shared_matmul(shape, {}, nullptr, parts), shape, parts), alone) << parts;
    }
  }
}

TEST(SharedMatmul, FunctionsSeeEachElementOnce) {
  for (const GemmShape& shape : kShapes) {
    Matrix doubled = run(*make_shared_matmul(shape, {}, nullptr, 1), shape, 1);
    for (float& element : doubled) element *= 2;
    for (const int parts : {1, 2, 3}) {
      const auto executable = make_shared_matmul(shape, {}, std::make_unique<Doubling>(), parts);
      EXPECT_EQ(run(*executable, shape, parts, 3), doubled) << shape.m << " rows, " << parts;
    }
  }
}

TEST(SharedMatmul, ABiasIsAddedToTheWholeSumOfEachRow) {
  for (const GemmShape& shape : kShapes) {
    Matrix expected = run(*make_shared_matmul(shape, {}, nullptr, 1), shape, 1);
    const Matrix bias = bias_of(shape);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += bias[i % bias.size()];
    for (const int parts : {1, 2, 5}) {
      const auto executable = make_shared_matmul(shape, {.bias = 2}, nullptr, parts);
      EXPECT_EQ(run(*executable, shape, parts, 2, true), expected) << shape.m << " rows, " << parts;
    }
  }
}

}  // namespace
}  // namespace tandem::kernels::cpu

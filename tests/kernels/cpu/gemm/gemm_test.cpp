#include "kernels/cpu/gemm/gemm.h"

#include <cblas.h>
#include <gtest/gtest.h>
#include <hwy/aligned_allocator.h>
#include <hwy/targets.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/compute_scope.h"
#include "harness/throws.h"
#include "tandem/error.h"

// Where OpenBLAS gets and returns the buffer that a product needs.
extern "C" void* blas_memory_alloc(int);
extern "C" void blas_memory_free(void*);

namespace tandem::kernels::cpu {
namespace {

using harness::error_of;
constexpr int64_t kGap = 3;
constexpr bool kBoth[] = {false, true};

GemmShape shape_of(DType dtype, int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b,
                   int64_t gap = 0) {
  return {dtype,
          m,
          n,
          k,
          transpose_a,
          transpose_b,
          (transpose_a ? m : k) + gap,
          (transpose_b ? k : n) + gap,
          n + gap};
}

std::string text_of(const GemmShape& s) {
  const std::string sizes =
      std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k);
  return sizes + (s.transpose_a ? " T" : " N") + (s.transpose_b ? "T " : "N ") +
         std::string(name_of(s.dtype)) + " lda " + std::to_string(s.lda);
}

/// A matrix whose rows are followed by NaN, so that a read between the rows shows in the result. It
/// ends with its last element, so that a read past the end is seen by the address sanitizer.
template <class T>
std::vector<T> random_matrix(int64_t rows, int64_t columns, int64_t stride, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<T> value(-1, 1);
  if (rows == 0 || columns == 0) return {};
  std::vector<T> matrix((rows - 1) * stride + columns, std::numeric_limits<T>::quiet_NaN());
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) matrix[i * stride + j] = value(random);
  }
  return matrix;
}

/// A shape with operands and the product by the definition.
template <class T>
struct Problem {
  explicit Problem(const GemmShape& s, unsigned seed = 1)
      : shape(s),
        a(s.transpose_a ? random_matrix<T>(s.k, s.m, s.lda, seed)
                        : random_matrix<T>(s.m, s.k, s.lda, seed)),
        b(s.transpose_b ? random_matrix<T>(s.n, s.k, s.ldb, seed + 1)
                        : random_matrix<T>(s.k, s.n, s.ldb, seed + 1)),
        expected(s.m * s.n) {
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = 0;
        for (int64_t p = 0; p < s.k; ++p) {
          const double left = s.transpose_a ? a[p * s.lda + i] : a[i * s.lda + p];
          const double right = s.transpose_b ? b[j * s.ldb + p] : b[p * s.ldb + j];
          sum += left * right;
        }
        expected[i * s.n + j] = sum;
      }
    }
  }

  /// Runs `gemm` on a C full of NaN and compares.
  void check(const Gemm& gemm) const {
    constexpr T kUntouched = 12345;
    const GemmShape& s = shape;
    std::vector<T> c(s.m * s.ldc, kUntouched);
    for (int64_t i = 0; i < s.m; ++i) {
      std::fill_n(c.begin() + i * s.ldc, s.n, std::numeric_limits<T>::quiet_NaN());
    }
    const auto workspace = hwy::AllocateAligned<char>(std::max<size_t>(1, gemm.workspace_bytes()));
    gemm.run(a.data(), b.data(), c.data(), workspace.get());

    const double tolerance = std::numeric_limits<T>::epsilon() * static_cast<double>(s.k + 8);
    int64_t wrong = 0;
    int64_t touched_gaps = 0;
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        wrong += !(std::abs(c[i * s.ldc + j] - expected[i * s.n + j]) <= tolerance);
      }
      for (int64_t j = s.n; j < s.ldc; ++j) touched_gaps += c[i * s.ldc + j] != kUntouched;
    }
    EXPECT_EQ(wrong, 0) << gemm.provider() << " " << text_of(s);
    EXPECT_EQ(touched_gaps, 0) << gemm.provider() << " " << text_of(s);
  }

  GemmShape shape;
  std::vector<T> a, b;
  std::vector<double> expected;
};

void check(const char* provider, const GemmShape& shape) {
  const core::ComputeScope single;
  const std::unique_ptr<Gemm> gemm =
      provider != nullptr ? prepare_gemm_with(provider, shape) : prepare_gemm(shape);
  if (shape.dtype == DType::float32) {
    Problem<float>(shape).check(*gemm);
  } else {
    Problem<double>(shape).check(*gemm);
  }
}

/// Calls `f(transpose_a, transpose_b)` for all four.
template <class F>
void for_each_transpose(const F& f) {
  for (const bool transpose_a : kBoth) {
    for (const bool transpose_b : kBoth) f(transpose_a, transpose_b);
  }
}

void check_odd_sizes(const char* provider, DType dtype) {
  constexpr int64_t kSizes[][3] = {{1, 1, 1},   {1, 17, 300}, {2, 3, 5},    {7, 9, 11},
                                   {33, 65, 2}, {64, 17, 10}, {70, 70, 70}, {130, 40, 259}};
  for (const auto& size : kSizes) {
    for_each_transpose([&](bool transpose_a, bool transpose_b) {
      for (const int64_t gap : {int64_t{0}, kGap}) {
        check(provider, shape_of(dtype, size[0], size[1], size[2], transpose_a, transpose_b, gap));
      }
    });
  }
}

TEST(Gemm, OpenBlasAgreesWithTheDefinition) {
  check_odd_sizes("openblas", DType::float32);
  check_odd_sizes("openblas", DType::float64);
}

TEST(Gemm, OneDnnAgreesWithTheDefinition) { check_odd_sizes("onednn", DType::float32); }

TEST(Gemm, TheTableAgreesWithTheDefinition) {
  check_odd_sizes(nullptr, DType::float32);
  check_odd_sizes(nullptr, DType::float64);
  for (int64_t n = 1; n <= 17; ++n) {
    check(nullptr, shape_of(DType::float32, 20, n, 100, false, false));
    check(nullptr, shape_of(DType::float64, 20, n, 100, true, false));
  }
}

// The sizes lie on both sides of each choice that the narrow product makes: vectors of 1 to 16
// lanes, tiles of 1 to 8 rows, k packed in one, two and three parts.
void check_narrow(DType dtype) {
  constexpr int64_t kSizes[][2] = {{1, 1},    {1, 300},  {2, 64},   {3, 7},    {4, 63},  {5, 128},
                                   {9, 65},   {13, 130}, {16, 100}, {17, 256}, {31, 16}, {64, 10},
                                   {100, 33}, {149, 3},  {6, 1300}, {3, 4109}};
  for (int64_t n = 1; n <= 16; ++n) {
    for (const auto& size : kSizes) {
      for_each_transpose([&](bool transpose_a, bool transpose_b) {
        check("narrow",
              shape_of(dtype, size[0], n, size[1], transpose_a, transpose_b, n % 2 * kGap));
      });
    }
  }
}

template <class F>
void for_each_instruction_set(const F& f) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    f();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(NarrowGemm, AgreesWithTheDefinitionOnEveryInstructionSet) {
  for_each_instruction_set([] {
    check_narrow(DType::float32);
    check_narrow(DType::float64);
  });
}

// The last sizes take several blocks of rows, and several passes over the terms.
TEST(PackedGemm, AgreesWithTheDefinitionOnEveryInstructionSet) {
  for_each_instruction_set([] {
    check_odd_sizes("packed", DType::float32);
    for_each_transpose([](bool transpose_a, bool transpose_b) {
      check("packed", shape_of(DType::float32, 200, 96, 64, transpose_a, transpose_b, kGap));
      check("packed", shape_of(DType::float32, 97, 33, 999, transpose_a, transpose_b));
    });
  });
}

TEST(NarrowGemm, KeepsInfinityToItsOwnRow) {
  const GemmShape shape = shape_of(DType::float32, 4, 5, 67, false, false);
  Problem<float> problem(shape);
  for (int64_t p = 0; p < shape.k; ++p) problem.b[p * shape.ldb] = 1;
  problem.a[2 * shape.lda + 60] = std::numeric_limits<float>::infinity();
  const auto gemm = prepare_gemm_with("narrow", shape);
  std::vector<float> c(shape.m * shape.ldc);
  std::vector<char> workspace(gemm->workspace_bytes());
  gemm->run(problem.a.data(), problem.b.data(), c.data(), workspace.data());
  EXPECT_EQ(c[2 * shape.ldc], std::numeric_limits<float>::infinity());
  for (const int64_t row : {0, 1, 3}) EXPECT_TRUE(std::isfinite(c[row * shape.ldc])) << row;
}

TEST(Gemm, NoTermsMakeZero) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const int64_t n : {5, 40}) {
      const GemmShape shape = shape_of(dtype, 3, n, 0, false, false, kGap);
      EXPECT_STREQ(prepare_gemm(shape)->provider(), "fill");
      check(nullptr, shape);
    }
  }
}

TEST(Gemm, NoRowsOrColumnsTouchNothing) {
  check(nullptr, shape_of(DType::float32, 0, 5, 7, false, false, kGap));
  check(nullptr, shape_of(DType::float32, 5, 0, 7, true, false, kGap));
  check(nullptr, shape_of(DType::float64, 0, 0, 0, false, true, kGap));
}

/// Who computes a float32 product that `parts` threads share, by CPU.
struct Choice {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  int parts;
  const char *avx2, *avx512;
};

TEST(Gemm, TheTableChoosesByShapeThreadsAndCpu) {
  const Choice choices[] = {
      {64, 10, 784, false, false, 1, "narrow", "narrow"},
      {64, 64, 1024, false, false, 1, "onednn", "onednn"},
      {512, 1024, 128, true, false, 1, "packed", "onednn"},
      {1024, 256, 1024, true, false, 1, "packed", "packed"},
      {512, 256, 1024, false, true, 1, "packed", "onednn"},
      {64, 512, 128, false, false, 1, "packed", "onednn"},
      {32, 1024, 1024, false, false, 1, "openblas", "onednn"},
      {64, 1024, 1024, false, false, 1, "packed", "onednn"},
      {128, 1024, 1024, false, true, 2, "onednn", "packed"},
      {1024, 768, 256, false, false, 2, "packed", "packed"},
      {256, 256, 1024, true, false, 2, "packed", "onednn"},
      {2048, 4096, 4096, false, false, 1, "openblas", "onednn"},
      {1024, 16384, 256, false, false, 1, "onednn", "onednn"},
      // Threads pack together what is small in all, not what each has as few rows of.
      {256, 4096, 1024, false, false, 1, "packed", "onednn"},
      {256, 4096, 1024, false, false, 2, "packed", "packed"},
      {512, 4096, 1024, false, false, 2, "openblas", "onednn"},
  };
  for (const Choice& c : choices) {
    const GemmShape shape = shape_of(DType::float32, c.m, c.n, c.k, c.transpose_a, c.transpose_b);
    SCOPED_TRACE(testing::Message() << c.m << "x" << c.n << "x" << c.k << " on " << c.parts);
    EXPECT_EQ(static_gemm_provider(shape, c.parts, CpuKind::avx2), c.avx2);
    EXPECT_EQ(static_gemm_provider(shape, c.parts, CpuKind::avx512), c.avx512);
  }
}

TEST(Gemm, OpenBlasComputesFloat64Everywhere) {
  const GemmShape shape = shape_of(DType::float64, 512, 1024, 128, true, false);
  for (const CpuKind cpu : {CpuKind::avx2, CpuKind::avx512, CpuKind::other}) {
    EXPECT_EQ(static_gemm_provider(shape, 1, cpu), "openblas");
  }
}

// OpenBLAS takes CPUs newer than itself for the oldest; see openblas_core.cpp.
TEST(Gemm, OpenBlasUsesTheVectorsOfThisCpu) {
  const std::string core = openblas_get_corename();
  if (std::getenv("OPENBLAS_CORETYPE") != nullptr) GTEST_SKIP() << "told to be " << core;
  for (const char* narrow : {"Prescott", "Core2", "Nehalem", "Atom", "Barcelona"}) {
    EXPECT_TRUE(this_cpu() == CpuKind::other || core != narrow) << core;
  }
}

// Several threads at once, each on products of its own and all on shared ones.
TEST(Gemm, ThreadsRunAtOnce) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 50;
  const GemmShape shapes[] = {shape_of(DType::float32, 64, 10, 300, false, false),
                              shape_of(DType::float32, 64, 10, 128, true, true),
                              shape_of(DType::float32, 40, 70, 90, false, true),
                              shape_of(DType::float64, 65, 33, 50, false, false)};
  std::vector<std::pair<const char*, GemmShape>> work;
  for (const GemmShape& shape : shapes) {
    work.emplace_back("openblas", shape);
    if (shape.dtype == DType::float32) {
      work.emplace_back("onednn", shape);
      work.emplace_back("packed", shape);
    }
    if (shape.n <= 16) work.emplace_back("narrow", shape);
  }
  std::vector<std::unique_ptr<Gemm>> shared;
  shared.reserve(work.size());
  for (const auto& [provider, shape] : work) shared.push_back(prepare_gemm_with(provider, shape));

  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const core::ComputeScope single;
      for (size_t w = 0; w < work.size(); ++w) {
        const size_t i = (w + t) % work.size();
        const auto& [provider, shape] = work[i];
        const std::unique_ptr<Gemm> own = prepare_gemm_with(provider, shape);
        const auto run = [&](const auto& problem) {
          for (int round = 0; round < kRounds; ++round)
            problem.check(round % 2 == 0 ? *own : *shared[i]);
        };
        if (shape.dtype == DType::float32) {
          run(Problem<float>(shape, t));
        } else {
          run(Problem<double>(shape, t));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(OpenBlas, ThreadsNeverShareABuffer) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 400000;
  std::atomic<int> shared{0};
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        void* const buffer = blas_memory_alloc(0);
        auto& owner = *static_cast<std::atomic<int>*>(buffer);
        owner.store(t);
        for (int look = 0; look < 4; ++look) shared += owner.load() != t;
        blas_memory_free(buffer);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shared, 0);
}

TEST(Gemm, OtherTypesAreNamedInTheError) {
  const std::string message =
      error_of<Unimplemented>([] { prepare_gemm(shape_of(DType::int32, 2, 2, 2, false, false)); });
  EXPECT_NE(message.find("int32"), std::string::npos) << message;
  EXPECT_NE(message.find("float32 and float64"), std::string::npos) << message;
}

TEST(Gemm, AProviderThatDoesNotTakeTheShapeSaysWhatItTakes) {
  const std::string wide = error_of<Unimplemented>(
      [] { prepare_gemm_with("narrow", shape_of(DType::float32, 2, 17, 2, false, false)); });
  EXPECT_NE(wide.find("16 columns"), std::string::npos) << wide;
  const std::string f64 = error_of<Unimplemented>(
      [] { prepare_gemm_with("onednn", shape_of(DType::float64, 2, 2, 2, false, false)); });
  EXPECT_NE(f64.find("float32"), std::string::npos) << f64;
}

TEST(Gemm, AnUnknownProviderIsAnErrorThatListsTheOthers) {
  const std::string message = error_of<NotFound>(
      [] { prepare_gemm_with("mkl", shape_of(DType::float32, 2, 2, 2, false, false)); });
  EXPECT_NE(message.find("mkl"), std::string::npos) << message;
  EXPECT_NE(message.find("narrow, shallow, packed, onednn, openblas"), std::string::npos)
      << message;
}

}  // namespace
}  // namespace tandem::kernels::cpu

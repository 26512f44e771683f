// `tandem tune`: measures the providers of matrix products on this machine, for products of many
// shapes, and writes down where another than the static choice is clearly faster.
#include <fmt/format.h>
#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "core/compute_scope.h"
#include "kernels/cpu/gemm/provider_table.h"
#include "tandem/error.h"
#include "tandem/providers.h"

namespace tandem::providers {
namespace {

namespace cpu = kernels::cpu;
using cpu::GemmClass;
using cpu::GemmShape;

/// A candidate must be so much faster than the static choice to take its place.
constexpr double kClearly = 1.05;

/// Sizes of which a product is worth measuring: smaller ones are done before a choice matters,
/// larger ones behave as the largest.
constexpr int kSmallest = 4;
constexpr int64_t kLargest = 8192;
constexpr double kMostFlops = 5e8;

std::vector<GemmClass> classes(int64_t largest) {
  int top = kSmallest;
  while ((int64_t{2} << top) <= largest) ++top;
  std::vector<GemmClass> all;
  for (int m = kSmallest; m <= top; ++m) {
    for (int n = kSmallest; n <= top; ++n) {
      for (int k = kSmallest; k <= top; ++k) {
        const double flops = 2.0 * static_cast<double>(int64_t{1} << (m + n + k));
        if (flops > kMostFlops) continue;
        for (const auto& [a, b] : {std::pair(false, false), {false, true}, {true, false}}) {
          for (bool collides : {false, true}) {
            all.push_back({DType::float32, a, b, collides, m, n, k});
          }
        }
      }
    }
  }
  return all;
}

/// The operands of the largest product, used by all.
struct Operands {
  std::vector<float> a, b, c;
  hwy::AlignedFreeUniquePtr<char[]> workspace;
  size_t workspace_bytes = 0;

  void reserve(const GemmShape& s) {
    const auto grow = [](std::vector<float>& memory, int64_t rows, int64_t apart) {
      const auto size = static_cast<size_t>(rows * apart);
      if (memory.size() < size) memory.resize(size, 0.5F);
    };
    grow(a, s.transpose_a ? s.k : s.m, s.lda);
    grow(b, s.transpose_b ? s.n : s.k, s.ldb);
    grow(c, s.m, s.ldc);
  }

  void reserve_workspace(size_t bytes) {
    if (bytes <= workspace_bytes) return;
    workspace = hwy::AllocateAligned<char>(bytes);
    workspace_bytes = bytes;
  }
};

/// The seconds of one run, the best of several.
double seconds_of(const cpu::Gemm& gemm, Operands& memory, double at_least) {
  using Clock = std::chrono::steady_clock;
  memory.reserve_workspace(gemm.workspace_bytes());
  const auto run = [&] {
    const auto begin = Clock::now();
    gemm.run(memory.a.data(), memory.b.data(), memory.c.data(), memory.workspace.get());
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  run();
  double best = run();
  double spent = best;
  for (int i = 0; i < 200 && (spent < at_least || i < 2); ++i) {
    const double now = run();
    best = std::min(best, now);
    spent += now;
  }
  return best;
}

}  // namespace

TuneResult tune(const std::string& path, const TuneOptions& options) {
  if (options.largest < (1 << kSmallest) || options.largest > kLargest) {
    throw InvalidArgument(fmt::format("tune: largest is {}; from {} to {} is accepted",
                                      options.largest, 1 << kSmallest, kLargest));
  }
  const core::ComputeScope computing;
  cpu::ProviderTable::check_writable(path);  // Fails now rather than after the work.
  cpu::ProviderTable table;
  TuneResult result;
  Operands memory;
  const std::vector<GemmClass> all = classes(options.largest);
  double gains = 0;
  for (const GemmClass& shapes : all) {
    const GemmShape shape = cpu::typical_shape(shapes);
    memory.reserve(shape);
    const std::string usual = cpu::static_gemm_provider(shape);
    double usual_seconds = 0;
    double best_seconds = 0;
    std::string best;
    for (const std::string& name : cpu::gemm_providers_for(shape)) {
      const double seconds = seconds_of(*cpu::prepare_gemm_with(name.c_str(), shape), memory,
                                        options.seconds_per_candidate);
      if (name == usual) usual_seconds = seconds;
      if (best.empty() || seconds < best_seconds) {
        best = name;
        best_seconds = seconds;
      }
    }
    if (usual_seconds > best_seconds * kClearly) {
      table.set(shapes, best);
      ++result.different;
      gains += usual_seconds / best_seconds;
    } else {
      gains += 1;
    }
    ++result.classes;
    if (options.progress) options.progress(result.classes, static_cast<int>(all.size()));
  }
  if (result.classes > 0) result.gain = gains / result.classes;
  table.write(path);
  return result;
}

}  // namespace tandem::providers

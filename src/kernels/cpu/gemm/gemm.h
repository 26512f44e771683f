/// Matrix products on one core: C = op(A) * op(B), row-major, float32 or float64.
///
/// A team of threads splits a product into parts and each thread runs its own part, so nothing here
/// starts a thread. A thread that runs a Gemm holds a core::ComputeScope, which keeps oneDNN
/// on that thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cpu/cpu_kind.h"
#include "tandem/dtype.h"

namespace tandem::kernels::cpu {

/// op(A) is m x k, op(B) is k x n, C is m x n. A leading dimension is the distance between two rows
/// in memory, in elements: of A as it lies there, k x m if transposed.
struct GemmShape {
  DType dtype = DType::float32;
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t lda = 0, ldb = 0, ldc = 0;
};

/// A prepared product. Any number of threads may run it at once, each with its own workspace.
class Gemm {
 public:
  virtual ~Gemm() = default;

  /// Overwrites C; the gaps between its rows are left alone. `workspace` has workspace_bytes()
  /// bytes, aligned to 64, and holds nothing between calls. A and B do not overlap C.
  virtual void run(const void* a, const void* b, void* c, void* workspace) const = 0;
  virtual size_t workspace_bytes() const { return 0; }

  /// Its name in the table of gemm.cpp; "fill" for a product that has no terms.
  virtual const char* provider() const = 0;
};

/// The best provider for a product of which each of `parts` threads computes some rows: by the
/// measured table in use (provider_table.h) where that knows the shape of a part, else by the
/// static one. Throws Unimplemented if the dtype is not float32 or float64.
std::string gemm_provider(const GemmShape& shape, int parts);

/// Prepares a product by the best provider for one thread.
std::unique_ptr<Gemm> prepare_gemm(const GemmShape& shape);

/// The same with a provider of the caller's choice. Throws NotFound if there is none of that name,
/// and Unimplemented if it does not take this shape.
std::unique_ptr<Gemm> prepare_gemm_with(const char* provider, const GemmShape& shape);

/// What the static table says of a product that `parts` threads share, who takes a shape at all,
/// and whether there is such a provider.
std::string static_gemm_provider(const GemmShape& shape, int parts = 1, CpuKind cpu = this_cpu());
std::vector<std::string> gemm_providers_for(const GemmShape& shape);
bool is_gemm_provider(std::string_view name);

}  // namespace tandem::kernels::cpu

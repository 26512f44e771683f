#include "kernels/cpu/gemm/gemm.h"

#include <cblas.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kernels/cpu/gemm/gemm_narrow.h"
#include "kernels/cpu/gemm/gemm_packed.h"
#include "kernels/cpu/gemm/gemm_shallow.h"
#include "kernels/cpu/gemm/provider_table.h"
#include "tandem/error.h"

namespace tandem::kernels::cpu {
namespace {

bool is_empty(const GemmShape& s) { return s.m == 0 || s.n == 0 || s.k == 0; }

/// A product without terms is zero.
class FillGemm final : public Gemm {
 public:
  explicit FillGemm(const GemmShape& shape) : shape_(shape) {}

  void run(const void*, const void*, void* c, void*) const override {
    const size_t element = size_of(shape_.dtype);
    for (int64_t i = 0; i < shape_.m; ++i) {
      std::memset(static_cast<char*>(c) + i * shape_.ldc * element, 0, shape_.n * element);
    }
  }
  const char* provider() const override { return "fill"; }

 private:
  const GemmShape shape_;
};

std::string text_of(const GemmShape& s) {
  return std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) + " of " +
         std::string(name_of(s.dtype));
}

/// dnnl_sgemm is what a matmul primitive calls on AVX2, and spares the primitive, its memory
/// objects and its scratchpad.
class OneDnnGemm final : public Gemm {
 public:
  explicit OneDnnGemm(const GemmShape& shape) : shape_(shape) {}

  void run(const void* a, const void* b, void* c, void*) const override {
    const GemmShape& s = shape_;
    const dnnl_status_t status =
        dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k, 1.0F,
                   static_cast<const float*>(a), s.lda, static_cast<const float*>(b), s.ldb, 0.0F,
                   static_cast<float*>(c), s.ldc);
    if (status == dnnl_success) return;
    throw Unavailable("gemm: oneDNN refused " + text_of(s) + " with status " +
                      std::to_string(status));
  }
  const char* provider() const override { return "onednn"; }

 private:
  const GemmShape shape_;
};

/// The serial build. That threads may call it at once is the doing of openblas_buffers.cpp.
class OpenBlasGemm final : public Gemm {
 public:
  explicit OpenBlasGemm(const GemmShape& shape) : shape_(shape) {}

  void run(const void* a, const void* b, void* c, void*) const override {
    const GemmShape& s = shape_;
    const auto order_a = s.transpose_a ? CblasTrans : CblasNoTrans;
    const auto order_b = s.transpose_b ? CblasTrans : CblasNoTrans;
    const auto m = static_cast<blasint>(s.m), n = static_cast<blasint>(s.n),
               k = static_cast<blasint>(s.k);
    const auto lda = static_cast<blasint>(s.lda), ldb = static_cast<blasint>(s.ldb),
               ldc = static_cast<blasint>(s.ldc);
    if (s.dtype == DType::float32) {
      cblas_sgemm(CblasRowMajor, order_a, order_b, m, n, k, 1.0F, static_cast<const float*>(a), lda,
                  static_cast<const float*>(b), ldb, 0.0F, static_cast<float*>(c), ldc);
    } else {
      cblas_dgemm(CblasRowMajor, order_a, order_b, m, n, k, 1.0, static_cast<const double*>(a), lda,
                  static_cast<const double*>(b), ldb, 0.0, static_cast<double*>(c), ldc);
    }
  }
  const char* provider() const override { return "openblas"; }

 private:
  const GemmShape shape_;
};

/// OpenBLAS counts in 32 bits.
bool fits_openblas(const GemmShape& s) {
  const int64_t largest = std::max({s.m, s.n, s.k, s.lda, s.ldb, s.ldc});
  return largest <= std::numeric_limits<blasint>::max();
}

template <class G>
std::unique_ptr<Gemm> make(const GemmShape& shape) {
  return std::make_unique<G>(shape);
}

struct Provider {
  std::string_view name;
  std::string_view takes;
  bool (*accepts)(const GemmShape&);
  std::unique_ptr<Gemm> (*make)(const GemmShape&);
};

constexpr Provider kProviders[] = {
    {"fill", "products of which a size is zero", is_empty, make<FillGemm>},
    {"narrow", "at most 16 columns",
     [](const GemmShape& s) { return !is_empty(s) && s.n <= kNarrowColumns; }, make_narrow_gemm},
    {"shallow", "at most 16 terms, the first side as it is",
     [](const GemmShape& s) { return !is_empty(s) && s.k <= kShallowTerms && !s.transpose_a; },
     make_shallow_gemm},
    {kPackedProvider, "float32",
     [](const GemmShape& s) { return !is_empty(s) && s.dtype == DType::float32; },
     make_packed_gemm},
    {"onednn", "float32",
     [](const GemmShape& s) { return !is_empty(s) && s.dtype == DType::float32; },
     make<OneDnnGemm>},
    {"openblas", "sizes below 2^31",
     [](const GemmShape& s) { return !is_empty(s) && fits_openblas(s); }, make<OpenBlasGemm>},
};

/// Whether a product that reads its operands where they lie walks down columns whose elements fall
/// into the same few sets of a cache: 2 KB apart, or 1 KB if A is walked down as well. Rows of a
/// transposed B are walked side by side; 4 KB apart they collide too, which shows from 256 rows on.
bool strides_collide(const GemmShape& s) {
  if (s.transpose_b && s.ldb % 1024 == 0 && s.m >= 256) return true;
  const int64_t stride = s.transpose_a && s.k >= 64 ? 256 : 512;
  return (!s.transpose_b && s.ldb % stride == 0) || (s.transpose_a && s.lda % stride == 0);
}

/// Large every way: threads can share it, each taking what it gets to.
bool is_large(const GemmShape& s) { return s.m >= 96 && s.n >= 128 && s.k >= 64; }

/// A product, or one thread's rows of it.
struct Part : GemmShape {
  GemmShape whole;
  int parts;
};

Part part_of(const GemmShape& whole, int parts) {
  Part part{whole, whole, parts};
  part.m = (whole.m + parts - 1) / parts;
  return part;
}

/// Packed as a whole, B does not stay in the third cache, nor in the second where few rows use it.
/// Where A is what is packed as a whole, it is worth it from 48 rows on.
bool packs_too_much(const Part& s) {
  if (s.whole.m >= 48 && PackedProduct::shares_a(s.whole, s.parts)) return false;
  return s.n * s.k > (s.m < 96 ? 128 * 1024 : 1024 * 1024);
}

/// Which provider computes what; the first rule that applies decides.
struct Rule {
  const char* provider;
  bool (*applies)(const Part&);
};

constexpr Rule kEverywhere[] = {
    {"fill", [](const Part& s) { return is_empty(s); }},
    {"narrow", [](const Part& s) { return s.n <= kNarrowColumns; }},
    {"shallow", [](const Part& s) { return s.k <= kShallowTerms && !s.transpose_a; }},
    {"openblas", [](const Part& s) { return s.dtype == DType::float64; }},
};

/// Measured on Zen 3, the best of many runs over the parts of real layers and random shapes.
/// GFLOP/s of a core, of 104 possible:
///
///                                     narrow  onednn  openblas  packed
///   64x10x784                             88      56        42       -
///   64x64x1024, 128x64x64                  -  99, 96    77, 68  77, 85
///   512x1024x256, 512x768x256              -  94, 95    90, 90  95, 95
///   512x256x1024 NT, 512x256x64 TN         -  87, 39    88, 73  91, 92
///   64x512x128, 392x512x1024               -  68, 57    78, 70  91, 77
///   64x1024x1024, 256x16384x256            -  45, 36    84, 86  85, 85
///   1024x2048x2048, 1024x16384x256         -  92, 92    95, 89  88, 84
///
/// On two threads, which pack together, 113 products of 96 to 288 rows with a B of more than 1M
/// elements took 0.77 to 1.04 times as long packed as by OpenBLAS, 0.91 in the middle.
constexpr Rule kWithAvx2[] = {
    {"onednn", [](const Part& s) { return s.m <= 4 || s.k <= 16; }},
    {"onednn", [](const Part& s) { return !is_large(s) && !strides_collide(s); }},
    {"onednn", [](const Part& s) { return packs_too_much(s) && s.m >= 384 && s.k <= 384; }},
    {"openblas", packs_too_much},
    {kPackedProvider, [](const Part&) { return true; }},
};

/// Measured on an Emerald Rapids Xeon, `packed` with panels of both operands. GFLOP/s of a core, of
/// 189 possible:
///
///                                     narrow    onednn  openblas    packed
///   64x10x784                            110        84        70         -
///   64x64x1024, 128x64x64                  -  168, 158  130, 174  125, 134
///   512x1024x256, 512x768x256              -  186, 191  164, 169  172, 176
///   512x1024x128 TN, 1024x256x1024 TN      -  184, 141  155, 162  171, 151
///   64x1024x1024, 128x1024x1024            -  159, 167  125, 143  125, 150
///   2048x2048x2048, 1024x16384x256         -  172, 159  167, 147  149, 158
///
/// That is with operands in the cache. Within a training step, where they are not, threads that
/// pack together gain more than that: a transformer's products then take as long packed as by
/// oneDNN or up to a quarter less, but where both sizes of the result are small.
constexpr Rule kWithAvx512[] = {
    {"onednn", [](const Part& s) { return s.parts == 1 && !(s.transpose_a && s.lda % 1024 == 0); }},
    {"onednn", [](const Part& s) { return !is_large(s.whole) || packs_too_much(s); }},
    {"onednn", [](const Part& s) { return s.transpose_a && s.whole.m <= 256 && s.n <= 256; }},
    {kPackedProvider, [](const Part&) { return true; }},
};

/// Nothing was measured: the libraries, which know the CPU, compute what is large.
constexpr Rule kElsewhere[] = {
    {"onednn", [](const Part& s) { return !strides_collide(s); }},
    {"openblas", [](const Part&) { return true; }},
};

/// The rules of a CPU, after those that hold everywhere.
std::span<const Rule> rules_of(CpuKind cpu) {
  switch (cpu) {
    case CpuKind::avx2:
      return kWithAvx2;
    case CpuKind::avx512:
      return kWithAvx512;
    case CpuKind::other:
      break;
  }
  return kElsewhere;
}

const Provider& find_provider(std::string_view name) {
  std::string known;
  for (const Provider& provider : kProviders) {
    if (provider.name == name) return provider;
    known.append(known.empty() ? "" : ", ").append(provider.name);
  }
  throw NotFound("gemm: no provider \"" + std::string(name) + "\", there are " + known);
}

std::string static_provider(const Part& part, CpuKind cpu = this_cpu()) {
  for (const std::span<const Rule> rules : {std::span<const Rule>(kEverywhere), rules_of(cpu)}) {
    const auto found =
        std::ranges::find_if(rules, [&](const Rule& rule) { return rule.applies(part); });
    if (found != rules.end()) return found->provider;
  }
  throw Unimplemented("gemm: no provider takes " + text_of(part));
}

void check_dtype(const GemmShape& shape) {
  if (shape.dtype == DType::float32 || shape.dtype == DType::float64) return;
  throw Unimplemented("gemm: " + std::string(name_of(shape.dtype)) +
                      " has no product, float32 and float64 have");
}

}  // namespace

std::unique_ptr<Gemm> prepare_gemm_with(const char* name, const GemmShape& shape) {
  check_dtype(shape);
  assert(shape.lda >= (shape.transpose_a ? shape.m : shape.k));
  assert(shape.ldb >= (shape.transpose_b ? shape.k : shape.n));
  assert(shape.ldc >= shape.n);
  const Provider& provider = find_provider(name);
  if (!provider.accepts(shape)) {
    throw Unimplemented("gemm: " + std::string(name) + " does not take " + text_of(shape) +
                        ", it takes " + std::string(provider.takes));
  }
  return provider.make(shape);
}

std::string static_gemm_provider(const GemmShape& shape, int parts, CpuKind cpu) {
  return static_provider(part_of(shape, parts), cpu);
}

std::vector<std::string> gemm_providers_for(const GemmShape& shape) {
  std::vector<std::string> names;
  for (const Provider& provider : kProviders) {
    if (provider.accepts(shape)) names.emplace_back(provider.name);
  }
  return names;
}

bool is_gemm_provider(std::string_view name) {
  return std::ranges::any_of(kProviders, [&](const Provider& p) { return p.name == name; });
}

std::string gemm_provider(const GemmShape& shape, int parts) {
  check_dtype(shape);
  const Part part = part_of(shape, parts);
  const std::optional<std::string> measured = measured_provider(part);
  // A class may hold shapes that its provider does not take.
  if (measured && find_provider(*measured).accepts(part)) return *measured;
  return static_provider(part);
}

std::unique_ptr<Gemm> prepare_gemm(const GemmShape& shape) {
  return prepare_gemm_with(gemm_provider(shape, 1).c_str(), shape);
}

}  // namespace tandem::kernels::cpu

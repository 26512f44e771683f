#include "device/cuda/cuda_cublaslt.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

namespace tandem::devices::cuda {
namespace {

constexpr LibraryName kNames[] = {{"libcublasLt.so.13", 13000}, {"libcublasLt.so.12", 12000}};

LoadedCublasLt load(const DriverApi& driver) {
  const LoadedLibrary library = load_library(driver, kNames);
  if (library.handle == nullptr) return {nullptr, {}, library.missing};
  auto* const api = new CublasLtApi;
#define TANDEM_FIND(name, ...)                                                               \
  if (!find_function(library.handle, #name, api->name)) {                                    \
    return {nullptr,                                                                         \
            {},                                                                              \
            fmt::format("\n  {} has no function " #name ", it is too old", library.soname)}; \
  }
  TANDEM_CUBLASLT_FUNCTIONS(TANDEM_FIND)
  TANDEM_FIND(cublasLtGetVersion)
#undef TANDEM_FIND
  const size_t version = api->cublasLtGetVersion();  // 130000 is 13.0.
  return {api,
          fmt::format("{}, version {}.{}", library.soname, version / 10000, version % 10000 / 100),
          {}};
}

/// How the addresses of all matrices are aligned: algorithms differ in what they need.
uint32_t alignment_of(const BiasedProducts::Operands& operands) {
  constexpr uintptr_t kMost = 256;
  const auto all = reinterpret_cast<uintptr_t>(operands.a) |
                   reinterpret_cast<uintptr_t>(operands.b) |
                   reinterpret_cast<uintptr_t>(operands.c) | kMost;
  return static_cast<uint32_t>(all & (~all + 1));  // The lowest bit.
}

/// What the choice of an algorithm depends on.
struct ProductKey {
  int64_t m, n, k, lda, ldb, ldc;
  bool transpose_a, transpose_b, is_rounded;
  uint32_t alignment;
  size_t workspace_bytes;

  auto operator<=>(const ProductKey&) const = default;
};

/// The descriptors of a product, with the algorithm that cuBLASLt has chosen for it. As for cuBLAS
/// (cuda_cublas.cpp), what is asked for is the transposed product, with the factors exchanged: then
/// the bias has an element for each row.
class LtProduct {
 public:
  LtProduct(const CublasLtApi& api, const ProductKey& key, cublasLtHandle_t handle) : api_(api) {
    status_ = create(key, handle);
  }
  ~LtProduct() {
    if (operation_ != nullptr) api_.cublasLtMatmulDescDestroy(operation_);
    for (const cublasLtMatrixLayout_t layout : {a_, b_, c_}) {
      if (layout != nullptr) api_.cublasLtMatrixLayoutDestroy(layout);
    }
  }
  LtProduct(const LtProduct&) = delete;
  LtProduct& operator=(const LtProduct&) = delete;

  cublasStatus_t run(const CublasLtStream& stream, const BiasedProducts::Operands& operands) {
    if (status_ != CUBLAS_STATUS_SUCCESS) return status_;
    const cublasStatus_t set = describe(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
    if (set != CUBLAS_STATUS_SUCCESS) return set;
    const float one = 1;
    const float zero = 0;
    return api_.cublasLtMatmul(stream.handle, operation_, &one, operands.b, b_, operands.a, a_,
                               &zero, operands.c, c_, operands.c, c_, &chosen_.algo,
                               stream.workspace, stream.workspace_bytes, stream.stream);
  }

 private:
  cublasStatus_t create(const ProductKey& key, cublasLtHandle_t handle) {
    const auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
    const auto computed = key.is_rounded ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasStatus_t status = api_.cublasLtMatmulDescCreate(&operation_, computed, CUDA_R_32F);
    const auto then = [&](const auto& next) {
      if (status == CUBLAS_STATUS_SUCCESS) status = next();
    };
    then([&] { return describe(CUBLASLT_MATMUL_DESC_TRANSA, operation(key.transpose_b)); });
    then([&] { return describe(CUBLASLT_MATMUL_DESC_TRANSB, operation(key.transpose_a)); });
    then([&] { return describe(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS); });
    then([&] { return lay_out(a_, key.transpose_a, key.k, key.m, key.lda); });
    then([&] { return lay_out(b_, key.transpose_b, key.n, key.k, key.ldb); });
    then([&] { return lay_out(c_, false, key.n, key.m, key.ldc); });
    then([&] { return choose(key, handle); });
    return status;
  }

  template <class T>
  cublasStatus_t describe(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    return api_.cublasLtMatmulDescSetAttribute(operation_, attribute, &value, sizeof(value));
  }

  /// A matrix that is rows x columns once it is transposed, or not; columns follow one another.
  cublasStatus_t lay_out(cublasLtMatrixLayout_t& layout, bool is_transposed, int64_t rows,
                         int64_t columns, int64_t ld) {
    if (is_transposed) std::swap(rows, columns);
    return api_.cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, static_cast<uint64_t>(rows),
                                           static_cast<uint64_t>(columns), ld);
  }

  cublasStatus_t choose(const ProductKey& key, cublasLtHandle_t handle) {
    cublasLtMatmulPreference_t preference = nullptr;
    cublasStatus_t status = api_.cublasLtMatmulPreferenceCreate(&preference);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      if (status != CUBLAS_STATUS_SUCCESS) return;
      status =
          api_.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value));
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{key.workspace_bytes});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.alignment);
    int found = 0;
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = api_.cublasLtMatmulAlgoGetHeuristic(handle, operation_, b_, a_, c_, c_, preference,
                                                   1, &chosen_, &found);
    }
    if (preference != nullptr) api_.cublasLtMatmulPreferenceDestroy(preference);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    return found == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : chosen_.state;
  }

  const CublasLtApi& api_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr;
  cublasLtMatmulHeuristicResult_t chosen_{};
  cublasStatus_t status_;  // What all of that came to.
};

}  // namespace

const LoadedCublasLt& load_cublaslt(const DriverApi& driver) {
  static std::mutex mutex;
  static auto* const libraries = new std::map<std::string, LoadedCublasLt>;  // By folder.
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = libraries->try_emplace(driver.folder);
  if (is_new) found->second = load(driver);
  return found->second;
}

struct BiasedProducts::Impl {
  const CublasLtApi& api;
  std::mutex mutex{};  // Guards what follows, and the descriptors while they are used.
  std::map<ProductKey, std::unique_ptr<LtProduct>> products{};
};

BiasedProducts::BiasedProducts(const CublasLtApi& api) : impl_(new Impl{api}) {}
BiasedProducts::~BiasedProducts() = default;

cublasStatus_t BiasedProducts::multiply(const CublasLtStream& stream, const gpu::MatrixProduct& s,
                                        const Operands& operands, bool is_rounded) {
  const ProductKey key{.m = s.m,
                       .n = s.n,
                       .k = s.k,
                       .lda = std::max(s.lda, s.transpose_a ? s.m : s.k),
                       .ldb = std::max(s.ldb, s.transpose_b ? s.k : s.n),
                       .ldc = std::max(s.ldc, s.n),
                       .transpose_a = s.transpose_a,
                       .transpose_b = s.transpose_b,
                       .is_rounded = is_rounded,
                       .alignment = alignment_of(operands),
                       .workspace_bytes = stream.workspace_bytes};
  const std::lock_guard lock(impl_->mutex);
  std::unique_ptr<LtProduct>& product = impl_->products[key];
  if (!product) product = std::make_unique<LtProduct>(impl_->api, key, stream.handle);
  return product->run(stream, operands);
}

}  // namespace tandem::devices::cuda

#include "device/cuda/cuda_cublas.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "device/cuda/cuda_cublaslt.h"
#include "device/cuda/cuda_driver.h"
#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::devices::cuda {
namespace {

constexpr LibraryName kNames[] = {{"libcublas.so.13", 13000}, {"libcublas.so.12", 12000}};

LoadedCublas load(const DriverApi& driver) {
  const LoadedLibrary library = load_library(driver, kNames);
  if (library.handle == nullptr) return {nullptr, {}, library.missing};
  auto* const api = new CublasApi;
#define TANDEM_FIND(name, ...)                                                               \
  if (!find_function(library.handle, #name, api->name)) {                                    \
    return {nullptr,                                                                         \
            {},                                                                              \
            fmt::format("\n  {} has no function " #name ", it is too old", library.soname)}; \
  }
  TANDEM_CUBLAS_FUNCTIONS(TANDEM_FIND)
  TANDEM_FIND(cublasGetStatusString)
#undef TANDEM_FIND
  int major = 0;
  int minor = 0;
  api->cublasGetProperty(MAJOR_VERSION, &major);
  api->cublasGetProperty(MINOR_VERSION, &minor);
  return {api, fmt::format("{}, version {}.{}", library.soname, major, minor), {}};
}

/// What two axes of a batch are to cuBLAS, which has one: `count` products at once, so many times.
struct CublasBatch {
  int64_t count = 1, times = 1;
  long long a = 0, b = 0, c = 0;

  static CublasBatch of(const gpu::MatrixProduct& s) {
    if (s.inner == 1) return {s.outer, 1, s.a.outer, s.b.outer, s.c.outer};
    const auto follows = [&](const gpu::MatrixProduct::Steps& steps) {
      return steps.outer == s.inner * steps.inner;
    };
    const bool is_one = s.outer == 1 || (follows(s.a) && follows(s.b) && follows(s.c));
    return {is_one ? s.batch() : s.inner, is_one ? 1 : s.outer, s.a.inner, s.b.inner, s.c.inner};
  }
};

/// A handle of one stream, with a workspace of its own: products on two streams do not meet.
class CublasHandle {
 public:
  CublasHandle(const CublasApi& api, std::shared_ptr<CudaContext> context, CUstream stream)
      : api_(api), context_(std::move(context)) {
    const Current current(*context_);
    check(api_.cublasCreate_v2(&handle_), "cublasCreate");
    try {
      check(api_.cublasSetStream_v2(handle_, stream), "cublasSetStream");
      const size_t bytes = recommended_workspace();
      workspace_ = context_->allocate(bytes);
      if (workspace_ == nullptr) return;  // It finds some by itself.
      workspace_bytes_ = bytes;
      check(api_.cublasSetWorkspace_v2(handle_, workspace(), bytes), "cublasSetWorkspace");
    } catch (...) {
      close();
      throw;
    }
  }
  ~CublasHandle() {
    try {
      const Current current(*context_);
      close();
    } catch (...) {  // A lost device has nothing left to give back.
    }
  }
  CublasHandle(const CublasHandle&) = delete;
  CublasHandle& operator=(const CublasHandle&) = delete;

  cublasHandle_t get() const { return handle_; }

  /// Null, and of no bytes, where there was no memory for it.
  void* workspace() const {
    return workspace_ == nullptr ? nullptr : reinterpret_cast<void*>(workspace_->address);
  }
  size_t workspace_bytes() const { return workspace_bytes_; }

  void check(cublasStatus_t status, const char* function) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    const std::string message = fmt::format(
        "{}: {} ({})", function, api_.cublasGetStatusString(status), static_cast<int>(status));
    if (status == CUBLAS_STATUS_ALLOC_FAILED) throw ResourceExhausted(message);
    if (status == CUBLAS_STATUS_INVALID_VALUE) throw InvalidArgument(message);
    throw Unavailable(message);
  }

 private:
  /// What NVIDIA recommends.
  size_t recommended_workspace() const {
    int generation = 0;
    const DriverApi& driver = context_->api();
    driver.check(driver.cuDeviceGetAttribute(
                     &generation, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, context_->device()),
                 "cuDeviceGetAttribute");
    return size_t{generation >= 9 ? 32u : 4u} << 20;
  }

  void close() noexcept {
    api_.cublasDestroy_v2(handle_);
    if (workspace_ != nullptr) context_->release(workspace_);
  }

  const CublasApi& api_;
  const std::shared_ptr<CudaContext> context_;
  cublasHandle_t handle_ = nullptr;
  DeviceAllocation* workspace_ = nullptr;
  size_t workspace_bytes_ = 0;
};

/// cuBLAS counts columns first: what lies in memory row by row is to it the transposed matrix. So
/// it is asked for the transposed product, which has the factors in the other order.
///
///   C = op(A) * op(B)   row-major, m x n
///   C' = op(B)' * op(A)'   column-major, n x m: the same bytes
class CublasProducts final : public gpu::ProductLibrary {
 public:
  CublasProducts(const CublasApi& api, std::shared_ptr<CudaContext> context)
      : api_(api), context_(std::move(context)) {}

  const char* name() const override { return "cublas"; }
  void open(gpu::Stream& stream) override { handle_of(library_stream(stream).get()); }

  void multiply(gpu::Stream& stream, DType dtype, const gpu::MatrixProduct& s,
                const gpu::Location& a, const gpu::Location& b, const gpu::Location& c) override {
    if (s.m == 0 || s.n == 0 || s.batch() == 0) return;
    LibraryStream& library = library_stream(stream);
    const CublasHandle& handle = handle_of(library.get());
    library.issue([&] {
      handle.check(api_.cublasSetMathMode(handle.get(), config::tensor_float_32_execution_enabled()
                                                            ? CUBLAS_TF32_TENSOR_OP_MATH
                                                            : CUBLAS_DEFAULT_MATH),
                   "cublasSetMathMode");
      if (dtype == DType::float32) {
        multiply<float>(api_.cublasSgemmStridedBatched_64, "cublasSgemmStridedBatched", handle, s,
                        a, b, c);
      } else {
        multiply<double>(api_.cublasDgemmStridedBatched_64, "cublasDgemmStridedBatched", handle, s,
                         a, b, c);
      }
    });
  }

  /// cuBLASLt has a bias for float32. It has relu and gelu behind it, too, but does not say what
  /// becomes of a NaN there, and one that vanished would hide that a training has gone wrong.
  bool multiply_with_bias(gpu::Stream& stream, DType dtype, const gpu::MatrixProduct& s,
                          const gpu::Location& a, const gpu::Location& b, const gpu::Location& bias,
                          const gpu::Location& c) override {
    const bool is_one = s.batch() == 1 && !s.adds && s.m > 0 && s.n > 0 && s.k > 0;
    if (dtype != DType::float32 || !is_one) return false;
    BiasedProducts* const biased = biased_products();
    if (biased == nullptr) return false;
    LibraryStream& library = library_stream(stream);
    const CublasHandle& handle = handle_of(library.get());
    const auto at = [](const gpu::Location& location) {
      return reinterpret_cast<void*>(address_of(location));
    };
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    library.issue([&] {
      status = biased->multiply({.handle = reinterpret_cast<cublasLtHandle_t>(handle.get()),
                                 .stream = library.get(),
                                 .workspace = handle.workspace(),
                                 .workspace_bytes = handle.workspace_bytes()},
                                s, {at(a), at(b), at(bias), at(c)},
                                config::tensor_float_32_execution_enabled());
    });
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return false;
    handle.check(status, "cublasLtMatmul");
    return true;
  }

 private:
  template <class T, class Gemm>
  static void multiply(const Gemm& gemm, const char* function, const CublasHandle& handle,
                       const gpu::MatrixProduct& s, const gpu::Location& a, const gpu::Location& b,
                       const gpu::Location& c) {
    const auto batch = CublasBatch::of(s);
    const auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
    const auto at = [](const gpu::Location& location, int64_t elements) {
      return reinterpret_cast<T*>(address_of(location)) + elements;
    };
    const T one = 1;
    const T sum = s.adds ? 1 : 0;
    // A matrix of one row may come with any distance to the next.
    const int64_t lda = std::max<int64_t>({s.lda, s.transpose_a ? s.m : s.k, 1});
    const int64_t ldb = std::max<int64_t>({s.ldb, s.transpose_b ? s.k : s.n, 1});
    const int64_t ldc = std::max(s.ldc, s.n);
    for (int64_t i = 0; i < batch.times; ++i) {
      handle.check(gemm(handle.get(), operation(s.transpose_b), operation(s.transpose_a), s.n, s.m,
                        s.k, &one, at(b, i * s.b.outer), ldb, batch.b, at(a, i * s.a.outer), lda,
                        batch.a, &sum, at(c, i * s.c.outer), ldc, batch.c, batch.count),
                   function);
    }
  }

  const CublasHandle& handle_of(CUstream stream) {
    const std::lock_guard lock(mutex_);
    auto& handle = handles_[stream];
    if (!handle) handle = std::make_unique<CublasHandle>(api_, context_, stream);
    return *handle;
  }

  /// Null where the library is missing.
  BiasedProducts* biased_products() {
    const std::lock_guard lock(mutex_);
    if (!biased_) {
      const CublasLtApi* const api = load_cublaslt(context_->api()).api;
      biased_ = api == nullptr ? nullptr : std::make_unique<BiasedProducts>(*api);
    }
    return biased_->get();
  }

  const CublasApi& api_;
  const std::shared_ptr<CudaContext> context_;
  std::mutex mutex_;                                       // Guards what follows.
  std::optional<std::unique_ptr<BiasedProducts>> biased_;  // None before it is asked for.
  std::map<CUstream, std::unique_ptr<CublasHandle>> handles_;
};

}  // namespace

const LoadedCublas& load_cublas(const DriverApi& driver) {
  static std::mutex mutex;
  static auto* const libraries = new std::map<std::string, LoadedCublas>;  // By folder.
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = libraries->try_emplace(driver.folder);
  if (is_new) found->second = load(driver);
  return found->second;
}

std::shared_ptr<gpu::ProductLibrary> cublas_products(const CublasApi& api,
                                                     std::shared_ptr<CudaContext> context) {
  return std::make_shared<CublasProducts>(api, std::move(context));
}

}  // namespace tandem::devices::cuda

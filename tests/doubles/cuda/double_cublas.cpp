// A double of cuBLAS: plain loops over matrices that lie column by column, with cuBLAS's rules for
// sizes, leading dimensions and strides.
#include "double_cublas.h"

namespace tandem::doubles::cuda {

#define TANDEM_DECLARE(name, ...) TANDEM_EXPORTED cublasStatus_t name(__VA_ARGS__);
TANDEM_CUBLAS_FUNCTIONS(TANDEM_DECLARE)
#undef TANDEM_DECLARE
TANDEM_EXPORTED const char* cublasGetStatusString(cublasStatus_t status);

namespace {

template <class T>
cublasStatus_t gemm(const char* name, cublasHandle_t handle, cublasOperation_t operation_a,
                    cublasOperation_t operation_b, int64_t m, int64_t n, int64_t k, const T* alpha,
                    const T* a, int64_t lda, long long stride_a, const T* b, int64_t ldb,
                    long long stride_b, const T* beta, T* c, int64_t ldc, long long stride_c,
                    int64_t batch) {
  return cublas_call(name, [&] {
    const auto own = cublas_handles().find(handle);
    require(own->stream != nullptr, "the handle has no stream");
    require(own->context == current(), "the handle is not of the current context");
    require(m >= 0 && n >= 0 && k >= 0 && batch >= 0, "a negative size");
    const ColumnMajor<const T> left{a, m, k, lda, stride_a, operation_a == CUBLAS_OP_T};
    const ColumnMajor<const T> right{b, k, n, ldb, stride_b, operation_b == CUBLAS_OP_T};
    const ColumnMajor<T> result{c, m, n, ldc, stride_c};
    const int device = own->context->device;
    std::vector<UsedMemory> used{left.used("A", batch, device), right.used("B", batch, device),
                                 result.used("C", batch, device)};
    std::erase_if(used, [](const UsedMemory& one) { return one.bytes == 0; });
    const bool is_rounded = own->math == CUBLAS_TF32_TENSOR_OP_MATH;
    ++books().counts["products"];
    // The scalars are the host's, and are read by the call.
    issue_use(own->stream, "product", used, [=, alpha = *alpha, beta = *beta] {
      for (int64_t at = 0; at < batch; ++at) {
        for (int64_t j = 0; j < n; ++j) {
          for (int64_t i = 0; i < m; ++i) {
            T& to = result.at(at, i, j);
            to = alpha * dot(left, right, at, i, j, is_rounded) + (beta == 0 ? 0 : beta * to);
          }
        }
      }
    });
  });
}

}  // namespace

Book<CublasDouble>& cublas_handles() {
  static auto* const book = new Book<CublasDouble>("handle of cuBLAS");
  return *book;
}

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "the resource allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "the function failed to launch on the GPU";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the functionality is not supported";
    default:
      return "the library was not initialized";
  }
}

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  return cublas_call("cublasCreate_v2", [&] {
    *handle = reinterpret_cast<cublasHandle_t>(
        cublas_handles().add(std::make_shared<CublasDouble>(CublasDouble{.context = working()})));
  });
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  return cublas_call("cublasDestroy_v2", [&] { cublas_handles().remove(handle); });
}

cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  *value = type == MAJOR_VERSION ? 13 : 0;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, CUstream stream) {
  return cublas_call("cublasSetStream_v2", [&] {
    stream_of(stream);
    cublas_handles().find(handle)->stream = stream;
  });
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t bytes) {
  return cublas_call("cublasSetWorkspace_v2", [&] {
    const auto own = cublas_handles().find(handle);
    const auto address = reinterpret_cast<CUdeviceptr>(workspace);
    require(address % 256 == 0, "a workspace that is not aligned to 256 bytes");
    books().check_named(address, bytes, own->context->device);
  });
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  return cublas_call("cublasSetMathMode", [&] { cublas_handles().find(handle)->math = mode; });
}

cublasStatus_t cublasSgemmStridedBatched_64(cublasHandle_t handle, cublasOperation_t operation_a,
                                            cublasOperation_t operation_b, int64_t m, int64_t n,
                                            int64_t k, const float* alpha, const float* a,
                                            int64_t lda, long long stride_a, const float* b,
                                            int64_t ldb, long long stride_b, const float* beta,
                                            float* c, int64_t ldc, long long stride_c,
                                            int64_t batch) {
  return gemm("cublasSgemmStridedBatched_64", handle, operation_a, operation_b, m, n, k, alpha, a,
              lda, stride_a, b, ldb, stride_b, beta, c, ldc, stride_c, batch);
}

cublasStatus_t cublasDgemmStridedBatched_64(cublasHandle_t handle, cublasOperation_t operation_a,
                                            cublasOperation_t operation_b, int64_t m, int64_t n,
                                            int64_t k, const double* alpha, const double* a,
                                            int64_t lda, long long stride_a, const double* b,
                                            int64_t ldb, long long stride_b, const double* beta,
                                            double* c, int64_t ldc, long long stride_c,
                                            int64_t batch) {
  return gemm("cublasDgemmStridedBatched_64", handle, operation_a, operation_b, m, n, k, alpha, a,
              lda, stride_a, b, ldb, stride_b, beta, c, ldc, stride_c, batch);
}

}  // namespace tandem::doubles::cuda

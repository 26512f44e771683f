// A double of cuBLASLt: products with a bias, with its rules for descriptors, layouts, alignment
// and workspaces. It takes the handles of cuBLAS.
#include "device/cuda/cuda_cublaslt.h"
#include "double_cublas.h"

namespace tandem::doubles::cuda {

#define TANDEM_DECLARE(name, ...) TANDEM_EXPORTED cublasStatus_t name(__VA_ARGS__);
TANDEM_CUBLASLT_FUNCTIONS(TANDEM_DECLARE)
#undef TANDEM_DECLARE
TANDEM_EXPORTED size_t cublasLtGetVersion();

namespace {

/// What the algorithm of the double takes, where there is so much.
constexpr size_t kWorkspace = 1024;

struct OperationDouble {
  bool is_rounded = false;
  bool transpose_a = false, transpose_b = false;
  bool has_bias = false;
  const float* bias = nullptr;
};

struct LayoutDouble {
  int64_t rows = 0, columns = 0, ld = 0;
};

struct PreferenceDouble {
  uint64_t workspace = 0;
  uint32_t alignment = 256;  // What cuBLASLt takes for granted unless told otherwise.
};

template <class T>
Book<T>& book(const char* kind) {
  static auto* const one = new Book<T>(kind);
  return *one;
}
Book<OperationDouble>& operations() { return book<OperationDouble>("descriptor of a product"); }
Book<LayoutDouble>& layouts() { return book<LayoutDouble>("layout of a matrix"); }
Book<PreferenceDouble>& preferences() { return book<PreferenceDouble>("preference"); }

template <class T>
T read(const void* from, size_t bytes) {
  require(bytes == sizeof(T), fmt::format("an attribute of {} bytes, not {}", sizeof(T), bytes));
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

/// The matrices of a product, checked.
struct LtMatrices {
  ColumnMajor<const float> a, b;
  ColumnMajor<float> c;
};

LtMatrices checked(const OperationDouble& operation, const LayoutDouble& a, const LayoutDouble& b,
                   const LayoutDouble& c, const LayoutDouble& d) {
  const auto matrix = []<class T>(T*, const LayoutDouble& layout, bool is_transposed) {
    ColumnMajor<T> result{nullptr, layout.rows, layout.columns, layout.ld, 0, is_transposed};
    if (is_transposed) std::swap(result.rows, result.columns);
    return result;
  };
  const LtMatrices s{matrix(static_cast<const float*>(nullptr), a, operation.transpose_a),
                     matrix(static_cast<const float*>(nullptr), b, operation.transpose_b),
                     matrix(static_cast<float*>(nullptr), d, false)};
  require(s.a.columns == s.b.rows && s.a.rows == s.c.rows && s.b.columns == s.c.columns,
          "matrices that do not fit");
  require(c.rows == d.rows && c.columns == d.columns && c.ld == d.ld, "C and D differ");
  return s;
}

}  // namespace

size_t cublaslt_descriptors() {
  return operations().size() + layouts().size() + preferences().size();
}

size_t cublasLtGetVersion() { return 130000; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* descriptor,
                                        cublasComputeType_t computed, cudaDataType_t scale) {
  return cublas_call("cublasLtMatmulDescCreate", [&] {
    require(computed == CUBLAS_COMPUTE_32F || computed == CUBLAS_COMPUTE_32F_FAST_TF32,
            "a compute type that the double does not know");
    require(scale == CUDA_R_32F, "a scale type that does not fit");
    const OperationDouble operation{.is_rounded = computed == CUBLAS_COMPUTE_32F_FAST_TF32};
    *descriptor = reinterpret_cast<cublasLtMatmulDesc_t>(
        operations().add(std::make_shared<OperationDouble>(operation)));
  });
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t descriptor) {
  return cublas_call("cublasLtMatmulDescDestroy", [&] { operations().remove(descriptor); });
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  return cublas_call("cublasLtMatmulDescSetAttribute", [&] {
    OperationDouble& operation = *operations().find(descriptor);
    switch (attribute) {
      case CUBLASLT_MATMUL_DESC_TRANSA:
        operation.transpose_a = read<cublasOperation_t>(value, bytes) == CUBLAS_OP_T;
        return;
      case CUBLASLT_MATMUL_DESC_TRANSB:
        operation.transpose_b = read<cublasOperation_t>(value, bytes) == CUBLAS_OP_T;
        return;
      case CUBLASLT_MATMUL_DESC_EPILOGUE:
        require(read<cublasLtEpilogue_t>(value, bytes) == CUBLASLT_EPILOGUE_BIAS,
                "an epilogue that the double does not know");
        operation.has_bias = true;
        return;
      case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        operation.bias = read<const float*>(value, bytes);
        return;
    }
    require(false, "an attribute that the double does not know");
  });
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t columns, int64_t ld) {
  return cublas_call("cublasLtMatrixLayoutCreate", [&] {
    require(type == CUDA_R_32F, "a type that the double does not know");
    require(rows > 0 && columns > 0, "a matrix without elements");
    require(ld >= static_cast<int64_t>(rows),
            fmt::format("a leading dimension of {} for {} rows", ld, rows));
    *layout = reinterpret_cast<cublasLtMatrixLayout_t>(layouts().add(std::make_shared<LayoutDouble>(
        LayoutDouble{static_cast<int64_t>(rows), static_cast<int64_t>(columns), ld})));
  });
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return cublas_call("cublasLtMatrixLayoutDestroy", [&] { layouts().remove(layout); });
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return cublas_call("cublasLtMatmulPreferenceCreate", [&] {
    *preference = reinterpret_cast<cublasLtMatmulPreference_t>(
        preferences().add(std::make_shared<PreferenceDouble>()));
  });
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return cublas_call("cublasLtMatmulPreferenceDestroy", [&] { preferences().remove(preference); });
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  return cublas_call("cublasLtMatmulPreferenceSetAttribute", [&] {
    PreferenceDouble& own = *preferences().find(preference);
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
      own.workspace = read<uint64_t>(value, bytes);
    } else {
      own.alignment = std::min(own.alignment, read<uint32_t>(value, bytes));
    }
  });
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* count) {
  if (books().settings.epilogues == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  return cublas_call("cublasLtMatmulAlgoGetHeuristic", [&] {
    cublas_handles().find(handle);
    checked(*operations().find(descriptor), *layouts().find(a), *layouts().find(b),
            *layouts().find(c), *layouts().find(d));
    require(most >= 1, "no room for an answer");
    const PreferenceDouble& own = *preferences().find(preference);
    results[0] = {};
    results[0].algo.data[0] = own.alignment;
    results[0].algo.data[1] = own.workspace;
    results[0].workspaceSize = own.workspace < kWorkspace ? 0 : kWorkspace;
    *count = 1;
  });
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t descriptor,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, CUstream stream) {
  return cublas_call("cublasLtMatmul", [&] {
    const auto own = cublas_handles().find(handle);
    require(own->context == current(), "the handle is not of the current context");
    const OperationDouble operation = *operations().find(descriptor);
    LtMatrices s = checked(operation, *layouts().find(a_layout), *layouts().find(b_layout),
                           *layouts().find(c_layout), *layouts().find(d_layout));
    require(*static_cast<const float*>(alpha) == 1 && *static_cast<const float*>(beta) == 0,
            "factors that the double does not know");
    require(operation.has_bias && operation.bias != nullptr, "there is no bias");
    require(c == d, "C, which must be D");
    for (const void* matrix : {a, b, static_cast<const void*>(d)}) {
      require(reinterpret_cast<uintptr_t>(matrix) % algorithm->data[0] == 0,
              "a matrix that is not aligned as the algorithm was asked for");
    }
    require(workspace_bytes <= algorithm->data[1],
            "a workspace that the algorithm was not told of");
    s.a.data = static_cast<const float*>(a);
    s.b.data = static_cast<const float*>(b);
    s.c.data = static_cast<float*>(d);
    const int device = own->context->device;
    std::vector<UsedMemory> used{s.a.used("A", 1, device), s.b.used("B", 1, device),
                                 s.c.used("D", 1, device),
                                 UsedMemory{reinterpret_cast<CUdeviceptr>(operation.bias),
                                            static_cast<size_t>(s.c.rows) * sizeof(float), device}};
    if (workspace_bytes > 0) {
      used.push_back({reinterpret_cast<CUdeviceptr>(workspace), workspace_bytes, device});
    }
    ++books().counts["products"];
    ++books().counts["epilogues"];
    issue_use(stream, "product", used, [=] {
      for (int64_t j = 0; j < s.c.columns; ++j) {
        for (int64_t i = 0; i < s.c.rows; ++i) {
          s.c.at(0, i, j) = dot(s.a, s.b, 0, i, j, operation.is_rounded) + operation.bias[i];
        }
      }
    });
  });
}

}  // namespace tandem::doubles::cuda

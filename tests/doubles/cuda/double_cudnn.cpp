// A double of cuDNN's convolutions: plain loops over images [n, h, w, c] and filters [k, h, w, c],
// with cuDNN's rules for descriptors, algorithms and workspaces.
#include <algorithm>

#include "device/cuda/cuda_cudnn.h"
#include "double_calls.h"
#include "double_cublas.h"

namespace tandem::doubles::cuda {

#define TANDEM_DECLARE(name, ...) TANDEM_EXPORTED cudnnStatus_t name(__VA_ARGS__);
TANDEM_CUDNN_FUNCTIONS(TANDEM_DECLARE)
#undef TANDEM_DECLARE
TANDEM_EXPORTED const char* cudnnGetErrorString(cudnnStatus_t status);
TANDEM_EXPORTED size_t cudnnGetVersion();

namespace {

struct CudnnDouble {
  DoubleContextPtr context;
  CUstream stream = nullptr;
};

/// The sizes of images, results or a filter, whose images are its results.
struct Sizes4d {
  bool is_set = false;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int n = 0, c = 0, h = 0, w = 0;

  size_t bytes() const {
    return size_t(n) * size_t(c) * size_t(h) * size_t(w) *
           (type == CUDNN_DATA_FLOAT ? sizeof(float) : sizeof(double));
  }
  size_t at(int i, int y, int x, int channel) const {
    return ((size_t(i) * size_t(h) + size_t(y)) * size_t(w) + size_t(x)) * size_t(c) +
           size_t(channel);
  }
};

struct ConvolutionRule {
  bool is_set = false;
  int pad_y = 0, pad_x = 0, stride_y = 1, stride_x = 1, dilation_y = 1, dilation_x = 1;
  int groups = 1;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

template <class T>
Book<T>& book(const char* kind) {
  static auto* const book = new Book<T>(kind);
  return *book;
}
Book<CudnnDouble>& handles() { return book<CudnnDouble>("handle of cuDNN"); }
Book<Sizes4d>& sizes() { return book<Sizes4d>("descriptor of a tensor or filter"); }
struct DoubleActivation {
  bool is_set = false;
};
Book<DoubleActivation>& activations() {
  return book<DoubleActivation>("descriptor of an activation");
}
Book<ConvolutionRule>& rules() { return book<ConvolutionRule>("descriptor of a convolution"); }

template <class Body>
cudnnStatus_t call(const char* name, const Body& body) {
  constexpr LibraryErrors<cudnnStatus_t> kErrors{CUDNN_STATUS_SUCCESS, CUDNN_STATUS_BAD_PARAM,
                                                 static_cast<cudnnStatus_t>(5000)};
  return library_call(name, kErrors, body);
}

template <class Descriptor, class T>
cudnnStatus_t create(const char* name, Book<T>& book, Descriptor* descriptor) {
  return call(name,
              [&] { *descriptor = reinterpret_cast<Descriptor>(book.add(std::make_shared<T>())); });
}

/// A convolution whose descriptors fit each other.
struct CheckedConvolution {
  Sizes4d image, filter, result;
  ConvolutionRule rule;
};

CheckedConvolution checked(cudnnTensorDescriptor_t image, cudnnFilterDescriptor_t filter,
                           cudnnTensorDescriptor_t result, cudnnConvolutionDescriptor_t rule) {
  const CheckedConvolution s{*sizes().find(image), *sizes().find(filter), *sizes().find(result),
                             *rules().find(rule)};
  require(s.image.is_set && s.filter.is_set && s.result.is_set && s.rule.is_set,
          "a descriptor was never set");
  require(
      s.image.type == s.filter.type && s.image.type == s.result.type && s.image.type == s.rule.type,
      "types differ");
  require(
      s.image.c == s.filter.c * s.rule.groups && s.filter.n % s.rule.groups == 0,
      fmt::format("{} channels, a filter of {}, {} groups", s.image.c, s.filter.c, s.rule.groups));
  const auto places = [](int image, int pad, int filter, int dilation, int stride) {
    return 1 + (image + 2 * pad - ((filter - 1) * dilation + 1)) / stride;
  };
  const int h = places(s.image.h, s.rule.pad_y, s.filter.h, s.rule.dilation_y, s.rule.stride_y);
  const int w = places(s.image.w, s.rule.pad_x, s.filter.w, s.rule.dilation_x, s.rule.stride_x);
  require(s.result.n == s.image.n && s.result.c == s.filter.n && s.result.h == h && s.result.w == w,
          fmt::format("results of [{}, {}, {}, {}] where [{}, {}, {}, {}] are due", s.result.n,
                      s.result.h, s.result.w, s.result.c, s.image.n, h, w, s.filter.n));
  return s;
}

/// Calls `f` with the places of image, filter and result of each product of a convolution.
template <class F>
void each_product(const CheckedConvolution& s, const F& f) {
  const int out = s.filter.n / s.rule.groups;
  for (int n = 0; n < s.result.n; ++n) {
    for (int y = 0; y < s.result.h; ++y) {
      for (int x = 0; x < s.result.w; ++x) {
        for (int k = 0; k < s.filter.n; ++k) {
          for (int i = 0; i < s.filter.h; ++i) {
            const int from_y = y * s.rule.stride_y - s.rule.pad_y + i * s.rule.dilation_y;
            if (from_y < 0 || from_y >= s.image.h) continue;
            for (int j = 0; j < s.filter.w; ++j) {
              const int from_x = x * s.rule.stride_x - s.rule.pad_x + j * s.rule.dilation_x;
              if (from_x < 0 || from_x >= s.image.w) continue;
              for (int c = 0; c < s.filter.c; ++c) {
                f(s.image.at(n, from_y, from_x, k / out * s.filter.c + c), s.filter.at(k, i, j, c),
                  s.result.at(n, y, x, k));
              }
            }
          }
        }
      }
    }
  }
}

enum class Wanted { result, image, filter };

template <class T>
void convolve(const CheckedConvolution& s, Wanted wanted, const void* image, const void* filter,
              const void* result) {
  auto* const x = static_cast<T*>(const_cast<void*>(image));
  auto* const w = static_cast<T*>(const_cast<void*>(filter));
  auto* const y = static_cast<T*>(const_cast<void*>(result));
  switch (wanted) {
    case Wanted::result:
      std::fill_n(y, s.result.bytes() / sizeof(T), T{0});
      return each_product(s, [&](size_t a, size_t b, size_t c) { y[c] += x[a] * w[b]; });
    case Wanted::image:
      std::fill_n(x, s.image.bytes() / sizeof(T), T{0});
      return each_product(s, [&](size_t a, size_t b, size_t c) { x[a] += w[b] * y[c]; });
    case Wanted::filter:
      std::fill_n(w, s.filter.bytes() / sizeof(T), T{0});
      return each_product(s, [&](size_t a, size_t b, size_t c) { w[b] += x[a] * y[c]; });
  }
}

/// Algorithm 1 needs a workspace and gives the same bits each time; so does 0 forward, but not
/// backward, where it is the first choice.
constexpr size_t kWorkspace = 512;

template <class Performance>
void list_algorithms(bool is_forward, int most, int* count, Performance* list) {
  require(most >= 1, "no room for an algorithm");
  using Algorithm = decltype(list->algo);
  const Performance known[] = {{static_cast<Algorithm>(2),
                                CUDNN_STATUS_NOT_SUPPORTED,
                                -1,
                                0,
                                CUDNN_DETERMINISTIC,
                                CUDNN_DEFAULT_MATH,
                                {}},
                               {static_cast<Algorithm>(is_forward ? 1 : 0),
                                CUDNN_STATUS_SUCCESS,
                                1,
                                is_forward ? kWorkspace : 0,
                                is_forward ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC,
                                CUDNN_FMA_MATH,
                                {}},
                               {static_cast<Algorithm>(is_forward ? 0 : 1),
                                CUDNN_STATUS_SUCCESS,
                                2,
                                is_forward ? 0 : kWorkspace,
                                CUDNN_DETERMINISTIC,
                                CUDNN_FMA_MATH,
                                {}}};
  *count = std::min(most, 3);
  std::copy_n(known, *count, list);
}

template <class T>
void add_bias_and_relu(const CheckedConvolution& s, const void* bias, const void* result) {
  auto* const y = static_cast<T*>(const_cast<void*>(result));
  const auto* const b = static_cast<const T*>(bias);
  const auto channels = static_cast<size_t>(s.result.c);
  for (size_t i = 0; i < s.result.bytes() / sizeof(T); ++i) {
    const T sum = y[i] + b[i % channels];
    y[i] = sum < 0 ? T{0} : sum;
  }
}

/// With a bias, relu follows.
void run(Wanted wanted, cudnnHandle_t handle, const CheckedConvolution& s, unsigned algorithm,
         const void* image, const void* filter, const void* result, const void* workspace,
         size_t workspace_bytes, const void* bias = nullptr) {
  const auto own = handles().find(handle);
  require(own->stream != nullptr, "the handle has no stream");
  require(own->context == current(), "the handle is not of the current context");
  require(algorithm <= 1, fmt::format("algorithm {} is not supported", algorithm));
  if (algorithm == 0 && wanted != Wanted::result) ++books().counts["nondeterministic"];
  require(algorithm == 0 || workspace_bytes >= kWorkspace, "the workspace is too small");
  const int device = own->context->device;
  const auto used = [&](const void* data, size_t bytes) {
    return UsedMemory{reinterpret_cast<CUdeviceptr>(data), bytes, device};
  };
  std::vector<UsedMemory> memory{used(image, s.image.bytes()), used(filter, s.filter.bytes()),
                                 used(result, s.result.bytes())};
  if (algorithm == 1) memory.push_back(used(workspace, kWorkspace));
  const bool is_single = s.image.type == CUDNN_DATA_FLOAT;
  const size_t element = is_single ? sizeof(float) : sizeof(double);
  if (bias != nullptr) memory.push_back(used(bias, static_cast<size_t>(s.result.c) * element));
  ++books().counts["convolutions"];
  issue_use(own->stream, "convolution", memory, [=] {
    is_single ? convolve<float>(s, wanted, image, filter, result)
              : convolve<double>(s, wanted, image, filter, result);
    if (bias == nullptr) return;
    is_single ? add_bias_and_relu<float>(s, bias, result)
              : add_bias_and_relu<double>(s, bias, result);
  });
}

/// Results are overwritten, and not scaled: nothing else is asked for.
void require_plain(const CheckedConvolution& s, const void* alpha, const void* beta) {
  const bool is_single = s.image.type == CUDNN_DATA_FLOAT;
  const double scale =
      is_single ? *static_cast<const float*>(alpha) : *static_cast<const double*>(alpha);
  const double kept =
      is_single ? *static_cast<const float*>(beta) : *static_cast<const double*>(beta);
  require(scale == 1 && kept == 0, "alpha is not 1 or beta not 0");
}

}  // namespace

size_t library_handles() {
  return cublas_handles().size() + cublaslt_descriptors() + nccl_communicators() + handles().size();
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS:
      return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM:
      return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED:
      return "CUDNN_STATUS_NOT_SUPPORTED";
  }
  return "CUDNN_STATUS_EXECUTION_FAILED";
}

size_t cudnnGetVersion() { return static_cast<size_t>(books().settings.cudnn); }

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return call("cudnnCreate", [&] {
    *handle = reinterpret_cast<cudnnHandle_t>(
        handles().add(std::make_shared<CudnnDouble>(CudnnDouble{.context = working()})));
  });
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  return call("cudnnDestroy", [&] { handles().remove(handle); });
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, CUstream stream) {
  return call("cudnnSetStream", [&] {
    stream_of(stream);
    handles().find(handle)->stream = stream;
  });
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* descriptor) {
  return create("cudnnCreateTensorDescriptor", sizes(), descriptor);
}

cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t descriptor) {
  return call("cudnnDestroyTensorDescriptor", [&] { sizes().remove(descriptor); });
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t descriptor,
                                         cudnnTensorFormat_t format, cudnnDataType_t type, int n,
                                         int c, int h, int w) {
  return call("cudnnSetTensor4dDescriptor", [&] {
    require(format == CUDNN_TENSOR_NHWC, "another format than NHWC");
    require(n > 0 && c > 0 && h > 0 && w > 0, "a size that is not positive");
    *sizes().find(descriptor) = {true, type, n, c, h, w};
  });
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* descriptor) {
  return create("cudnnCreateFilterDescriptor", sizes(), descriptor);
}

cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t descriptor) {
  return call("cudnnDestroyFilterDescriptor", [&] { sizes().remove(descriptor); });
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t descriptor, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  return call("cudnnSetFilter4dDescriptor", [&] {
    require(format == CUDNN_TENSOR_NHWC, "another format than NHWC");
    require(k > 0 && c > 0 && h > 0 && w > 0, "a size that is not positive");
    *sizes().find(descriptor) = {true, type, k, c, h, w};
  });
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* descriptor) {
  return create("cudnnCreateConvolutionDescriptor", rules(), descriptor);
}

cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t descriptor) {
  return call("cudnnDestroyConvolutionDescriptor", [&] { rules().remove(descriptor); });
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t descriptor, int pad_y,
                                              int pad_x, int stride_y, int stride_x, int dilation_y,
                                              int dilation_x, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t type) {
  return call("cudnnSetConvolution2dDescriptor", [&] {
    require(mode == CUDNN_CROSS_CORRELATION, "another mode than cross-correlation");
    require(pad_y >= 0 && pad_x >= 0 && stride_y > 0 && stride_x > 0 && dilation_y > 0 &&
                dilation_x > 0,
            "a negative padding, or a stride or dilation that is not positive");
    *rules().find(descriptor) = {true,       pad_y,      pad_x, stride_y, stride_x,
                                 dilation_y, dilation_x, 1,     type};
  });
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t descriptor, int groups) {
  return call("cudnnSetConvolutionGroupCount", [&] {
    require(groups > 0, "a number of groups that is not positive");
    rules().find(descriptor)->groups = groups;
  });
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t descriptor,
                                          cudnnMathType_t math) {
  return call("cudnnSetConvolutionMathType", [&] { rules().find(descriptor)->math = math; });
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t handle, cudnnTensorDescriptor_t image, cudnnFilterDescriptor_t filter,
    cudnnConvolutionDescriptor_t rule, cudnnTensorDescriptor_t result, int most, int* count,
    cudnnConvolutionFwdAlgoPerf_t* list) {
  return call("cudnnGetConvolutionForwardAlgorithm_v7", [&] {
    handles().find(handle);
    checked(image, filter, result, rule);
    list_algorithms(true, most, count, list);
  });
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, cudnnFilterDescriptor_t filter, cudnnTensorDescriptor_t result,
    cudnnConvolutionDescriptor_t rule, cudnnTensorDescriptor_t image, int most, int* count,
    cudnnConvolutionBwdDataAlgoPerf_t* list) {
  return call("cudnnGetConvolutionBackwardDataAlgorithm_v7", [&] {
    handles().find(handle);
    checked(image, filter, result, rule);
    list_algorithms(false, most, count, list);
  });
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, cudnnTensorDescriptor_t image, cudnnTensorDescriptor_t result,
    cudnnConvolutionDescriptor_t rule, cudnnFilterDescriptor_t filter, int most, int* count,
    cudnnConvolutionBwdFilterAlgoPerf_t* list) {
  return call("cudnnGetConvolutionBackwardFilterAlgorithm_v7", [&] {
    handles().find(handle);
    checked(image, filter, result, rule);
    list_algorithms(false, most, count, list);
  });
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      cudnnTensorDescriptor_t image, const void* x,
                                      cudnnFilterDescriptor_t filter, const void* w,
                                      cudnnConvolutionDescriptor_t rule,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* workspace,
                                      size_t workspace_bytes, const void* beta,
                                      cudnnTensorDescriptor_t result, void* y) {
  return call("cudnnConvolutionForward", [&] {
    const CheckedConvolution s = checked(image, filter, result, rule);
    require_plain(s, alpha, beta);
    run(Wanted::result, handle, s, algorithm, x, w, y, workspace, workspace_bytes);
  });
}

cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* descriptor) {
  return create("cudnnCreateActivationDescriptor", activations(), descriptor);
}

cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t descriptor) {
  return call("cudnnDestroyActivationDescriptor", [&] { activations().remove(descriptor); });
}

cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t descriptor,
                                           cudnnActivationMode_t mode, cudnnNanPropagation_t nan,
                                           double) {
  return call("cudnnSetActivationDescriptor", [&] {
    require(mode == CUDNN_ACTIVATION_RELU && nan == CUDNN_PROPAGATE_NAN,
            "an activation that is not known here");
    activations().find(descriptor)->is_set = true;
  });
}

/// y = relu(convolution + alpha2 * z + bias), of which z is not used here.
cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void* alpha1, cudnnTensorDescriptor_t image, const void* x,
    cudnnFilterDescriptor_t filter, const void* w, cudnnConvolutionDescriptor_t rule,
    cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t workspace_bytes,
    const void* alpha2, cudnnTensorDescriptor_t z_sizes, const void* z,
    cudnnTensorDescriptor_t bias, const void* b, cudnnActivationDescriptor_t activation,
    cudnnTensorDescriptor_t result, void* y) {
  if (books().settings.epilogues == 0) return CUDNN_STATUS_NOT_SUPPORTED;
  return call("cudnnConvolutionBiasActivationForward", [&] {
    const CheckedConvolution s = checked(image, filter, result, rule);
    require_plain(s, alpha1, alpha2);
    const Sizes4d bias_sizes = *sizes().find(bias);
    require(bias_sizes.is_set && bias_sizes.type == s.result.type && bias_sizes.n == 1 &&
                bias_sizes.c == s.result.c && bias_sizes.h == 1 && bias_sizes.w == 1,
            "the bias has not one element for each channel");
    require(activations().find(activation)->is_set, "an activation that was never set");
    require(z == y && sizes().find(z_sizes)->c == s.result.c, "z, which must be like y");
    ++books().counts["epilogues"];
    run(Wanted::result, handle, s, algorithm, x, w, y, workspace, workspace_bytes, b);
  });
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           cudnnFilterDescriptor_t filter, const void* w,
                                           cudnnTensorDescriptor_t result, const void* dy,
                                           cudnnConvolutionDescriptor_t rule,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           size_t workspace_bytes, const void* beta,
                                           cudnnTensorDescriptor_t image, void* dx) {
  return call("cudnnConvolutionBackwardData", [&] {
    const CheckedConvolution s = checked(image, filter, result, rule);
    require_plain(s, alpha, beta);
    run(Wanted::image, handle, s, algorithm, dx, w, dy, workspace, workspace_bytes);
  });
}

cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t image, const void* x,
    cudnnTensorDescriptor_t result, const void* dy, cudnnConvolutionDescriptor_t rule,
    cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace, size_t workspace_bytes,
    const void* beta, cudnnFilterDescriptor_t filter, void* dw) {
  return call("cudnnConvolutionBackwardFilter", [&] {
    const CheckedConvolution s = checked(image, filter, result, rule);
    require_plain(s, alpha, beta);
    run(Wanted::filter, handle, s, algorithm, x, dw, dy, workspace, workspace_bytes);
  });
}

}  // namespace tandem::doubles::cuda

#include "device/cuda/cuda_cudnn.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "device/cuda/cuda_driver.h"
#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::devices::cuda {
namespace {

using gpu::LibraryConvolution;
using Computes = LibraryConvolution::Computes;

constexpr LibraryName kNames[] = {{"libcudnn.so.9", 12000}};
constexpr size_t kOldest = 90000;

LoadedCudnn load(const DriverApi& driver) {
  const LoadedLibrary library = load_library(driver, kNames);
  if (library.handle == nullptr) return {nullptr, {}, library.missing};
  const auto too_old = [&](const std::string& why) {
    return LoadedCudnn{nullptr, {}, fmt::format("\n  {} is too old: {}", library.soname, why)};
  };
  auto* const api = new CudnnApi;
#define TANDEM_FIND(name, ...)                            \
  if (!find_function(library.handle, #name, api->name)) { \
    return too_old("it has no function " #name);          \
  }
  TANDEM_CUDNN_FUNCTIONS(TANDEM_FIND)
  TANDEM_FIND(cudnnGetErrorString)
  TANDEM_FIND(cudnnGetVersion)
#undef TANDEM_FIND
  const size_t version = api->cudnnGetVersion();
  // 91900 is 9.19, but 8907 is 8.9.7.
  const size_t unit = version < 10000 ? 1000 : 10000;
  const std::string text = fmt::format("version {}.{}", version / unit, version % unit / 100);
  if (version < kOldest) return too_old(text + "; 9.0 is the oldest that is supported");
  return {api, fmt::format("{}, {}", library.soname, text), {}};
}

/// A descriptor of cuDNN, destroyed with the object.
template <class Descriptor>
class CudnnDescriptor {
 public:
  using Create = cudnnStatus_t (*)(Descriptor*);
  using Destroy = cudnnStatus_t (*)(Descriptor);

  CudnnDescriptor(const CudnnApi& api, Create create, Destroy destroy) : destroy_(destroy) {
    api.check(create(&descriptor_), "a descriptor of cuDNN");
  }
  ~CudnnDescriptor() { destroy_(descriptor_); }
  CudnnDescriptor(const CudnnDescriptor&) = delete;
  CudnnDescriptor& operator=(const CudnnDescriptor&) = delete;

  Descriptor get() const { return descriptor_; }

 private:
  Descriptor descriptor_ = nullptr;
  const Destroy destroy_;
};

/// The sizes of a convolution as cuDNN takes them.
class ConvolutionDescriptors {
 public:
  ConvolutionDescriptors(const CudnnApi& api, const LibraryConvolution& s)
      : image(api, api.cudnnCreateTensorDescriptor, api.cudnnDestroyTensorDescriptor),
        result(api, api.cudnnCreateTensorDescriptor, api.cudnnDestroyTensorDescriptor),
        filter(api, api.cudnnCreateFilterDescriptor, api.cudnnDestroyFilterDescriptor),
        convolution(api, api.cudnnCreateConvolutionDescriptor,
                    api.cudnnDestroyConvolutionDescriptor),
        bias(api, api.cudnnCreateTensorDescriptor, api.cudnnDestroyTensorDescriptor),
        relu(api, api.cudnnCreateActivationDescriptor, api.cudnnDestroyActivationDescriptor) {
    const auto n = [](int64_t size) { return static_cast<int>(size); };
    const auto type = s.dtype == DType::float32 ? CUDNN_DATA_FLOAT : CUDNN_DATA_DOUBLE;
    const auto& [v, h] = std::tie(s.vertical, s.horizontal);
    api.check(api.cudnnSetTensor4dDescriptor(image.get(), CUDNN_TENSOR_NHWC, type, n(s.images),
                                             n(s.in), n(v.image), n(h.image)),
              "cudnnSetTensor4dDescriptor");
    api.check(api.cudnnSetTensor4dDescriptor(result.get(), CUDNN_TENSOR_NHWC, type, n(s.images),
                                             n(s.out), n(v.result), n(h.result)),
              "cudnnSetTensor4dDescriptor");
    api.check(api.cudnnSetFilter4dDescriptor(filter.get(), type, CUDNN_TENSOR_NHWC, n(s.out),
                                             n(s.in / s.groups), n(v.filter), n(h.filter)),
              "cudnnSetFilter4dDescriptor");
    api.check(api.cudnnSetConvolution2dDescriptor(convolution.get(), n(v.padding), n(h.padding),
                                                  n(v.stride), n(h.stride), n(v.dilation),
                                                  n(h.dilation), CUDNN_CROSS_CORRELATION, type),
              "cudnnSetConvolution2dDescriptor");
    api.check(api.cudnnSetConvolutionGroupCount(convolution.get(), n(s.groups)),
              "cudnnSetConvolutionGroupCount");
    api.check(
        api.cudnnSetTensor4dDescriptor(bias.get(), CUDNN_TENSOR_NHWC, type, 1, n(s.out), 1, 1),
        "cudnnSetTensor4dDescriptor");
    api.check(
        api.cudnnSetActivationDescriptor(relu.get(), CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0),
        "cudnnSetActivationDescriptor");
  }

  const CudnnDescriptor<cudnnTensorDescriptor_t> image, result;
  const CudnnDescriptor<cudnnFilterDescriptor_t> filter;
  const CudnnDescriptor<cudnnConvolutionDescriptor_t> convolution;
  const CudnnDescriptor<cudnnTensorDescriptor_t> bias;
  const CudnnDescriptor<cudnnActivationDescriptor_t> relu;
};

/// The factors 1 and 0, as cuDNN wants them for elements of a type.
class CudnnFactors {
 public:
  explicit CudnnFactors(DType dtype) : is_single_(dtype == DType::float32) {}
  const void* one() const { return is_single_ ? static_cast<const void*>(&kOne32) : &kOne64; }
  const void* zero() const { return is_single_ ? static_cast<const void*>(&kZero32) : &kZero64; }

 private:
  static constexpr float kOne32 = 1, kZero32 = 0;
  static constexpr double kOne64 = 1, kZero64 = 0;
  const bool is_single_;
};

/// Handles of a device, one for each stream.
class CudnnHandles {
 public:
  CudnnHandles(const CudnnApi& api, std::shared_ptr<CudaContext> context)
      : api_(api), context_(std::move(context)) {}
  ~CudnnHandles() {
    try {
      const Current current(*context_);
      for (const auto& [stream, handle] : handles_) api_.cudnnDestroy(handle);
    } catch (...) {  // A lost device has nothing left to give back.
    }
  }
  CudnnHandles(const CudnnHandles&) = delete;
  CudnnHandles& operator=(const CudnnHandles&) = delete;

  const CudnnApi& api() const { return api_; }
  CudaContext& context() { return *context_; }

  /// Null is no stream: the handle is only asked.
  cudnnHandle_t get(CUstream stream) {
    const std::lock_guard lock(mutex_);
    if (const auto known = handles_.find(stream); known != handles_.end()) return known->second;
    const Current current(*context_);
    cudnnHandle_t handle = nullptr;
    api_.check(api_.cudnnCreate(&handle), "cudnnCreate");
    if (stream != nullptr) {
      const cudnnStatus_t status = api_.cudnnSetStream(handle, stream);
      if (status != CUDNN_STATUS_SUCCESS) api_.cudnnDestroy(handle);
      api_.check(status, "cudnnSetStream");
    }
    handles_[stream] = handle;
    return handle;
  }

 private:
  const CudnnApi& api_;
  const std::shared_ptr<CudaContext> context_;
  std::mutex mutex_;  // Guards what follows.
  std::map<CUstream, cudnnHandle_t> handles_;
};
using CudnnHandlesPtr = std::shared_ptr<CudnnHandles>;

/// cuDNN numbers its algorithms for each kind of convolution.
struct CudnnChoice {
  unsigned algorithm = 0;
  size_t memory = 0;
  cudnnMathType_t math = CUDNN_FMA_MATH;
};

class CudnnConvolution final : public gpu::PreparedConvolution {
 public:
  CudnnConvolution(CudnnHandlesPtr handles, const LibraryConvolution& shape,
                   const CudnnChoice& choice, std::unique_ptr<ConvolutionDescriptors> descriptors)
      : handles_(std::move(handles)),
        shape_(shape),
        choice_(choice),
        descriptors_(std::move(descriptors)) {}

  size_t workspace_bytes() const override { return choice_.memory; }

  void run(gpu::Stream& stream, const gpu::Location& image, const gpu::Location& filter,
           const gpu::Location& result, const gpu::Location& workspace) const override {
    LibraryStream& library = library_stream(stream);
    const cudnnHandle_t handle = handles_->get(library.get());
    library.issue([&] { run(handle, image, filter, result, workspace); });
  }

  /// Which convolutions cuDNN has in one with what follows, it says when it is asked for them.
  bool run_with_bias_and_relu(gpu::Stream& stream, const gpu::Location& image,
                              const gpu::Location& filter, const gpu::Location& bias,
                              const gpu::Location& result,
                              const gpu::Location& workspace) const override {
    if (is_refused_) return false;
    LibraryStream& library = library_stream(stream);
    const cudnnHandle_t handle = handles_->get(library.get());
    const CudnnApi& api = handles_->api();
    const ConvolutionDescriptors& d = *descriptors_;
    const CudnnFactors factors(shape_.dtype);
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    library.issue([&] {
      status = api.cudnnConvolutionBiasActivationForward(
          handle, factors.one(), d.image.get(), at(image), d.filter.get(), at(filter),
          d.convolution.get(), static_cast<cudnnConvolutionFwdAlgo_t>(choice_.algorithm),
          choice_.memory == 0 ? nullptr : at(workspace), choice_.memory, factors.zero(),
          d.result.get(), at(result), d.bias.get(), at(bias), d.relu.get(), d.result.get(),
          at(result));
    });
    is_refused_ = status == CUDNN_STATUS_NOT_SUPPORTED;
    if (is_refused_) return false;
    api.check(status, "cudnnConvolutionBiasActivationForward");
    return true;
  }

 private:
  static void* at(const gpu::Location& location) {
    return reinterpret_cast<void*>(address_of(location));
  }

  void run(cudnnHandle_t handle, const gpu::Location& image, const gpu::Location& filter,
           const gpu::Location& result, const gpu::Location& workspace) const {
    const CudnnApi& api = handles_->api();
    const ConvolutionDescriptors& d = *descriptors_;
    const CudnnFactors factors(shape_.dtype);
    const void* const one = factors.one();
    const void* const zero = factors.zero();
    void* const room = choice_.memory == 0 ? nullptr : at(workspace);
    switch (shape_.computes) {
      case Computes::result:
        return api.check(
            api.cudnnConvolutionForward(handle, one, d.image.get(), at(image), d.filter.get(),
                                        at(filter), d.convolution.get(),
                                        static_cast<cudnnConvolutionFwdAlgo_t>(choice_.algorithm),
                                        room, choice_.memory, zero, d.result.get(), at(result)),
            "cudnnConvolutionForward");
      case Computes::image_gradient:
        return api.check(
            api.cudnnConvolutionBackwardData(
                handle, one, d.filter.get(), at(filter), d.result.get(), at(result),
                d.convolution.get(), static_cast<cudnnConvolutionBwdDataAlgo_t>(choice_.algorithm),
                room, choice_.memory, zero, d.image.get(), at(image)),
            "cudnnConvolutionBackwardData");
      case Computes::filter_gradient:
        return api.check(api.cudnnConvolutionBackwardFilter(
                             handle, one, d.image.get(), at(image), d.result.get(), at(result),
                             d.convolution.get(),
                             static_cast<cudnnConvolutionBwdFilterAlgo_t>(choice_.algorithm), room,
                             choice_.memory, zero, d.filter.get(), at(filter)),
                         "cudnnConvolutionBackwardFilter");
    }
  }

  const CudnnHandlesPtr handles_;
  const LibraryConvolution shape_;
  const CudnnChoice choice_;
  const std::unique_ptr<ConvolutionDescriptors> descriptors_;
  mutable std::atomic<bool> is_refused_ = false;  // With a bias and relu.
};

class CudnnConvolutions final : public gpu::ConvolutionLibrary {
 public:
  CudnnConvolutions(const CudnnApi& api, std::shared_ptr<CudaContext> context)
      : handles_(std::make_shared<CudnnHandles>(api, std::move(context))) {}

  const char* name() const override { return "cudnn"; }
  void open(gpu::Stream& stream) override { handles_->get(library_stream(stream).get()); }

  std::shared_ptr<const gpu::PreparedConvolution> prepare(
      const LibraryConvolution& shape) override {
    const ChoiceKey key{shape, config::is_op_determinism_enabled(),
                        config::tensor_float_32_execution_enabled()};
    const std::lock_guard lock(mutex_);
    const auto [found, is_new] = prepared_.try_emplace(key);
    if (is_new) found->second = choose(key);
    return found->second;
  }

 private:
  struct ChoiceKey {
    LibraryConvolution shape;
    bool is_deterministic;
    bool is_rounded;  // TensorFloat-32 is allowed.
    auto operator<=>(const ChoiceKey&) const = default;
  };

  std::shared_ptr<const gpu::PreparedConvolution> choose(const ChoiceKey& key) {
    const LibraryConvolution& s = key.shape;
    const int64_t most = std::numeric_limits<int>::max();
    const int64_t elements = std::max(s.images * s.vertical.image * s.horizontal.image * s.in,
                                      s.images * s.vertical.result * s.horizontal.result * s.out);
    if (elements > most) return nullptr;
    const CudnnApi& api = handles_->api();
    auto descriptors = std::make_unique<ConvolutionDescriptors>(api, s);
    const auto set_math = [&](cudnnMathType_t math) {
      api.check(api.cudnnSetConvolutionMathType(descriptors->convolution.get(), math),
                "cudnnSetConvolutionMathType");
    };
    set_math(key.is_rounded ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH);
    const auto choice = choice_for(*descriptors, key);
    if (!choice) return nullptr;
    set_math(choice->math);
    return std::make_shared<CudnnConvolution>(handles_, s, *choice, std::move(descriptors));
  }

  std::optional<CudnnChoice> choice_for(const ConvolutionDescriptors& d, const ChoiceKey& key) {
    const CudnnApi& api = handles_->api();
    const cudnnHandle_t handle = handles_->get(nullptr);
    const Current current(handles_->context());
    switch (key.shape.computes) {
      case Computes::result:
        return first_of<cudnnConvolutionFwdAlgoPerf_t>(key, [&](auto... room) {
          return api.cudnnGetConvolutionForwardAlgorithm_v7(
              handle, d.image.get(), d.filter.get(), d.convolution.get(), d.result.get(), room...);
        });
      case Computes::image_gradient:
        return first_of<cudnnConvolutionBwdDataAlgoPerf_t>(key, [&](auto... room) {
          return api.cudnnGetConvolutionBackwardDataAlgorithm_v7(
              handle, d.filter.get(), d.result.get(), d.convolution.get(), d.image.get(), room...);
        });
      case Computes::filter_gradient:
        break;
    }
    return first_of<cudnnConvolutionBwdFilterAlgoPerf_t>(key, [&](auto... room) {
      return api.cudnnGetConvolutionBackwardFilterAlgorithm_v7(
          handle, d.image.get(), d.result.get(), d.convolution.get(), d.filter.get(), room...);
    });
  }

  /// The first algorithm of cuDNN's list, the fastest first, that keeps to our rules; none where
  /// cuDNN does not support such convolutions.
  template <class Performance, class Ask>
  static std::optional<CudnnChoice> first_of(const ChoiceKey& key, const Ask& ask) {
    constexpr int kMost = 16;
    constexpr size_t kMostMemory = size_t{1} << 30;
    Performance list[kMost];
    int count = 0;
    if (ask(kMost, &count, list) != CUDNN_STATUS_SUCCESS) return std::nullopt;
    for (const Performance& one : std::span(list, static_cast<size_t>(count))) {
      if (one.status != CUDNN_STATUS_SUCCESS || one.memory > kMostMemory) continue;
      if (key.is_deterministic && one.determinism != CUDNN_DETERMINISTIC) continue;
      if (!key.is_rounded && one.mathType != CUDNN_FMA_MATH && one.mathType != CUDNN_DEFAULT_MATH) {
        continue;
      }
      return CudnnChoice{static_cast<unsigned>(one.algo), one.memory,
                         key.is_rounded ? one.mathType : CUDNN_FMA_MATH};
    }
    return std::nullopt;
  }

  const CudnnHandlesPtr handles_;
  std::mutex mutex_;  // Guards what follows.
  std::map<ChoiceKey, std::shared_ptr<const gpu::PreparedConvolution>> prepared_;
};

}  // namespace

void CudnnApi::check(cudnnStatus_t status, const char* function) const {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const std::string message = fmt::format("{}: {} ({})", function, cudnnGetErrorString(status),
                                          static_cast<unsigned>(status));
  if (status == CUDNN_STATUS_BAD_PARAM) throw InvalidArgument(message);
  throw Unavailable(message);
}

const LoadedCudnn& load_cudnn(const DriverApi& driver) {
  static std::mutex mutex;
  static auto* const libraries = new std::map<std::string, LoadedCudnn>;  // By folder.
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = libraries->try_emplace(driver.folder);
  if (is_new) found->second = load(driver);
  return found->second;
}

std::shared_ptr<gpu::ConvolutionLibrary> cudnn_convolutions(const CudnnApi& api,
                                                            std::shared_ptr<CudaContext> context) {
  return std::make_shared<CudnnConvolutions>(api, std::move(context));
}

}  // namespace tandem::devices::cuda

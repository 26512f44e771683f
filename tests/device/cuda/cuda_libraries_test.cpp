// NVIDIA's libraries beside its driver, on doubles: products by cuBLAS and convolutions by cuDNN as
// ops ask for them, what is said and done where one is missing or too old, and the links between
// devices.
#include <gtest/gtest.h>

#include <filesystem>

#include "device/cuda/cuda_api.h"
#include "device/cuda/cuda_cublas.h"
#include "device/cuda/cuda_cudnn.h"
#include "device/cuda/cuda_devices.h"
#include "device/settings.h"
#include "harness/cuda.h"
#include "harness/fresh_devices.h"
#include "harness/opencl.h"
#include "harness/temp_folder.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem::devices::cuda {
namespace {

using harness::CudaDoubleSetting;
using harness::throws;
namespace cuda_double = harness::cuda_double;
namespace fs = std::filesystem;

constexpr const char* kDoubles = TANDEM_BINARY_DIR "/doubles/cuda";

/// Numbers that are all over [-1, 1), the same each time.
Tensor scattered(const Shape& shape, uint64_t seed, DType dtype = DType::float64) {
  std::vector<double> values(static_cast<size_t>(shape.count()));
  uint64_t state = seed;
  for (double& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<double>(state >> 40) * 0x1p-23 - 1;
  }
  return cast(Tensor::from(values, shape), dtype);
}

class CudaLibraryTest : public harness::FreshDevices {
 protected:
  void SetUp() override {
    TANDEM_SKIP_WITHOUT_NVRTC();
    FreshDevices::SetUp();
    harness::use_cuda();
    complaints_ = cuda_double::count("complaints");
  }
  void TearDown() override {
    if (IsSkipped()) return;
    FreshDevices::TearDown();
    EXPECT_EQ(cuda_double::count("complaints"), complaints_);
  }

  /// `f` on a double and on the CPU: the largest difference, and how often `counted` happened.
  template <class F>
  static std::pair<double, long long> difference(const F& f, const char* counted) {
    const auto on = [&](const char* name) {
      const auto scope = device(name);
      return cast(f(), DType::float64).template to_vector<double>();
    };
    const auto wanted = on("/CPU:0");
    const long long before = cuda_double::count(counted);
    const auto got = on("/GPU:0");
    EXPECT_EQ(got.size(), wanted.size());
    double worst = 0;
    for (size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - wanted[i]));
    return {worst, cuda_double::count(counted) - before};
  }

 private:
  long long complaints_ = 0;
};

TEST_F(CudaLibraryTest, ProductsAreRowMajorTransposedOrNotAloneOrInBatches) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const double tolerance = dtype == DType::float32 ? 1e-5 : 1e-13;
    for (const auto& [transpose_a, transpose_b] :
         {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
      const auto [off, calls] = difference(
          [&, transpose_a = transpose_a, transpose_b = transpose_b] {
            const Tensor a = scattered(transpose_a ? Shape{7, 5} : Shape{5, 7}, 1, dtype);
            const Tensor b = scattered(transpose_b ? Shape{3, 7} : Shape{7, 3}, 2, dtype);
            return matmul(a, b, {.transpose_a = transpose_a, .transpose_b = transpose_b});
          },
          "products");
      EXPECT_LT(off, tolerance) << transpose_a << transpose_b;
      EXPECT_EQ(calls, 1);
    }
  }
  // One axis of a batch is one call; where a factor is shared in between, there are several.
  const auto batch = [](const Shape& a, const Shape& b) {
    return difference([&] { return matmul(scattered(a, 3), scattered(b, 4)); }, "products");
  };
  EXPECT_LT(batch({4, 5, 6}, {4, 6, 2}).first, 1e-13);
  EXPECT_EQ(batch({2, 4, 5, 6}, {2, 4, 6, 2}).second, 1);
  const auto [off, calls] = batch({2, 1, 5, 6}, {1, 3, 6, 2});
  EXPECT_LT(off, 1e-13);
  EXPECT_EQ(calls, 2);
}

TEST_F(CudaLibraryTest, ProductsOfNothingAreZero) {
  const auto scope = device("/GPU:0");
  const Tensor product = matmul(zeros({2, 0}, DType::float32), zeros({0, 3}, DType::float32));
  EXPECT_EQ(product.to_vector<float>(), std::vector<float>(6, 0.0f));
}

TEST_F(CudaLibraryTest, OperandsAreRoundedOnlyWhereItIsAllowed) {
  const auto off = [] {
    return difference(
               [] {
                 return matmul(scattered({8, 64}, 5, DType::float32),
                               scattered({64, 8}, 6, DType::float32));
               },
               "products")
        .first;
  };
  EXPECT_LT(off(), 1e-5);
  config::enable_tensor_float_32_execution(true);
  EXPECT_GT(off(), 1e-4);
  config::enable_tensor_float_32_execution(false);
  EXPECT_LT(off(), 1e-5);
}

TEST_F(CudaLibraryTest, ABiasIsTheProductsOwnWhereTheLibraryHasIt) {
  const auto multiply = [](DType dtype, bool transpose_a, bool transpose_b) {
    return difference(
        [=] {
          const auto f = function([=](const Tensor& a, const Tensor& b, const Tensor& bias) {
            return matmul(a, b, {.transpose_a = transpose_a, .transpose_b = transpose_b}) + bias;
          });
          return f(scattered(transpose_a ? Shape{7, 5} : Shape{5, 7}, 1, dtype),
                   scattered(transpose_b ? Shape{3, 7} : Shape{7, 3}, 2, dtype),
                   scattered({3}, 3, dtype));
        },
        "epilogues");
  };
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      const auto [off, calls] = multiply(DType::float32, transpose_a, transpose_b);
      EXPECT_LT(off, 1e-5);
      EXPECT_EQ(calls, 1);
    }
  }
  // It has none for float64, and none where it says so: our kernel adds the bias.
  const auto wide = multiply(DType::float64, false, false);
  EXPECT_LT(wide.first, 1e-13);
  EXPECT_EQ(wide.second, 0);
  FreshDevices::TearDown();
  harness::use_cuda();
  const CudaDoubleSetting without("epilogues", 0, 1);
  const auto [off, calls] = multiply(DType::float32, false, false);
  EXPECT_LT(off, 1e-5);
  EXPECT_EQ(calls, 0);
}

TEST_F(CudaLibraryTest, ARowOfManyTextsIsOneProductWithABias) {
  const auto [off, calls] = difference(
      [] {
        const auto f = function([](const Tensor& x, const Tensor& w, const Tensor& bias) {
          return matmul(x, w) + bias;
        });
        return f(scattered({2, 3, 8}, 1, DType::float32), scattered({8, 4}, 2, DType::float32),
                 scattered({4}, 3, DType::float32));
      },
      "epilogues");
  EXPECT_LT(off, 1e-5);
  EXPECT_EQ(calls, 1);
}

/// A convolution of all rules, and its gradients.
Tensors convolution(const Conv2dOptions& options, const Shape& filter, DType dtype) {
  const Tensor x = scattered({2, 9, 8, 4}, 7, dtype);
  const Tensor w = scattered(filter, 8, dtype);
  GradientTape tape;
  tape.watch(x);
  tape.watch(w);
  const Tensor y = conv2d(x, w, options);
  const Tensors gradients = tape.gradient(reduce_sum(y * y), Tensors{x, w});
  return {y, gradients[0], gradients[1]};
}

TEST_F(CudaLibraryTest, ConvolutionsAndTheirGradientsAreTheCpus) {
  struct Rule {
    Conv2dOptions options;
    Shape filter;
    long long calls;  // Calls of cuDNN, which pads both ends by as much.
  };
  const Rule rules[] = {
      {{.padding = Padding::valid}, {3, 2, 4, 5}, 3},
      {{.padding = Padding::same}, {3, 3, 4, 5}, 3},
      {{.strides = {2, 1}, .padding = Padding::valid}, {3, 3, 4, 5}, 3},
      {{.padding = Padding::same, .dilations = {2, 2}}, {3, 3, 4, 2}, 3},
      {{.padding = Padding::same, .groups = 2}, {3, 3, 2, 6}, 3},
      {{.padding = Padding::same}, {2, 2, 4, 5}, 0},  // More zeros behind than before.
  };
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const Rule& rule : rules) {
      for (size_t i = 0; i < 3; ++i) {
        const auto [off, calls] = difference(
            [&] { return convolution(rule.options, rule.filter, dtype)[i]; }, "convolutions");
        EXPECT_LT(off, dtype == DType::float32 ? 1e-3 : 1e-11) << rule.filter.str() << ", " << i;
        EXPECT_EQ(calls, rule.calls) << rule.filter.str();
      }
    }
  }
}

TEST_F(CudaLibraryTest, ABiasAndReluAreTheConvolutionsOwnWhereTheLibraryHasThem) {
  const auto convolve = [](DType dtype) {
    return difference(
        [dtype] {
          const auto f = function([](const Tensor& x, const Tensor& w, const Tensor& b) {
            return relu(conv2d(x, w) + b);
          });
          return f(scattered({2, 6, 5, 3}, 1, dtype), scattered({3, 3, 3, 4}, 2, dtype),
                   scattered({4}, 3, dtype));
        },
        "epilogues");
  };
  for (const DType dtype : {DType::float32, DType::float64}) {
    const auto [off, calls] = convolve(dtype);
    EXPECT_LT(off, dtype == DType::float32 ? 1e-5 : 1e-13);
    EXPECT_EQ(calls, 1);
  }
  // Another activation, or a library that has none of it: our kernel does it.
  const auto tanh_follows = difference(
      [] {
        const auto f = function([](const Tensor& x, const Tensor& w, const Tensor& b) {
          return tanh(conv2d(x, w) + b);
        });
        return f(scattered({2, 6, 5, 3}, 1), scattered({3, 3, 3, 4}, 2), scattered({4}, 3));
      },
      "epilogues");
  EXPECT_LT(tanh_follows.first, 1e-13);
  EXPECT_EQ(tanh_follows.second, 0);
  FreshDevices::TearDown();
  harness::use_cuda();
  const CudaDoubleSetting without("epilogues", 0, 1);
  const auto [off, calls] = convolve(DType::float64);
  EXPECT_LT(off, 1e-13);
  EXPECT_EQ(calls, 0);
}

TEST_F(CudaLibraryTest, AlgorithmsAreDeterministicWhereThatIsAskedFor) {
  const auto used = [] {
    const auto scope = device("/GPU:0");
    const long long before = cuda_double::count("nondeterministic");
    for (const Tensor& result :
         convolution({.padding = Padding::valid}, {3, 3, 4, 5}, DType::float32)) {
      result.to_vector<float>();
    }
    return cuda_double::count("nondeterministic") - before;
  };
  EXPECT_GT(used(), 0);
  restart();
  harness::use_cuda();
  settings.deterministic = true;
  EXPECT_EQ(used(), 0);
  settings.deterministic = false;
}

TEST_F(CudaLibraryTest, WhatALibraryRefusesIsNamed) {
  const auto scope = device("/GPU:0");
  const Tensor a = scattered({4, 4}, 9, DType::float32);
  const auto multiply = [&] { matmul(a, a).to_vector<float>(); };
  const auto convolve = [] {
    convolution({.padding = Padding::valid}, {3, 3, 4, 5}, DType::float32)[0].to_vector<float>();
  };
  cuda_double::fail("cublasCreate_v2", 1, 1);
  EXPECT_TRUE(throws<Unavailable>(multiply, {"matmul", "cublasCreate", "not initialized"}));
  cuda_double::fail("cublasSgemmStridedBatched_64", 1, 13);
  EXPECT_TRUE(throws<Unavailable>(
      multiply, {"matmul", "cublasSgemmStridedBatched", "failed to launch", "(13)"}));
  const auto biased = function([](const Tensor& x) { return matmul(x, x) + x[0]; });
  cuda_double::fail("cublasLtMatmul", 1, 13);
  EXPECT_TRUE(throws<Unavailable>([&] { biased(a).to_vector<float>(); },
                                  {"matmul", "cublasLtMatmul", "failed to launch", "(13)"}));
  cuda_double::fail("cudnnSetStream", 1, 2000);
  EXPECT_TRUE(
      throws<InvalidArgument>(convolve, {"conv2d", "cudnnSetStream", "CUDNN_STATUS_BAD_PARAM"}));
  cuda_double::fail("cudnnConvolutionForward", 1, 3000);
  EXPECT_TRUE(throws<Unavailable>(
      convolve, {"conv2d", "cudnnConvolutionForward", "CUDNN_STATUS_NOT_SUPPORTED"}));
  convolve();
  multiply();
}

TEST_F(CudaLibraryTest, LinksAreThoseOfTheDevices) {
  const auto kind = [] {
    const auto links = config::list_device_links();
    EXPECT_EQ(links.size(), 2U);
    return links.empty() ? "" : links[0].from + " " + links[0].to + " " + links[0].kind;
  };
  EXPECT_EQ(kind(), "/device:GPU:0 /device:GPU:1 PCIe");
  const std::string text = distribute::MirroredStrategy({"/GPU:0", "/GPU:1"}).explain();
  EXPECT_NE(text.find("links between the GPUs: PCIe\n"), std::string::npos) << text;
  const CudaDoubleSetting fast("peers", 2, 1);
  EXPECT_EQ(kind(), "/device:GPU:0 /device:GPU:1 NVLink");
  const CudaDoubleSetting none("peers", 0, 1);
  EXPECT_EQ(kind(), "/device:GPU:0 /device:GPU:1 host");
}

// ---- What is missing ----

/// A folder with some of the doubles.
class SomeDoubles {
 public:
  explicit SomeDoubles(std::initializer_list<const char*> names) {
    for (const char* name : names) {
      fs::create_symlink(fs::path(kDoubles) / "libcuda.so.1", folder_.path() / name);
    }
    set_library_folder(folder_.path());
  }
  ~SomeDoubles() { set_library_folder(""); }
  SomeDoubles(const SomeDoubles&) = delete;
  SomeDoubles& operator=(const SomeDoubles&) = delete;

 private:
  const harness::TempFolder folder_;
};

std::string missing(const std::string& name) {
  for (const auto& library : list_libraries()) {
    if (library.name == name) return library.missing;
  }
  return "not listed";
}

TEST(CudaMissingLibraries, AreListedWithWhatWasLookedFor) {
  const SomeDoubles doubles({"libcuda.so.1", "libcudnn.so.9"});
  const std::string text = missing("cuBLAS");
  EXPECT_NE(text.find("libcublas.so.13 cannot be loaded"), std::string::npos) << text;
  EXPECT_NE(text.find("libcublas.so.12 cannot be loaded"), std::string::npos) << text;
  EXPECT_NE(missing("NCCL").find("libnccl.so.2 cannot be loaded"), std::string::npos);
  EXPECT_EQ(missing("cuDNN"), "");
  EXPECT_EQ(missing("driver"), "");
}

TEST(CudaMissingLibraries, AVersionThatIsTooOldOrTooNewForTheDriverIsNamed) {
  const CudaDoubleSetting cudnn("cudnn", 8907, 91900);
  const CudaDoubleSetting driver("driver", 12040, 13000);
  const SomeDoubles doubles({"libcuda.so.1", "libcudnn.so.9", "libcublas.so.13"});
  EXPECT_EQ(missing("cuDNN"),
            "\n  libcudnn.so.9 is too old: version 8.9; 9.0 is the oldest that is supported");
  const std::string text = missing("cuBLAS");
  EXPECT_NE(text.find("libcublas.so.13 needs a driver for CUDA 13.0, and this one is for 12.4"),
            std::string::npos)
      << text;
}

TEST(CudaMissingLibraries, ProductsAndConvolutionsAreOurOwnThen) {
  TANDEM_SKIP_WITHOUT_NVRTC();
  reset_devices();
  {
    harness::share_kernels();
    const SomeDoubles doubles({"libcuda.so.1"});
    ASSERT_EQ(config::list_physical_devices("GPU").size(), 2U);
    const auto scope = device("/GPU:0");
    const long long products = cuda_double::count("products");
    const auto y = matmul(scattered({4, 6}, 1), scattered({6, 3}, 2)).to_vector<double>();
    const auto host = device("/CPU:0");
    const auto wanted = matmul(scattered({4, 6}, 1), scattered({6, 3}, 2)).to_vector<double>();
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(y[i], wanted[i], 1e-13);
    EXPECT_EQ(cuda_double::count("products"), products);
  }
  reset_devices();
}

}  // namespace
}  // namespace tandem::devices::cuda

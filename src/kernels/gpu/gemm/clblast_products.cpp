// Products by CLBlast, where its library is installed. It is opened by the first device that it is
// chosen for (product_choice.h), and puts its commands on the device's stream.
#include <dlfcn.h>
#include <fmt/format.h>

#include "device/gpu/native_stream.h"
#include "kernels/gpu/gemm/products.h"
#include "tandem/error.h"

namespace tandem::kernels::gpu {
namespace {

// As clblast_c.h has it. cl_mem and cl_command_queue are pointers.
constexpr int kRowMajor = 101;
constexpr int kAsItIs = 111;
constexpr int kTransposed = 112;

template <class T>
using Gemm = int (*)(int layout, int transpose_a, int transpose_b, size_t m, size_t n, size_t k,
                     T alpha, void* a, size_t a_offset, size_t lda, void* b, size_t b_offset,
                     size_t ldb, T beta, void* c, size_t c_offset, size_t ldc, void** queue,
                     void** event);
template <class T>
using GemmBatch = int (*)(int layout, int transpose_a, int transpose_b, size_t m, size_t n,
                          size_t k, T alpha, void* a, size_t a_offset, size_t lda, size_t a_step,
                          void* b, size_t b_offset, size_t ldb, size_t b_step, T beta, void* c,
                          size_t c_offset, size_t ldc, size_t c_step, size_t count, void** queue,
                          void** event);

/// The library; it stays open. Null where there is none.
void* library() {
  static void* const handle = dlopen("libclblast.so.1", RTLD_NOW | RTLD_LOCAL);
  return handle;
}

template <class T>
class ClblastProducts final : public Products {
 public:
  ClblastProducts(ProductsPtr own, void* one, void* batch)
      : own_(std::move(own)),
        one_(reinterpret_cast<Gemm<T>>(one)),
        batch_(reinterpret_cast<GemmBatch<T>>(batch)) {}

  /// What has nothing to multiply is for our own kernels.
  void multiply(const Launch& launch, const ProductShape& s, const void* a, const void* b, void* c,
                size_t workspace) const override {
    auto& queue = static_cast<devices::gpu::GpuQueue&>(*launch.queue);
    bool is_done = s.m == 0 || s.n == 0 || s.batch() == 0;
    if (!is_done && s.k > 0) {
      const devices::gpu::CommandLabel label{
          .name = "clblast", .kind = profile::Activity::compute, .replica = launch.replica};
      queue.timeline().issue(label, {}, [&](devices::gpu::Stream& stream, uint64_t) {
        if (queue.timeline().is_capturing()) throw Unimplemented("CLBlast cannot be captured");
        auto* const native = dynamic_cast<devices::gpu::NativeStream*>(&stream);
        if (native == nullptr) return;
        issue(s, queue.memory().locate(a), queue.memory().locate(b), queue.memory().locate(c),
              native->native());
        is_done = true;
      });
    }
    if (!is_done) own_->multiply(launch, s, a, b, c, workspace);
  }

  size_t workspace_bytes(const ProductShape& s) const override { return own_->workspace_bytes(s); }
  const char* provider() const override { return "CLBlast"; }

 private:
  using Location = devices::gpu::Location;

  void issue(const ProductShape& s, const Location& a, const Location& b, const Location& c,
             void* stream) const {
    const auto elements = [](int64_t count) { return static_cast<size_t>(count); };
    const auto first = [](const Location& at) { return at.offset / sizeof(T); };
    const int a_how = s.transpose_a ? kTransposed : kAsItIs;
    const int b_how = s.transpose_b ? kTransposed : kAsItIs;
    const T beta = s.adds ? T(1) : T(0);
    for (int64_t i = 0; i < s.outer; ++i) {
      const size_t a_at = first(a) + elements(i * s.a.outer);
      const size_t b_at = first(b) + elements(i * s.b.outer);
      const size_t c_at = first(c) + elements(i * s.c.outer);
      const int status =
          s.inner == 1
              ? one_(kRowMajor, a_how, b_how, elements(s.m), elements(s.n), elements(s.k), T(1),
                     a.memory, a_at, elements(s.lda), b.memory, b_at, elements(s.ldb), beta,
                     c.memory, c_at, elements(s.ldc), &stream, nullptr)
              : batch_(kRowMajor, a_how, b_how, elements(s.m), elements(s.n), elements(s.k), T(1),
                       a.memory, a_at, elements(s.lda), elements(s.a.inner), b.memory, b_at,
                       elements(s.ldb), elements(s.b.inner), beta, c.memory, c_at, elements(s.ldc),
                       elements(s.c.inner), elements(s.inner), &stream, nullptr);
      if (status != 0) {
        throw Unavailable(
            fmt::format("CLBlast refused a product of {} x {} x {}: {}", s.m, s.n, s.k, status));
      }
    }
  }

  const ProductsPtr own_;
  const Gemm<T> one_;
  const GemmBatch<T> batch_;
};

template <class T>
ProductsPtr find(const Device& device, DType dtype, const char* one, const char* batch) {
  void* const found_one = dlsym(library(), one);
  void* const found_batch = dlsym(library(), batch);
  if (found_one == nullptr || found_batch == nullptr) return nullptr;
  return std::make_shared<ClblastProducts<T>>(own_products(device, dtype), found_one, found_batch);
}

}  // namespace

ProductsPtr clblast_products(const Device& device, DType dtype) {
  if (device.backend() != "opencl" || library() == nullptr) return nullptr;
  return dtype == DType::float32
             ? find<float>(device, dtype, "CLBlastSgemm", "CLBlastSgemmStridedBatched")
             : find<double>(device, dtype, "CLBlastDgemm", "CLBlastDgemmStridedBatched");
}

}  // namespace tandem::kernels::gpu

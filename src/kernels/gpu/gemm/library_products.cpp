// Matrix products by the library of the device's vendor.
#include <atomic>

#include "kernels/gpu/gemm/products.h"
#include "kernels/gpu/library_call.h"

namespace tandem::kernels::gpu {
namespace {

class LibraryProducts final : public Products {
 public:
  LibraryProducts(std::shared_ptr<devices::gpu::ProductLibrary> library, DType dtype)
      : library_(std::move(library)), dtype_(dtype) {}

  void multiply(const Launch& launch, const ProductShape& shape, const void* a, const void* b,
                void* c, size_t) const override {
    if (shape.m == 0 || shape.n == 0 || shape.batch() == 0) return;
    const auto& memory = static_cast<devices::gpu::GpuQueue&>(*launch.queue).memory();
    issue_library_call(launch, [&](devices::gpu::Stream& stream) {
      // A product of nothing has factors of no bytes, which lie nowhere.
      const devices::gpu::Location result = memory.locate(c);
      library_->multiply(stream, dtype_, shape, shape.k == 0 ? result : memory.locate(a),
                         shape.k == 0 ? result : memory.locate(b), result);
    });
  }

  bool multiply_with_bias(const Launch& launch, const ProductShape& shape, const void* a,
                          const void* b, const void* bias, void* c) const override {
    if (is_refused_ || shape.m == 0 || shape.n == 0 || shape.k == 0) return false;
    const auto& memory = static_cast<devices::gpu::GpuQueue&>(*launch.queue).memory();
    bool is_done = false;
    issue_library_call(launch, [&](devices::gpu::Stream& stream) {
      is_done =
          library_->multiply_with_bias(stream, dtype_, shape, memory.locate(a), memory.locate(b),
                                       memory.locate(bias), memory.locate(c));
    });
    is_refused_ = !is_done;
    return is_done;
  }

  size_t workspace_bytes(const ProductShape&) const override { return 0; }
  const char* provider() const override { return library_->name(); }

 private:
  const std::shared_ptr<devices::gpu::ProductLibrary> library_;
  const DType dtype_;
  mutable std::atomic<bool> is_refused_ = false;  // The library has no bias for what was asked for.
};

}  // namespace

ProductsPtr library_products(const Device& device, DType dtype) {
  auto library = queue_of(device).memory().driver().products();
  if (!library) return nullptr;
  return std::make_shared<LibraryProducts>(std::move(library), dtype);
}

}  // namespace tandem::kernels::gpu

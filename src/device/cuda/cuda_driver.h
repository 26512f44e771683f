/// The devices of NVIDIA's driver.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "device/cuda/cuda_context.h"
#include "device/gpu/driver.h"

namespace tandem::devices::cuda {

/// The devices that the driver shows (CUDA_VISIBLE_DEVICES chooses among them), in its order. They
/// are asked what they are; contexts are opened by the first use of a device. Throws Unavailable
/// where the driver does not work or is too old.
std::vector<gpu::DriverPtr> find_drivers(const DriverApi& api);

/// What libraries of NVIDIA need of a stream.
class LibraryStream {
 public:
  virtual ~LibraryStream() = default;

  virtual CUstream get() const = 0;

  /// Runs a call of a library that issues commands on the stream, with the context current. Its
  /// commands are one command, as far as times go.
  virtual void issue(const std::function<void()>& call) = 0;
};

/// The stream is of a driver of this folder.
LibraryStream& library_stream(gpu::Stream& stream);

CUdeviceptr address_of(const gpu::Location& location);

/// The context of a driver; null where it is not of this folder.
std::shared_ptr<CudaContext> context_of(const gpu::Driver& driver);

}  // namespace tandem::devices::cuda

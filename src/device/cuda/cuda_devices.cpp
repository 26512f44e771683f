#include "device/cuda/cuda_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "device/cuda/cuda_cublas.h"
#include "device/cuda/cuda_cublaslt.h"
#include "device/cuda/cuda_cudnn.h"
#include "device/cuda/cuda_driver.h"
#include "device/cuda/cuda_nccl.h"
#include "device/cuda/cuda_nvrtc.h"
#include "device/gpu/gpu_device.h"
#include "tandem/error.h"

namespace tandem::devices::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBackend = "cuda";

/// NVIDIA's module of the kernel makes /dev/nvidia0 and so on; Windows' makes /dev/dxg for Linux
/// within it.
bool may_have_gpu() {
  std::error_code failed;
  for (auto at = fs::directory_iterator("/dev", failed); !failed && at != fs::directory_iterator();
       at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with("nvidia") || name == "dxg") return true;
  }
  return false;
}

bool is_off() {
  const char* const value = std::getenv("TANDEM_CUDA");
  if (value == nullptr || *value == '\0') return false;
  if (std::string_view(value) == "off") return true;
  throw InvalidArgument(fmt::format("TANDEM_CUDA is '{}'; it may be off, or not be set", value));
}

/// The drivers of a library's devices, or why there are none.
struct FoundDrivers {
  std::vector<gpu::DriverPtr> drivers{};
  std::string unusable{};
};

FoundDrivers search_drivers() {
  const LoadedApi& loaded = load_api();
  if (loaded.api == nullptr) return {{}, loaded.missing};
  try {
    return {find_drivers(*loaded.api), {}};
  } catch (const Error& error) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return {{},
            visible == nullptr
                ? std::string(error.what())
                : fmt::format("{}; CUDA_VISIBLE_DEVICES is '{}'", error.what(), visible)};
  }
}

/// The devices of a machine stay the same as long as the process lives; those of a test's folder do
/// not.
FoundDrivers find() {
  if (!library_folder().empty()) return search_drivers();
  static const auto* const found = new FoundDrivers(search_drivers());
  return *found;
}

}  // namespace

Found find_devices(const Search&) {
  Found found;
  if (is_off()) return found;
  if (library_folder().empty() && !may_have_gpu()) return found;
  const FoundDrivers searched = find();
  if (!searched.unusable.empty()) {
    found.unusable.push_back({"NVIDIA GPU", kBackend, searched.unusable});
  }
  for (const gpu::DriverPtr& driver : searched.drivers) {
    const gpu::Description& description = driver->description();
    if (description.unusable.empty()) {
      found.usable.push_back(gpu::physical_gpu(kBackend, driver));
    } else {
      found.unusable.push_back({description.name, kBackend, description.unusable});
    }
  }
  return found;
}

std::vector<config::BackendLibrary> list_libraries() {
  const LoadedApi& loaded = load_api();
  if (loaded.api == nullptr) return {{kBackend, "driver", {}, loaded.missing}};
  const DriverApi& api = *loaded.api;
  int version = 0;
  api.check(api.cuDriverGetVersion(&version), "cuDriverGetVersion");
  std::vector<config::BackendLibrary> libraries{
      {kBackend, "driver", fmt::format("libcuda.so.1, for CUDA {}", version_text(version)), {}}};
  constexpr int kSomeCapability = 80;
  try {
    const Nvrtc& nvrtc = find_nvrtc(kSomeCapability, version);
    libraries.push_back({kBackend, "NVRTC", nvrtc.name(), {}});
  } catch (const Unavailable& error) {
    libraries.push_back({kBackend, "NVRTC", {}, error.what()});
  }
  const LoadedCublas& cublas = load_cublas(api);
  libraries.push_back({kBackend, "cuBLAS", cublas.found, cublas.missing});
  const LoadedCublasLt& cublaslt = load_cublaslt(api);
  libraries.push_back({kBackend, "cuBLASLt", cublaslt.found, cublaslt.missing});
  const LoadedCudnn& cudnn = load_cudnn(api);
  libraries.push_back({kBackend, "cuDNN", cudnn.found, cudnn.missing});
  const LoadedNccl& nccl = load_nccl(api);
  libraries.push_back({kBackend, "NCCL", nccl.found, nccl.missing});
  return libraries;
}

}  // namespace tandem::devices::cuda

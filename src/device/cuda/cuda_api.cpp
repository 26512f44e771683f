#include "device/cuda/cuda_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "device/cuda/cuda_library.h"
#include "tandem/error.h"

namespace tandem::devices::cuda {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

/// The folder that the environment names.
std::string named_folder() {
  const char* const value = std::getenv("TANDEM_CUDA_LIBRARIES");
  return value == nullptr ? "" : value;
}

std::mutex mutex;  // Guards what follows.
std::string& folder() {
  static auto* const folder = new std::string(named_folder());
  return *folder;
}

/// By folder. Nothing that was loaded is ever unloaded: threads of the driver may still run.
std::map<std::string, LoadedApi>& loaded() {
  static auto* const apis = new std::map<std::string, LoadedApi>;
  return *apis;
}

LoadedApi load(const std::string& folder) {
  const std::string path = folder.empty() ? kLibrary : folder + "/" + kLibrary;
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return {nullptr, fmt::format("{}, which NVIDIA's driver brings, cannot be loaded: {}", kLibrary,
                                 dlerror())};
  }
  auto* const api = new DriverApi;
  api->folder = folder;
#define TANDEM_FIND(name, ...)                                                               \
  if (!find_function(library, #name, api->name)) {                                           \
    return {nullptr,                                                                         \
            fmt::format("{} has no function " #name ": the driver is too old, CUDA 12.0 is " \
                        "the first that is supported",                                       \
                        path)};                                                              \
  }
  TANDEM_CUDA_FUNCTIONS(TANDEM_FIND)
#undef TANDEM_FIND
  return {api, {}};
}

}  // namespace

std::string DriverApi::name_of(CUresult result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) name = "an unknown error";
  if (cuGetErrorString(result, &text) != CUDA_SUCCESS || text == nullptr) text = "it has no text";
  return fmt::format("{}: {} ({})", name, text, static_cast<unsigned>(result));
}

void DriverApi::check(CUresult result, const char* function) const {
  if (result == CUDA_SUCCESS) return;
  const std::string message = fmt::format("{}: {}", function, name_of(result));
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
      throw ResourceExhausted(message);
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_INVALID_IMAGE:
      throw InvalidArgument(message);
    case CUDA_ERROR_NOT_FOUND:
      throw NotFound(message);
    default:
      throw Unavailable(message);
  }
}

void* find_symbol(void* library, const char* name) { return dlsym(library, name); }

const LoadedApi& load_api() {
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = loaded().try_emplace(folder());
  if (is_new) found->second = load(folder());
  return found->second;
}

void set_library_folder(const std::string& path) {
  const std::lock_guard lock(mutex);
  folder() = path;
}

std::string library_folder() {
  const std::lock_guard lock(mutex);
  return folder();
}

}  // namespace tandem::devices::cuda

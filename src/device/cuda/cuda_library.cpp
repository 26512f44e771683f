#include "device/cuda/cuda_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <mutex>
#include <set>

#include "device/cuda/cuda_nvrtc.h"
#include "tandem/log.h"

namespace tandem::devices::cuda {

LoadedLibrary load_library(const DriverApi& driver, std::span<const LibraryName> names) {
  int version = 0;
  driver.check(driver.cuDriverGetVersion(&version), "cuDriverGetVersion");
  std::string looked_for;
  for (const auto& [soname, least_driver] : names) {
    if (version < least_driver) {
      looked_for += fmt::format("\n  {} needs a driver for CUDA {}, and this one is for {}", soname,
                                version_text(least_driver), version_text(version));
      continue;
    }
    const std::string path = driver.folder.empty() ? soname : driver.folder + "/" + soname;
    if (void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return {handle, soname};
    looked_for += fmt::format("\n  {} cannot be loaded ({})", soname, dlerror());
  }
  return {nullptr, {}, looked_for};
}

void warn_of_missing(const std::string& library, const char* instead, const std::string& missing) {
  static std::mutex mutex;
  static auto* const warned = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  if (!warned->insert(library).second) return;
  logging::write(logging::Level::warning,
                 fmt::format("{} was not found, so {}:{}", library, instead, missing));
}

}  // namespace tandem::devices::cuda

/// Libraries of NVIDIA beside its driver: cuBLAS, cuDNN, NCCL. They are large, so each is loaded
/// when it is first needed, and then kept as long as the process lives.
#pragma once

#include <span>
#include <string>

#include "device/cuda/cuda_api.h"

namespace tandem::devices::cuda {

/// A name under which a library is looked for.
struct LibraryName {
  const char* soname;
  int least_driver;  ///< The version of CUDA that the driver must speak, as 13000.
};

/// A library, or why there is none: what was looked for and what was found.
struct LoadedLibrary {
  void* handle = nullptr;
  std::string soname{};
  std::string missing{};
};

/// Loads the first of `names` that the driver is new enough for: from the driver's folder where a
/// test has set one.
LoadedLibrary load_library(const DriverApi& driver, std::span<const LibraryName> names);

/// Says, once for each library, what is done in its place.
void warn_of_missing(const std::string& library, const char* instead, const std::string& missing);

/// Looks up a function of a library; false where it has none of that name.
template <class Function>
bool find_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(find_symbol(library, name));
  return function != nullptr;
}

}  // namespace tandem::devices::cuda

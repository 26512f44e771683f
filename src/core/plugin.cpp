#include "core/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "tandem/error.h"

namespace tandem::core {
namespace {

/// The folder of the file that this function was loaded from: the library, or a program that has it
/// linked in.
std::filesystem::path own_folder() {
  static const char here = 0;
  Dl_info info{};
  if (dladdr(&here, &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code ignored;
  return std::filesystem::canonical(info.dli_fname, ignored).parent_path();
}

void* open(const char* name, const char* package) {
  const std::string file = fmt::format("libtandem_{}.so", name);
  const std::filesystem::path folder = own_folder();
  // Programs of the build tree that have the library linked in lie beside its folder.
  for (const auto& place : {folder / file, folder / ".." / "lib" / file}) {
    std::error_code ignored;
    if (!std::filesystem::exists(place, ignored)) continue;
    if (void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    throw NotFound(fmt::format("{} cannot be opened: {}. On Debian: apt-get install {}",
                               place.string(), dlerror(), package));
  }
  if (void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  throw NotFound(fmt::format(
      "{} is neither in '{}' nor where the system looks for libraries ({}). This Tandem "
      "was built without it; on Debian: apt-get install {}, then build again",
      file, folder.string(), dlerror(), package));
}

void check_version(void* library, const char* name) {
  const auto version = reinterpret_cast<const char* (*)()>(dlsym(library, "tandem_plugin_version"));
  const std::string_view found = version == nullptr ? "none" : version();
  if (found == TANDEM_VERSION) return;
  throw FailedPrecondition(fmt::format(
      "libtandem_{}.so is of version {}, the library of version {}", name, found, TANDEM_VERSION));
}

}  // namespace

void* plugin_function(const char* name, const char* symbol, const char* package) {
  static std::mutex mutex;
  static std::map<std::string, void*, std::less<>> libraries;
  const std::lock_guard lock(mutex);
  void*& library = libraries[name];
  if (library == nullptr) {
    void* const opened = open(name, package);
    check_version(opened, name);
    library = opened;
  }
  void* const function = dlsym(library, symbol);
  if (function == nullptr) {
    throw FailedPrecondition(fmt::format("libtandem_{}.so has no '{}'", name, symbol));
  }
  return function;
}

}  // namespace tandem::core

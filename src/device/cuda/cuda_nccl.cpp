#include "device/cuda/cuda_nccl.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "tandem/error.h"

namespace tandem::devices::cuda {
namespace {

constexpr LibraryName kNames[] = {{"libnccl.so.2", 12000}};
constexpr int kOldest = 21800;

LoadedNccl load(const DriverApi& driver) {
  const LoadedLibrary library = load_library(driver, kNames);
  if (library.handle == nullptr) return {nullptr, {}, library.missing};
  const auto too_old = [&](const std::string& why) {
    return LoadedNccl{nullptr, {}, fmt::format("\n  {} is too old: {}", library.soname, why)};
  };
  auto* const api = new NcclApi;
#define TANDEM_FIND(name, ...)                            \
  if (!find_function(library.handle, #name, api->name)) { \
    return too_old("it has no function " #name);          \
  }
  TANDEM_NCCL_FUNCTIONS(TANDEM_FIND)
  TANDEM_FIND(ncclGetErrorString)
#undef TANDEM_FIND
  int version = 0;
  api->ncclGetVersion(&version);
  // 22703 is 2.27.3, but 2804 is 2.8.4.
  const int unit = version < 10000 ? 1000 : 10000;
  const std::string text = fmt::format("version {}.{}", version / unit, version % unit / 100);
  if (version < kOldest) return too_old(text + "; 2.18 is the oldest that is supported");
  return {api, fmt::format("{}, {}", library.soname, text), {}};
}

}  // namespace

void NcclApi::check(ncclResult_t result, const char* function) const {
  if (result == ncclSuccess) return;
  const std::string message = fmt::format("{}: {} ({})", function, ncclGetErrorString(result),
                                          static_cast<unsigned>(result));
  if (result == ncclInvalidArgument || result == ncclInvalidUsage) throw InvalidArgument(message);
  throw Unavailable(message);
}

const LoadedNccl& load_nccl(const DriverApi& driver) {
  static std::mutex mutex;
  static auto* const libraries = new std::map<std::string, LoadedNccl>;  // By folder.
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = libraries->try_emplace(driver.folder);
  if (is_new) found->second = load(driver);
  return found->second;
}

}  // namespace tandem::devices::cuda

#include "device/cuda/cuda_nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "device/cuda/cuda_library.h"
#include "tandem/error.h"

namespace tandem::devices::cuda {
namespace {

/// Products and sums are rounded one by one, as on OpenCL devices, and subnormal numbers count as
/// zero, as on CPUs (core/compute_scope.h).
constexpr const char* kOptions[] = {"--std=c++17", "--fmad=false", "--ftz=true",
                                    "--disable-warnings"};

/// A library, or why it is none.
struct LoadedNvrtc {
  const Nvrtc* nvrtc = nullptr;
  std::string missing{};
};

LoadedNvrtc load(const char* name) {
  void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {nullptr, fmt::format("cannot be loaded ({})", dlerror())};
  auto* const api = new NvrtcApi;
#define TANDEM_FIND(function, ...)                       \
  if (!find_function(library, #function, api->function)) \
    return {nullptr, "has no function " #function};
  TANDEM_NVRTC_FUNCTIONS(TANDEM_FIND)
  TANDEM_FIND(nvrtcGetErrorString)
#undef TANDEM_FIND
  return {new Nvrtc(*api), {}};
}

/// Each library is loaded once, and stays.
const LoadedNvrtc& loaded(const char* name) {
  static std::mutex mutex;
  static auto* const libraries = new std::map<std::string, LoadedNvrtc>;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = libraries->try_emplace(name);
  if (is_new) found->second = load(name);
  return found->second;
}

/// A program of NVRTC while it is compiled.
class NvrtcProgram {
 public:
  NvrtcProgram(const NvrtcApi& api, nvrtcProgram program) : api_(api), program_(program) {}
  ~NvrtcProgram() { api_.nvrtcDestroyProgram(&program_); }
  NvrtcProgram(const NvrtcProgram&) = delete;
  NvrtcProgram& operator=(const NvrtcProgram&) = delete;

  nvrtcProgram get() const { return program_; }

  using Size = nvrtcResult (*)(nvrtcProgram, size_t*);
  using Content = nvrtcResult (*)(nvrtcProgram, char*);
  std::string read(Size size_of, Content content_of) const {
    size_t size = 0;
    if (size_of(program_, &size) != NVRTC_SUCCESS) return {};
    std::string content(size, '\0');
    return content_of(program_, content.data()) == NVRTC_SUCCESS ? content : std::string();
  }

 private:
  const NvrtcApi& api_;
  nvrtcProgram program_;
};

}  // namespace

std::string Target::name() const {
  return fmt::format("{}_{}", is_exact ? "sm" : "compute", capability);
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Nvrtc::Nvrtc(const NvrtcApi& api) : api_(api) {
  check(api_.nvrtcVersion(&major_, &minor_), "nvrtcVersion");
  int count = 0;
  check(api_.nvrtcGetNumSupportedArchs(&count), "nvrtcGetNumSupportedArchs");
  capabilities_.resize(static_cast<size_t>(count));
  check(api_.nvrtcGetSupportedArchs(capabilities_.data()), "nvrtcGetSupportedArchs");
  std::ranges::sort(capabilities_);
}

std::string Nvrtc::name() const { return fmt::format("NVRTC {}.{}", major_, minor_); }

Target Nvrtc::target_for(int capability) const {
  Target best;
  for (const int known : capabilities_) {
    if (known <= capability) best = {known, known == capability};
  }
  return best;
}

std::string Nvrtc::compile(const std::string& text, const Target& target) const {
  nvrtcProgram created = nullptr;
  check(api_.nvrtcCreateProgram(&created, text.c_str(), "tandem.cu", 0, nullptr, nullptr),
        "nvrtcCreateProgram");
  const NvrtcProgram program(api_, created);
  const std::string architecture = "--gpu-architecture=" + target.name();
  std::vector<const char*> options{architecture.c_str()};
  options.insert(options.end(), std::begin(kOptions), std::end(kOptions));
  const nvrtcResult result =
      api_.nvrtcCompileProgram(created, static_cast<int>(options.size()), options.data());
  if (result != NVRTC_SUCCESS) {
    const std::string log = program.read(api_.nvrtcGetProgramLogSize, api_.nvrtcGetProgramLog);
    throw InvalidArgument(fmt::format("a kernel does not compile for {}: {}\n{}", target.name(),
                                      api_.nvrtcGetErrorString(result), log.c_str()));
  }
  std::string image = target.is_exact ? program.read(api_.nvrtcGetCUBINSize, api_.nvrtcGetCUBIN)
                                      : program.read(api_.nvrtcGetPTXSize, api_.nvrtcGetPTX);
  if (image.empty()) throw Unavailable(fmt::format("{} has made nothing", name()));
  return image;
}

std::string Nvrtc::options_text(const Target& target) const {
  return fmt::format("{} {} {}", name(), target.name(), fmt::join(kOptions, " "));
}

void Nvrtc::check(nvrtcResult result, const char* function) const {
  if (result == NVRTC_SUCCESS) return;
  throw Unavailable(fmt::format("{}: {}", function, api_.nvrtcGetErrorString(result)));
}

std::span<const char* const> nvrtc_libraries() {
  static constexpr const char* kLibraries[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
  return kLibraries;
}

const Nvrtc& find_nvrtc(int capability, int driver, std::span<const char* const> libraries) {
  std::string looked_for;
  for (const char* name : libraries) {
    const auto& [nvrtc, missing] = loaded(name);
    std::string reason = missing;
    if (nvrtc != nullptr) {
      if (nvrtc->major() > driver / 1000) {
        reason = fmt::format("is {}, newer than the driver", nvrtc->name());
      } else if (nvrtc->target_for(capability).capability == 0) {
        reason = fmt::format("is {}, which compiles for newer devices only", nvrtc->name());
      } else {
        return *nvrtc;
      }
    }
    looked_for += fmt::format("\n  {} {}", name, reason);
  }
  throw Unavailable(
      fmt::format("kernels need NVIDIA's compiler NVRTC, which the CUDA toolkit brings; for a "
                  "device of compute "
                  "capability {}.{} and a driver for CUDA {} there is none:{}",
                  capability / 10, capability % 10, version_text(driver), looked_for));
}

}  // namespace tandem::devices::cuda

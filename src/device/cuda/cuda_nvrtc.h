/// NVIDIA's compiler of kernels, NVRTC, by declarations of our own and found at run time: when the
/// first kernel is needed, as the library is large.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

// NOLINTBEGIN(readability-identifier-naming): everything is called as NVRTC calls it.
struct _nvrtcProgram;

namespace tandem::devices::cuda {

using nvrtcProgram = _nvrtcProgram*;
enum nvrtcResult : unsigned { NVRTC_SUCCESS = 0, NVRTC_ERROR_COMPILATION = 6 };

/// Every function that returns nvrtcResult: its name, then its parameters.
#define TANDEM_NVRTC_FUNCTIONS(FUNCTION)                                                         \
  FUNCTION(nvrtcVersion, int*, int*)                                                             \
  FUNCTION(nvrtcGetNumSupportedArchs, int*)                                                      \
  FUNCTION(nvrtcGetSupportedArchs, int*)                                                         \
  FUNCTION(nvrtcCreateProgram, nvrtcProgram*, const char*, const char*, int, const char* const*, \
           const char* const*)                                                                   \
  FUNCTION(nvrtcDestroyProgram, nvrtcProgram*)                                                   \
  FUNCTION(nvrtcCompileProgram, nvrtcProgram, int, const char* const*)                           \
  FUNCTION(nvrtcGetProgramLogSize, nvrtcProgram, size_t*)                                        \
  FUNCTION(nvrtcGetProgramLog, nvrtcProgram, char*)                                              \
  FUNCTION(nvrtcGetPTXSize, nvrtcProgram, size_t*)                                               \
  FUNCTION(nvrtcGetPTX, nvrtcProgram, char*)                                                     \
  FUNCTION(nvrtcGetCUBINSize, nvrtcProgram, size_t*)                                             \
  FUNCTION(nvrtcGetCUBIN, nvrtcProgram, char*)

struct NvrtcApi {
#define TANDEM_MEMBER(name, ...) nvrtcResult (*name)(__VA_ARGS__);
  TANDEM_NVRTC_FUNCTIONS(TANDEM_MEMBER)
#undef TANDEM_MEMBER
  const char* (*nvrtcGetErrorString)(nvrtcResult);
};
// NOLINTEND(readability-identifier-naming)

/// What a program is compiled for: 8.6 is {86}.
struct Target {
  int capability = 0;
  /// The machine's own instructions (a cubin). Else PTX, which the driver translates when it loads
  /// it, for devices that are newer than the compiler.
  bool is_exact = true;

  /// "sm_86" or "compute_86"
  std::string name() const;
};

/// A version of the compiler.
class Nvrtc {
 public:
  explicit Nvrtc(const NvrtcApi& api);

  int major() const { return major_; }

  /// "NVRTC 13.0"
  std::string name() const;

  /// The best that it can do for a device: the device's own instructions, else PTX for the newest
  /// device that is older. A capability of 0 where it knows only newer ones.
  Target target_for(int capability) const;

  /// The program as the driver loads it. Throws InvalidArgument with the compiler's log.
  std::string compile(const std::string& text, const Target& target) const;

  /// What decides about a compiled kernel: version and options.
  std::string options_text(const Target& target) const;

 private:
  void check(nvrtcResult result, const char* function) const;

  const NvrtcApi& api_;
  int major_ = 0;
  int minor_ = 0;
  std::vector<int> capabilities_;  // Ascending.
};

/// The names under which the library is looked for, the newest first.
std::span<const char* const> nvrtc_libraries();

/// The first of `libraries` that compiles for a device of `capability` (86 for 8.6), whose driver
/// speaks the version `driver` of CUDA (12040 for 12.4): a compiler of a newer generation than the
/// driver makes what the driver does not load. Throws Unavailable, which says what was looked for
/// and found.
const Nvrtc& find_nvrtc(int capability, int driver,
                        std::span<const char* const> libraries = nvrtc_libraries());

/// "12.4" of 12040.
std::string version_text(int version);

}  // namespace tandem::devices::cuda

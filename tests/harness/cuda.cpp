#include "harness/cuda.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

#include "device/cuda/cuda_api.h"
#include "device/cuda/cuda_driver.h"
#include "device/cuda/cuda_nvrtc.h"
#include "device/gpu/dialect.h"
#include "harness/opencl.h"
#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::harness {
namespace {

namespace cuda = devices::cuda;
namespace fs = std::filesystem;

constexpr int kAnyDriver = 99000;

/// A function of the double.
template <class Function>
Function function_of(const char* name) {
  void* const library =
      dlopen(TANDEM_BINARY_DIR "/doubles/cuda/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void* const function = library == nullptr ? nullptr : dlsym(library, name);
  if (function == nullptr) throw std::runtime_error(dlerror());
  return reinterpret_cast<Function>(function);
}

/// The devices are found as always. Where there are fewer than four, the first is cut.
void use_real_cuda() {
  share_kernels();
  const auto gpus = config::list_physical_devices("GPU");
  constexpr size_t kWanted = 4;
  if (gpus.empty() || gpus.size() >= kWanted) return;
  const size_t parts = kWanted - gpus.size() + 1;
  config::set_logical_device_configuration(gpus[0],
                                           std::vector<config::LogicalDeviceConfiguration>(
                                               parts, {.memory_limit = gpus[0].memory / parts}));
}

}  // namespace

bool uses_real_cuda() {
  const char* const asked = std::getenv("TANDEM_TEST_CUDA");
  return asked != nullptr && std::string_view(asked) == "real";
}

bool has_nvrtc() {
  try {
    cuda::find_nvrtc(80, kAnyDriver);
    return true;
  } catch (const Unavailable&) {
    return false;
  }
}

namespace cuda_double {

void set(const char* name, long long value) {
  if (uses_real_cuda()) return;
  static const auto function = function_of<int (*)(const char*, long long)>("tandem_double_set");
  if (function(name, value) == 0) throw std::runtime_error(std::string("no setting ") + name);
}

long long count(const char* name) {
  if (uses_real_cuda()) return 0;
  static const auto function = function_of<long long (*)(const char*)>("tandem_double_count");
  return function(name);
}

void fail(const char* name, int n, int error) {
  static const auto function = function_of<void (*)(const char*, int, int)>("tandem_double_fail");
  function(name, n, error);
}

}  // namespace cuda_double

std::vector<devices::gpu::DriverPtr> cuda_drivers() {
  share_kernels();
  if (!uses_real_cuda()) cuda::set_library_folder(TANDEM_BINARY_DIR "/doubles/cuda");
  const cuda::LoadedApi& loaded = cuda::load_api();
  cuda::set_library_folder("");
  if (loaded.api == nullptr) throw Unavailable(loaded.missing);
  return cuda::find_drivers(*loaded.api);
}

void use_cuda(devices::gpu::KernelForm form) {
  devices::gpu::set_kernel_form(form);
  if (uses_real_cuda()) return use_real_cuda();
  for (const auto& driver : cuda_drivers()) {
    devices::Inventory::instance().add(devices::gpu::physical_gpu("cuda", driver));
  }
}

std::string compile_for_cuda(const std::string& program, int capability) {
  try {
    cuda::find_nvrtc(capability, kAnyDriver).compile(program, {capability});
    return {};
  } catch (const InvalidArgument& error) {
    return error.what();
  }
}

namespace {

/// The texts of programs that were run since this one was built. Older ones are of other sources,
/// and some tests want texts that do not compile.
std::vector<fs::path> present_texts() {
  std::vector<fs::path> paths;
  std::error_code failed;
  const auto built = fs::last_write_time("/proc/self/exe", failed);
  for (auto at = fs::directory_iterator(kernel_texts(), failed);
       !failed && at != fs::directory_iterator(); at.increment(failed)) {
    const bool is_bad = at->path().filename().string().starts_with("bad_");
    if (!is_bad && at->last_write_time() >= built) paths.push_back(at->path());
  }
  std::ranges::sort(paths);
  return paths;
}

/// Each text brings the functions that it uses, so it stands in a namespace of its own.
std::string program_of_texts(const std::string& prelude, const std::vector<fs::path>& texts) {
  std::ostringstream program;
  program << prelude;
  for (const fs::path& path : texts) {
    program << "namespace text_" << path.stem().string() << " {\n"
            << std::ifstream(path).rdbuf() << "}\n";
  }
  return program.str();
}

}  // namespace

std::string compile_texts_for_cuda(int capability, size_t& count) {
  const std::string prelude = devices::gpu::prelude("cuda", devices::gpu::KernelForm::parallel);
  const auto compiler = cuda::find_nvrtc(capability, kAnyDriver).options_text({capability});
  const fs::path folder = TANDEM_BINARY_DIR "/cuda_texts";
  const fs::path record = folder / std::to_string(std::hash<std::string>()(prelude + compiler));
  std::set<std::string> compiled;
  std::ifstream before(record);
  for (std::string name; std::getline(before, name);) compiled.insert(name);
  std::vector<fs::path> texts = present_texts();
  count = texts.size();
  std::erase_if(texts, [&](const fs::path& path) { return compiled.contains(path.stem()); });
  if (texts.empty()) return {};
  const std::string said = compile_for_cuda(program_of_texts(prelude, texts), capability);
  if (!said.empty()) return said;
  fs::create_directories(folder);
  std::ofstream after(record, std::ios::app);
  for (const fs::path& path : texts) after << path.stem().string() << "\n";
  return {};
}

}  // namespace tandem::harness

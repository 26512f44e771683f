#include "device/gpu/compiler.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "device/gpu/dialect.h"
#include "device/gpu/kernel_cache.h"
#include "tandem/error.h"
#include "tandem/log.h"

namespace tandem::devices::gpu {
namespace {

/// What takes longer is worth a word.
constexpr int kLongSeconds = 2;

/// "softmax" and the hash of its text: the same in each process, so that caches know it again.
std::string unique_name(const std::string& name, const std::string& text) {
  return fmt::format("{}_{:016x}", name, hash_of(text));
}

/// Where a person looks at a terminal, a line there says what takes so long, from the third second
/// on; it goes when the compiler is done. Elsewhere the log says so afterwards.
class CompileProgress {
 public:
  CompileProgress(const std::string& device, size_t kernels) {
    if (isatty(STDERR_FILENO) == 0) return;
    thread_ = std::thread([this, device, kernels] { show(device, kernels); });
  }
  ~CompileProgress() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  CompileProgress(const CompileProgress&) = delete;
  CompileProgress& operator=(const CompileProgress&) = delete;

 private:
  void show(const std::string& device, size_t kernels) {
    std::unique_lock lock(mutex_);
    auto pause = std::chrono::seconds(kLongSeconds);
    int seconds = 0;
    while (!changed_.wait_for(lock, pause, [this] { return done_; })) {
      seconds += static_cast<int>(pause.count());
      fmt::print(stderr, "\r{}: compiling {} kernels, {} s", device, kernels, seconds);
      pause = std::chrono::seconds(1);
    }
    if (seconds > 0) fmt::print(stderr, "\r\033[K");
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace

Compiler::Compiler(std::string device, DriverPtr driver, KernelForm form)
    : device_(std::move(device)), driver_(std::move(driver)), form_(form) {}

CompiledKernelPtr Compiler::add(const KernelText& text) {
  std::string words;
  for (const auto& [word, meaning] : text.words) {
    words += fmt::format("#define {} {}\n", word, meaning);
  }
  const std::string key = words + text.body;
  const std::lock_guard lock(mutex_);
  CompiledKernelPtr& known = kernels_[key];
  if (known) return known;
  known = std::make_shared<CompiledKernel>();
  known->name_ = unique_name(text.name, key);
  known->functions_ = text.functions;
  known->program_ = fmt::format("#define NAME {}\n{}\n#undef NAME\n", known->name_, key);
  for (const auto& [word, meaning] : text.words) {
    known->program_ += fmt::format("#undef {}\n", word.substr(0, word.find('(')));
  }
  pending_.push_back(known);
  write_text(*known);
  return known;
}

/// The text as it stands in a program, without the prelude.
void Compiler::write_text(const CompiledKernel& kernel) {
  const char* folder = std::getenv("TANDEM_KERNEL_TEXTS");
  if (folder == nullptr) return;
  const std::string path = fmt::format("{}/{}.txt", folder, kernel.name_);
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (std::filesystem::exists(path, failed)) {
    // So those of programs that were run lately can be told from older ones.
    const auto now = std::filesystem::file_time_type::clock::now();
    return std::filesystem::last_write_time(path, now, failed);
  }
  std::ofstream file(path);
  for (const std::string_view function : kernel.functions_) file << function;
  file << kernel.program_;
}

/// A text that does not compile must not stand in the way of the others: where some fail together,
/// the one that is needed is compiled alone.
const Kernel& Compiler::compile(CompiledKernel& kernel) {
  const std::lock_guard lock(mutex_);
  if (!kernel.kernel_) {
    const auto is_it = [&](const CompiledKernelPtr& other) { return other.get() == &kernel; };
    const bool is_alone = std::ranges::none_of(pending_, is_it) || pending_.size() == 1;
    try {
      if (!is_alone) compile_pending();
    } catch (const Error&) {
      // Its own error comes now.
    }
    if (!kernel.kernel_) {
      const auto module = module_of(program_of({kernel.shared_from_this()}), 1);
      kernel.set(module->kernel(kernel.name_));
      std::erase_if(pending_, is_it);
    }
  }
  return *kernel.kernel_;
}

void Compiler::compile_pending() {
  // Sorted, so that the same kernels make the same program, whatever their order was.
  std::vector<CompiledKernelPtr> kernels = std::exchange(pending_, {});
  std::ranges::sort(kernels, {}, [](const auto& kernel) { return kernel->name_; });
  const auto module = module_of(program_of(kernels), kernels.size());
  for (const auto& kernel : kernels) kernel->set(module->kernel(kernel->name_));
}

std::string Compiler::program_of(const std::vector<CompiledKernelPtr>& kernels) const {
  std::string program = prelude(driver_->dialect(), form_);
  std::set<std::string_view> functions;
  for (const auto& kernel : kernels) {
    for (const std::string_view function : kernel->functions_) {
      if (functions.insert(function).second) program += function;
    }
  }
  for (const auto& kernel : kernels) program += kernel->program_;
  return program;
}

std::shared_ptr<Module> Compiler::module_of(const std::string& program, size_t kernels) {
  const std::string key = fmt::format("{}\n{}\n{}\n{}", description().name, description().driver,
                                      driver_->compiler(), program);
  KernelCache& cache = KernelCache::instance();
  if (const auto binary = cache.find(key)) {
    if (auto module = driver_->load(*binary)) return module;
  }
  const auto begin = std::chrono::steady_clock::now();
  std::shared_ptr<Module> module;
  try {
    const CompileProgress progress(device_, kernels);
    module = driver_->compile(program);
  } catch (const Error& error) {
    error.rethrow_within(device_);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (took.count() > kLongSeconds) {
    logging::write(
        logging::Level::info,
        fmt::format("{}: compiled {} kernels in {:.1f} s; the next start finds them in {}", device_,
                    kernels, took.count(), cache.folder()));
  }
  cache.add(key, module->binary());
  return module;
}

std::shared_ptr<Compiler> compiler_of(const std::string& device, const DriverPtr& driver,
                                      KernelForm form) {
  if (!driver->is_permanent()) return std::make_shared<Compiler>(device, driver, form);
  using Key = std::tuple<const Driver*, std::string, KernelForm>;
  static std::mutex mutex;
  static auto* const compilers = new std::map<Key, std::shared_ptr<Compiler>>;
  const std::lock_guard lock(mutex);
  auto& compiler = (*compilers)[{driver.get(), device, form}];
  if (!compiler) compiler = std::make_shared<Compiler>(device, driver, form);
  return compiler;
}

}  // namespace tandem::devices::gpu

#include "program.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <vector>

namespace example {

using namespace tandem;  // NOLINT: an example

Flags::Flags(const std::string& description, const std::string& hint)
    : app_(std::make_unique<CLI::App>(description)), hint_(hint) {
  app_->footer(hint);
}
Flags::~Flags() = default;

void Flags::add(const std::string& name, int& value, const std::string& help, int least) {
  app_->add_option(name, value, help)
      ->capture_default_str()
      ->check(CLI::Range(least, std::numeric_limits<int>::max(), "NUMBER"));
}

void Flags::add(const std::string& name, int64_t& value, const std::string& help, int64_t least) {
  app_->add_option(name, value, help)
      ->capture_default_str()
      ->check(CLI::Range(least, std::numeric_limits<int64_t>::max(), "NUMBER"));
}

void Flags::add(const std::string& name, std::string& value, const std::string& help) {
  app_->add_option(name, value, help)->capture_default_str();
}

void Flags::add(const std::string& name, bool& value, const std::string& help) {
  app_->add_flag(name, value, help);
}

int Flags::run(int count, char** words, const std::function<void()>& program) {
  try {
    app_->parse(count, words);
    program();
  } catch (const CLI::ParseError& error) {
    return app_->exit(error);
  } catch (const NotFound& error) {
    std::fprintf(stderr, "%s: %s\n%s\n", error.kind(), error.what(), hint_.c_str());
    return 1;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", error.kind(), error.what());
    return 1;
  }
  return 0;
}

void use_logical_cpus(int count) {
  config::set_logical_cpus(std::vector<config::LogicalCpu>(static_cast<size_t>(count)));
}

keras::datasets::TrainAndTest flat_fashion_mnist(int64_t most) {
  auto [train, test] = keras::datasets::fashion_mnist::load_data();
  const auto prepared = [](const keras::datasets::Examples& examples, int64_t rows) {
    rows = std::min<int64_t>(rows, examples.y.shape()[0]);
    const Tensor images = reshape(examples.x.rows(0, rows), {-1, 784});
    return keras::datasets::Examples{cast(images, DType::float32) / 255.0,
                                     keras::utils::to_categorical(examples.y.rows(0, rows), 10)};
  };
  return {prepared(train, most), prepared(test, test.y.shape()[0])};
}

void use_opencl(int count) {
  config::set_opencl_cpus(true);
  const auto found = config::list_physical_devices("GPU");
  if (found.empty()) {
    throw NotFound("no device of OpenCL; Debian's package pocl-opencl-icd makes one of the CPU");
  }
  const int missing = count - static_cast<int>(found.size());
  if (missing <= 0) return;
  const auto parts = static_cast<size_t>(missing) + 1;
  config::set_logical_device_configuration(found[0],
                                           std::vector<config::LogicalDeviceConfiguration>(
                                               parts, {.memory_limit = found[0].memory / parts}));
}

void ReplicaDevices::add_to(Flags& flags) {
  flags.add("--logical-cpus", logical_cpus, "Devices to cut the CPU into");
  flags.add("--opencl-cpu", opencl_cpu,
            "Train on so many GPUs of the machine's OpenCL instead, CPUs included", 0);
}

void ReplicaDevices::configure() const {
  opencl_cpu > 0 ? use_opencl(opencl_cpu) : use_logical_cpus(logical_cpus);
}

void Gpus::add_to(Flags& flags) {
  flags.add("--opencl-cpu", opencl_cpu, "Make so many GPUs of the machine's OpenCL, CPUs included",
            0);
  flags.add("--test-gpus", test_gpus, "Make so many GPUs for this run, which compute on the CPU",
            0);
}

void Gpus::configure() const {
  if (opencl_cpu > 0) use_opencl(opencl_cpu);
  for (int i = 0; i < test_gpus; ++i) config::add_test_device();
}

void DeviceSetup::add_to(Flags& flags) {
  gpus.add_to(flags);
  flags.add("--soft-placement", soft, "Let the CPU take the place of a device that is not there");
}

void DeviceSetup::configure() const {
  gpus.configure();
  config::set_soft_device_placement(soft);
  config::set_log_device_placement(true);
  logging::set_level(logging::Level::error);  // The report says it all.
}

void print_reports() {
  for (const auto& placement : placement_report()) {
    std::printf("%s ran on %s (%s)\n", placement.op.c_str(), placement.device.c_str(),
                placement.reason.c_str());
  }
  for (const auto& count : copy_report()) {
    std::printf("%s -> %s: %llu copies, %llu bytes\n", count.from.c_str(), count.to.c_str(),
                static_cast<unsigned long long>(count.copies),
                static_cast<unsigned long long>(count.bytes));
  }
}

}  // namespace example

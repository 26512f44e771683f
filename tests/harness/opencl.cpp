#include "harness/opencl.h"

#include <cstdlib>

#include "device/opencl/opencl_driver.h"
#include "tandem/config.h"

namespace tandem::harness {

/// Read when PoCL's platform is opened and when the first kernel is compiled.
void set_opencl_environment() {
  setenv("POCL_DEVICES", "pthread pthread", 0);
  setenv("POCL_CACHE_DIR", TANDEM_BINARY_DIR "/pocl", 0);
  share_kernels();
}

void share_kernels() {
  setenv("TANDEM_KERNEL_CACHE", TANDEM_BINARY_DIR "/kernels", 0);
  setenv("TANDEM_KERNEL_TEXTS", TANDEM_BINARY_DIR "/kernel_texts", 0);
}

std::string kernel_texts() {
  share_kernels();
  return std::getenv("TANDEM_KERNEL_TEXTS");
}

void use_opencl(KernelForm form) {
  set_opencl_environment();
  devices::gpu::set_kernel_form(form);
  config::set_opencl_cpus(true);
}

void use_opencl_apart() {
  set_opencl_environment();
  devices::gpu::set_kernel_form(KernelForm::serial);
  for (const auto& driver : devices::opencl::find_drivers({.shared_contexts = false})) {
    devices::Inventory::instance().add(devices::gpu::physical_gpu("opencl", driver, 2));
  }
}

}  // namespace tandem::harness

/// OpenCL devices for tests: PoCL's, which are CPUs.
#pragma once

#include <string>

#include "device/gpu/gpu_device.h"

namespace tandem::harness {

using devices::gpu::KernelForm;

/// Two devices, and caches that all tests share. To be called before anything of OpenCL.
void set_opencl_environment();

/// All tests share what has been compiled, and leave their kernels' texts for the test that tries
/// other compilers. The functions that make devices of tests call it.
void share_kernels();

/// The folder of the texts.
std::string kernel_texts();

/// Makes GPU:0 and GPU:1 of the machine's OpenCL. To be called with fresh devices; ends with them.
void use_opencl(KernelForm form = KernelForm::serial);

/// The same, but each in a context of its own, as devices of two makers are: neither reaches the
/// other.
void use_opencl_apart();

}  // namespace tandem::harness

/// Which of NVIDIA's GPUs are GPUs of the process.
#pragma once

#include "device/inventory.h"

namespace tandem::devices::cuda {

/// The devices that NVIDIA's driver shows; CUDA_VISIBLE_DEVICES chooses among them. Where the
/// kernel knows of none, nothing is loaded. Where it does and they cannot be used, the reason is
/// among the unusable devices. TANDEM_CUDA=off in the environment leaves all of it alone.
Found find_devices(const Search& search);

/// NVIDIA's libraries that devices use. Loads them.
std::vector<config::BackendLibrary> list_libraries();

}  // namespace tandem::devices::cuda

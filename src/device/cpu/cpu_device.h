/// The machine's CPU, of which logical CPUs are cut.
#pragma once

#include "device/inventory.h"

namespace tandem::devices {

Physical physical_cpu();

}  // namespace tandem::devices

/// Profiles of processes that train together, as one.
#pragma once

#include <string>

#include "tandem/distribute/strategy.h"
#include "tandem/profile.h"

namespace tandem::distribute {

/// Does what profile::stop() does, with one file for the processes of all replicas: the chief
/// writes it, each process is a group of rows in it, and times are the chief's, whose clock the
/// others' are compared with. All processes call it, each after a profile::start() of its own. What
/// is returned is of this process.
TANDEM_API profile::Summary stop_profile(const Strategy& strategy, const std::string& path);

}  // namespace tandem::distribute

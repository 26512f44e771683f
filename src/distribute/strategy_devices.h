/// Which devices a strategy's replicas run on, and what they keep in parts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/logical_device.h"
#include "tandem/distribute/strategy.h"
#include "tensor/store.h"

namespace tandem::distribute {

/// What `replicas` keep in parts of a variable; `first` is the first of this process.
Store::ShardingRule sharding_by(Shard shard, int replicas, int first = 0);

/// A number that no other strategy has.
uint64_t next_owner();

/// The named devices; without names all GPUs, else all logical CPUs. Throws NotFound for one that
/// does not exist and InvalidArgument for one given twice.
std::vector<devices::DevicePtr> devices_for(const char* strategy,
                                            const std::vector<std::string>& names);

/// Each device in turn takes so many of the shards that no two devices differ by more than one.
std::vector<devices::DevicePtr> dealt(const std::vector<devices::DevicePtr>& devices, int shards);

}  // namespace tandem::distribute

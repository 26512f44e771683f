/// Copies between the memories of two devices, and between a device's and the host's, in order with
/// what the devices are asked to do.
#pragma once

#include <functional>

#include "device/logical_device.h"

namespace tandem::devices {

/// Copies `bytes`, behind all that both devices have been asked so far. Where the target is a CPU's
/// it is there on return, elsewhere it is a command of the target's queue. `keep` owns what lies at
/// both ends, until the copy has been made. What lies at `from` was there at `value`: if that is
/// known to be bad, then so is the copy. Returns when the copy is there. `on` is another queue of
/// the target's, behind which the copy is put instead.
Event transfer(Device& to_device, void* to, Device& from_device, const void* from, size_t bytes,
               std::shared_ptr<const void> keep, const Event& value = {}, Queue* on = nullptr);

/// Calls `take` with the bytes at `from`, a chunk at a time, in order, on this thread. While one is
/// taken the next is on its way. The host has no more than two of them in its memory.
void read_in_chunks(Device& device, const void* from, size_t bytes,
                    const std::function<void(const char* chunk, size_t bytes)>& take);

/// The same in the other direction: `give` fills each chunk. On return all have been given, and are
/// on their way.
void write_in_chunks(Device& device, void* to, size_t bytes,
                     const std::function<void(char* chunk, size_t bytes)>& give);

}  // namespace tandem::devices

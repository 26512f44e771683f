/// Writes many runs of bytes to one file, one after another, as fast as the disk takes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "checkpoint/files.h"

namespace tandem::checkpoint {

using ByteRun = std::span<const char>;

/// Fills the file, and returns the checksum of each run. What is large goes to the disk past the
/// page cache, where the file system allows it. Returns once the disk has it all.
std::vector<uint32_t> write_runs(NewFile& file, std::span<const ByteRun> runs);

}  // namespace tandem::checkpoint

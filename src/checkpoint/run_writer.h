/// Writes many runs of bytes to one file, one after another, as fast as the disk takes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "checkpoint/files.h"
#include "device/logical_device.h"

namespace tandem::checkpoint {

/// Bytes of the host's memory, or of a device's that the host cannot read: those come a chunk at a
/// time, when they are written.
class ByteRun {
 public:
  ByteRun(std::span<const char> bytes) : data_(bytes.data()), size_(bytes.size()) {}
  ByteRun(devices::DevicePtr device, const char* data, size_t size)
      : device_(std::move(device)), data_(data), size_(size) {}

  size_t size() const { return size_; }
  ByteRun part(size_t begin, size_t bytes) const { return {device_, data_ + begin, bytes}; }
  void copy(size_t begin, size_t bytes, char* to) const;

 private:
  devices::DevicePtr device_;  // Null for the host's own.
  const char* data_;
  size_t size_;
};

/// Fills the file, and returns the checksum of each run. What is large goes to the disk past the
/// page cache, where the file system allows it. Returns once the disk has it all.
std::vector<uint32_t> write_runs(NewFile& file, std::span<const ByteRun> runs);

}  // namespace tandem::checkpoint

/// Memory of the host that counts as none of a device's: the system takes pages for what is used of
/// it, and none for the rest.
#pragma once

#include <cstddef>
#include <memory>

namespace tandem::devices {

class MappedMemory {
 public:
  /// Zeros in a file of the temporary folder, which goes with the object and which nobody else
  /// sees. The system writes there what has not been used for a while. Throws ResourceExhausted
  /// where there is no such file.
  static std::shared_ptr<MappedMemory> in_file(size_t bytes);

  /// Zeros, of which a page takes memory when it is first written.
  static std::shared_ptr<MappedMemory> sparse(size_t bytes);

  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  char* data() { return data_; }
  const char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  MappedMemory(char* data, size_t size) : data_(data), size_(size) {}
  static std::shared_ptr<MappedMemory> map(size_t bytes, int flags, int file);

  char* const data_;
  const size_t size_;
};

}  // namespace tandem::devices

#include "device/mapped_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "tandem/error.h"

namespace tandem::devices {
namespace {

[[noreturn]] void cannot_map(size_t bytes, const std::string& where) {
  const std::string why = std::generic_category().message(errno);
  throw ResourceExhausted(fmt::format("no memory of {} bytes {}: {}", bytes, where, why));
}

}  // namespace

std::shared_ptr<MappedMemory> MappedMemory::map(size_t bytes, int flags, int file) {
  const size_t size = std::max<size_t>(bytes, 1);
  void* const data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, file, 0);
  if (data == MAP_FAILED) cannot_map(bytes, "can be mapped");
  ::madvise(data, size, MADV_NOHUGEPAGE);  // Or a single row would take two megabytes.
  return std::shared_ptr<MappedMemory>(new MappedMemory(static_cast<char*>(data), size));
}

std::shared_ptr<MappedMemory> MappedMemory::in_file(size_t bytes) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  std::string name = (folder / "tandem-XXXXXX").string();
  const int file = ::mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) cannot_map(bytes, "in a file of " + folder.string());
  ::unlink(name.c_str());
  try {
    if (::ftruncate(file, static_cast<off_t>(std::max<size_t>(bytes, 1))) != 0) {
      cannot_map(bytes, "in a file of " + folder.string());
    }
    auto memory = map(bytes, MAP_SHARED, file);
    ::close(file);
    return memory;
  } catch (...) {
    ::close(file);
    throw;
  }
}

std::shared_ptr<MappedMemory> MappedMemory::sparse(size_t bytes) {
  return map(bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

MappedMemory::~MappedMemory() { ::munmap(data_, size_); }

}  // namespace tandem::devices

/// How much of what a process keeps in files of the temporary folder is in memory.
#pragma once

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace tandem::harness {

/// Bytes of this process's mapped files that devices::MappedMemory made.
inline int64_t resident_file_bytes() {
  std::ifstream maps("/proc/self/smaps");
  int64_t bytes = 0;
  bool is_ours = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(' ')) is_ours = line.find("/tandem-") != std::string::npos;
    if (!is_ours || !line.starts_with("Rss:")) continue;
    std::istringstream words(line.substr(4));
    int64_t kilobytes = 0;
    words >> kilobytes;
    bytes += kilobytes << 10;
  }
  return bytes;
}

}  // namespace tandem::harness

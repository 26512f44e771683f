#include "collective/ucx/neighbour_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

namespace tandem::collective::ucx {

ReadingPlace own_reading_place(const uint64_t& identity) {
  ReadingPlace place;
  std::string machine;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> machine;
  std::copy_n(machine.data(), std::min(machine.size(), sizeof place.machine - 1), place.machine);
  place.process = getpid();
  place.identity = identity;
  place.at = reinterpret_cast<uintptr_t>(&identity);
  return place;
}

bool can_read(const ReadingPlace& place) {
  static const uint64_t nothing = 0;
  const ReadingPlace own = own_reading_place(nothing);
  const bool is_near =
      own.machine[0] != 0 && std::memcmp(own.machine, place.machine, sizeof own.machine) == 0;
  uint64_t found = 0;
  return is_near && read_from(place, place.at, &found, sizeof found) && found == place.identity;
}

bool read_from(const ReadingPlace& place, uint64_t from, void* to, size_t bytes) {
  auto* begin = static_cast<char*>(to);
  for (size_t done = 0; done < bytes;) {
    const iovec here{begin + done, bytes - done};
    const iovec there{reinterpret_cast<void*>(from + done), bytes - done};
    const ssize_t count =
        process_vm_readv(static_cast<pid_t>(place.process), &here, 1, &there, 1, 0);
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

}  // namespace tandem::collective::ucx

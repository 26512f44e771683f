/// Memory of other processes of the same machine, read where it lies: one copy, by the kernel,
/// where messages through shared memory take two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::collective::ucx {

/// Where a process can be read, as it tells the others.
struct ReadingPlace {
  char machine[40] = {};  ///< Tells its running kernel from others.
  int64_t process = 0;
  uint64_t identity = 0;  ///< Random: no two are alike,
  uint64_t at = 0;        ///< and it lies there.
};

/// That of this process; `identity` stays where it is for as long as it may be read.
ReadingPlace own_reading_place(const uint64_t& identity);

/// Whether this process may read the other one: it looks for the identity.
bool can_read(const ReadingPlace& place);

/// Copies from the other process. False where that cannot be done, as when it has died.
bool read_from(const ReadingPlace& place, uint64_t from, void* to, size_t bytes);

}  // namespace tandem::collective::ucx

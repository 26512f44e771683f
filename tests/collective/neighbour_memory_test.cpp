#include "collective/ucx/neighbour_memory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <vector>

namespace tandem::collective::ucx {
namespace {

/// A copy of this process that writes its own values to `values` and waits to be killed; the number
/// of the process.
pid_t start_neighbour(std::vector<int>& values) {
  int ready[2];
  if (pipe(ready) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    std::ranges::fill(values, 7);
    if (write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte = 0;
  const bool began = read(ready[0], &byte, 1) == 1;
  close(ready[0]);
  close(ready[1]);
  return began ? child : -1;
}

TEST(NeighbourMemory, IsReadAsLongAsItsProcessLives) {
  static const uint64_t identity = 0x1234'5678'9abc'def0;
  std::vector<int> values(100'000, 1);
  const pid_t child = start_neighbour(values);
  ASSERT_GT(child, 0);
  ReadingPlace place = own_reading_place(identity);
  place.process = child;
  const bool allowed = can_read(place);
  if (allowed) {
    std::vector<int> found(values.size());
    EXPECT_TRUE(read_from(place, reinterpret_cast<uintptr_t>(values.data()), found.data(),
                          found.size() * sizeof(int)));
    EXPECT_EQ(found, std::vector<int>(values.size(), 7));
    EXPECT_FALSE(read_from(place, 64, found.data(), sizeof(int))) << "nothing lies there";
    ReadingPlace other = place;
    other.identity = 1;
    EXPECT_FALSE(can_read(other)) << "another process has this number now";
    other = place;
    other.machine[0] = '?';
    EXPECT_FALSE(can_read(other)) << "it is another machine's";
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  int found = 0;
  EXPECT_FALSE(read_from(place, reinterpret_cast<uintptr_t>(values.data()), &found, sizeof found));
  EXPECT_FALSE(can_read(place));
  if (!allowed) GTEST_SKIP() << "processes may not read each other here";
}

}  // namespace
}  // namespace tandem::collective::ucx

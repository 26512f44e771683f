#include "core/background.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace tandem::core {
namespace {

int priority() { return getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid))); }

TEST(Background, OneThreadStepsBackAndTheOthersStay) {
  const int before = priority();
  int after = -100;
  bool entered = false;
  std::thread([&] {
    EXPECT_FALSE(in_background());
    enter_background();
    entered = in_background();
    after = priority();
  }).join();
  EXPECT_TRUE(entered);
  EXPECT_EQ(after, std::min(before + 10, 19));
  EXPECT_FALSE(in_background());
  EXPECT_EQ(priority(), before);
}

}  // namespace
}  // namespace tandem::core

#include <gtest/gtest.h>

#include <thread>

#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "runtime/random_calls.h"
#include "tandem/function.h"
#include "tandem/ops.h"

namespace tandem {
namespace {

using harness::throws;

class DeterminismTest : public harness::FreshDevices {
 protected:
  void TearDown() override {
    FreshDevices::TearDown();
    runtime::reset_random_calls();
  }

  /// What `f` throws on a thread of its own.
  template <class F>
  static std::string error_on_another_thread(const F& f) {
    std::string message;
    std::thread([&] {
      try {
        f();
      } catch (const FailedPrecondition& error) {
        message = error.what();
      }
    }).join();
    return message;
  }
};

TEST_F(DeterminismTest, RandomNumbersAreDrawnByTheFirstThreadOnly) {
  config::enable_op_determinism();
  const auto draw = function([](const Tensor& x) { return x + random_normal({2}); });
  random_normal({2});
  draw(fill({2}, 1.0));
  EXPECT_NE(error_on_another_thread([] { random_normal({2}); }).find("only one thread"),
            std::string::npos);
  EXPECT_NE(error_on_another_thread([&] { draw(fill({2}, 1.0)); }).find("only one thread"),
            std::string::npos);
  EXPECT_EQ(error_on_another_thread([] { fill({2}, 1.0); }), "");
  EXPECT_NO_THROW(random_normal({2}));
}

TEST_F(DeterminismTest, UnlessEnabledAnyThreadMayDraw) {
  random_normal({2});
  EXPECT_EQ(error_on_another_thread([] { random_normal({2}); }), "");
}

TEST_F(DeterminismTest, TheSameCallsGiveTheSameBits) {
  config::enable_op_determinism();
  const auto run = [] {
    runtime::reset_random_calls();
    const Tensor x = random_normal({300, 200});
    return reduce_sum(relu(matmul(x, x, {.transpose_b = true})), {.axes = {{0}}})
        .to_vector<float>();
  };
  EXPECT_EQ(run(), run());
}

}  // namespace
}  // namespace tandem

#include "collective/ucx/failed_assertion.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "core/plugin.h"

namespace tandem::collective::ucx {
namespace {

/// A transport whose assertions fail from some call on.
class BreakingTransport final : public Transport {
 public:
  explicit BreakingTransport(int& calls_left, bool& abandoned)
      : calls_left_(calls_left), abandoned_(abandoned) {}

  const std::string& address() const override { return text_; }
  std::string connect(int, const std::string&) override { return counted(""); }
  Request send(int, uint64_t, const void*, size_t) override { return counted(nullptr); }
  Request receive(uint64_t, void*, size_t) override { return counted(nullptr); }
  Status test(Request) override { return counted(Status::done); }
  void cancel(Request) override { counted(0); }
  bool progress() override { return counted(true); }
  int arm() override { return counted(5); }
  const std::string& failure(int) const override { return text_; }
  void flush() override { counted(0); }
  void disconnect() override { counted(0); }
  void abandon() override { abandoned_ = true; }

 private:
  template <class Result>
  Result counted(Result result) {
    if (calls_left_-- == 0) throw FailedAssertion{"UCX: x.c:1: no"};
    EXPECT_GE(calls_left_, 0) << "it is called after it broke";
    return result;
  }

  int& calls_left_;
  bool& abandoned_;
  std::string text_;
};

TEST(FailedAssertion, IsTheFailureOfAllPeersAndLeavesTheTransportAlone) {
  int calls_left = 3;
  bool abandoned = false;
  const auto transport =
      survive_assertions(std::make_unique<BreakingTransport>(calls_left, abandoned));
  EXPECT_EQ(transport->connect(1, ""), "");
  EXPECT_EQ(transport->send(1, 2, nullptr, 0), nullptr);
  EXPECT_TRUE(transport->progress());
  EXPECT_TRUE(transport->failure(1).empty());
  EXPECT_FALSE(transport->progress());
  EXPECT_TRUE(abandoned);
  for (const int peer : {0, 1}) EXPECT_EQ(transport->failure(peer), "UCX: x.c:1: no");
  EXPECT_EQ(transport->connect(1, ""), "UCX: x.c:1: no");
  EXPECT_EQ(transport->test(transport->send(1, 2, nullptr, 0)), Transport::Status::failed);
  EXPECT_EQ(transport->test(transport->receive(2, nullptr, 0)), Transport::Status::failed);
  EXPECT_LT(transport->arm(), 0);
  transport->flush();
  transport->disconnect();
}

TEST(FailedAssertion, IsThrownByTheFunctionThatUcxFindsFirst) {
  open_transport({.kind = "shm"});  // With the variables that it sets for UCX.
  using Fatal = void (*)(const char*, unsigned, const char*, const char*, ...);
  const auto fatal =
      reinterpret_cast<Fatal>(core::plugin_function("ucx", "ucs_fatal_error_format", "libucx-dev"));
  Dl_info info{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(fatal), &info), 0);
  EXPECT_TRUE(std::string(info.dli_fname).ends_with("libtandem_ucx.so")) << info.dli_fname;
  try {
    fatal("/build/src/tcp_cm.c", 84, "f", "Assertion `%s' failed", "a == b");
    FAIL();
  } catch (const FailedAssertion& failed) {
    EXPECT_EQ(failed.text, "UCX: tcp_cm.c:84: Assertion `a == b' failed");
  }
}

}  // namespace
}  // namespace tandem::collective::ucx

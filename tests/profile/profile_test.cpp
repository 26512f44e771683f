#include "tandem/profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "device/test/test_device.h"
#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem {
namespace {

using harness::throws;
using ProfileTest = harness::FreshDevices;

const profile::Summary::Op* find(const profile::Summary& summary, const std::string& name) {
  const auto op = std::ranges::find(summary.ops, name, &profile::Summary::Op::name);
  return op == summary.ops.end() ? nullptr : &*op;
}

TEST_F(ProfileTest, ASummarySaysWhatWasDoneAndHowFast) {
  config::set_logical_cpus({{.threads = 2}});
  const Tensor w = fill({64, 32}, 0.5);
  const auto f = function([&](const Tensor& x) { return reduce_sum(relu(matmul(x, w))); });
  const Tensor x = fill({128, 64}, 1.0);
  f(x);
  profile::start();
  for (int i = 0; i < 3; ++i) f(x);
  const profile::Summary summary = profile::stop();
  EXPECT_EQ(summary.steps, 3 * 2);  // On each of two threads.
  EXPECT_EQ(summary.rows, 2);
  const auto* matmul = find(summary, "fused_matmul");  // With relu.
  ASSERT_NE(matmul, nullptr);
  EXPECT_EQ(matmul->calls, 6);
  EXPECT_DOUBLE_EQ(matmul->flops, 3 * (2.0 * 128 * 64 * 32 + 128 * 32));
  EXPECT_DOUBLE_EQ(matmul->bytes, 3 * 4.0 * (128 * 64 + 64 * 32 + 128 * 32));
  EXPECT_GT(matmul->seconds, 0);
  EXPECT_LE(summary.compute + summary.wait, summary.wall * summary.rows);
  EXPECT_NE(summary.str().find("matmul"), std::string::npos);
}

TEST_F(ProfileTest, NothingIsRecordedOutside) {
  profile::start();
  profile::stop();
  static_cast<void>(fill({4}, 1.0) + fill({4}, 1.0));
  profile::start();
  const profile::Summary summary = profile::stop();
  EXPECT_TRUE(summary.ops.empty());
}

TEST_F(ProfileTest, EagerOpsAndQueuesAreRecorded) {
  devices::test::add_test_gpu();
  profile::start();
  static_cast<void>((fill({4}, 1.0) * fill({4}, 1.0)).to_vector<float>());
  const auto f = function([](const Tensor& x) { return relu(x); });
  f(fill({4}, 1.0)).to_vector<float>();
  const profile::Summary summary = profile::stop();
  EXPECT_NE(find(summary, "mul"), nullptr);
  EXPECT_NE(find(summary, "relu"), nullptr);
}

TEST_F(ProfileTest, TheTraceIsJsonWithARowForEachThread) {
  const std::string path = testing::TempDir() + "tandem_profile_test.json";
  const auto f = function([](const Tensor& x) { return relu(x * x); });
  f(fill({4}, 1.0));
  profile::start();
  f(fill({4}, 1.0));
  profile::stop(path);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(std::system(("python3 -c \"import json; t = json.load(open('" + path +
                         "'))['traceEvents']; assert any(e['name'] == 'step' for e in t); "
                         "assert all(e['ph'] in 'XM' for e in t)\"")
                            .c_str()),
            0)
      << text.str();
  std::remove(path.c_str());
}

TEST_F(ProfileTest, OneAtATime) {
  EXPECT_TRUE(throws<FailedPrecondition>([] { profile::stop(); }, {"start one first"}));
  profile::start();
  EXPECT_TRUE(throws<FailedPrecondition>([] { profile::start(); }, {"stop it first"}));
  EXPECT_TRUE(throws<Unavailable>([] { profile::stop("/no/such/folder/trace.json"); },
                                  {"/no/such/folder/trace.json"}));
  profile::start();
  profile::stop();
}

}  // namespace
}  // namespace tandem

#include "tandem/profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <thread>

#include "device/logical_device.h"
#include "device/test/test_device.h"
#include "harness/fresh_devices.h"
#include "harness/opencl.h"
#include "harness/temp_folder.h"
#include "harness/throws.h"
#include "op/instruction_hook.h"
#include "profile/session.h"
#include "tandem/tandem.h"

namespace tandem {
namespace {

using harness::throws;

/// Programs are played by all threads that they can have, however small they are and whatever else
/// the machine does: an instruction hook may wait.
class ProfileTest : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    op::set_instruction_hook([](int, const std::string&) {});
  }
  void TearDown() override {
    op::set_instruction_hook({});
    FreshDevices::TearDown();
  }
};

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
  EXPECT_EQ(summary.steps, 3);
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
  EXPECT_EQ(summary.steps, 1);
  for (const char* name : {"mul", "relu"}) {
    const auto* op = find(summary, name);
    ASSERT_NE(op, nullptr) << name;
    EXPECT_EQ(op->calls, 1);
    EXPECT_EQ(op->flops, 4) << name;
    EXPECT_GT(op->bytes, 0) << name;
  }
  const auto* copy = find(summary, "copy");  // Both results were copied to the host, at least.
  ASSERT_NE(copy, nullptr);
  EXPECT_GE(copy->bytes, 2 * 16);
  EXPECT_GT(summary.copy, 0);
}

std::map<std::string, std::vector<profile::Interval>> rows_of(const profile::Recorded& recorded) {
  std::map<std::string, std::vector<profile::Interval>> rows;
  for (const auto& row : recorded.rows) rows[row->name] = row->intervals;
  return rows;
}

bool has(const std::vector<profile::Interval>& row, const std::string& name) {
  return std::ranges::any_of(row, [&](const auto& interval) { return interval.name == name; });
}

/// Nothing is read: the profile itself waits for the devices' times.
TEST_F(ProfileTest, DevicesTellTheirOwnTimesAndWhyTheyWereIdle) {
  harness::use_opencl();
  const distribute::MirroredStrategy strategy({"/GPU:0", "/GPU:1"});
  const auto scope = strategy.scope();
  const Variable w(fill({300, 300}, 0.01f, DType::float32));
  const keras::optimizers::SGD optimizer(0.1);
  const auto step = function([&](const Tensor& x) {
    GradientTape tape;
    const Tensor loss = reduce_mean(square(matmul(x, w.value())));
    const Variables all{w};
    optimizer.apply_gradients(tape.gradient(loss, all), all);
    return loss;
  });
  const Tensor x = copy_to_device(fill({400, 300}, 1.0f, DType::float32), "/CPU:0");
  strategy.run(step, strategy.split(x));
  profile::start();
  for (int i = 0; i < 3; ++i) strategy.run(step, strategy.split(x));
  for (const auto& device : devices::all_devices()) device->finish(std::chrono::seconds(60));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  strategy.run(step, strategy.split(x));
  const profile::Recorded recorded = profile::finish();
  const auto rows = rows_of(recorded);
  for (const std::string device : {"/device:GPU:0", "/device:GPU:1"}) {
    ASSERT_TRUE(rows.contains(device));
    EXPECT_TRUE(has(rows.at(device), "matmul"));
    EXPECT_TRUE(has(rows.at(device), "idle, waiting for the host"));
    ASSERT_TRUE(rows.contains(device + " input"));
    EXPECT_TRUE(has(rows.at(device + " input"), "copy"));
    ASSERT_TRUE(rows.contains(device + " exchange"));
    EXPECT_TRUE(has(rows.at(device + " exchange"), "add"));
    for (const profile::Interval& interval : rows.at(device)) {
      EXPECT_LE(interval.begin_ns, interval.end_ns);
    }
  }
  const auto host = std::ranges::find_if(recorded.idle, [](const profile::IdleTime& idle) {
    return idle.row == "/device:GPU:0" && idle.why == "waiting for the host";
  });
  ASSERT_NE(host, recorded.idle.end());
  EXPECT_GE(host->seconds, 0.010);
}

TEST_F(ProfileTest, WaitsInsideAnOpAreNotItsOwnTime) {
  config::set_logical_cpus({{.threads = 2}});
  const auto f = function([](const Tensor& x) {
    return cond(
        greater(reduce_sum(x), Tensor(0.0f)), [&] { return matmul(x, x); }, [&] { return x; });
  });
  const Tensor x = fill({200, 200}, 1.0);
  f(x);
  profile::start();
  for (int i = 0; i < 20; ++i) f(x);
  const profile::Summary summary = profile::stop();
  EXPECT_EQ(summary.steps, 20);
  EXPECT_GT(summary.wait, 0);
  EXPECT_LE(summary.compute + summary.reduce + summary.wait, summary.wall * summary.rows);
}

TEST_F(ProfileTest, TheTraceIsJsonWithARowForEachThreadAndDevice) {
  devices::test::add_test_gpu();
  config::set_logical_cpus({{.threads = 2}});
  const harness::TempFolder folder;
  const std::string path = folder / "trace.json";
  const auto f = function([](const Tensor& x) { return matmul(relu(x), x); });
  const auto run = [&](const char* name) {
    const auto scope = device(name);
    f(fill({64, 64}, 1.0)).to_vector<float>();
  };
  run("/CPU:0");
  profile::start();
  run("/CPU:0");
  run("/GPU:0");
  profile::stop(path);
  const std::string check = R"(
import json, sys
events = json.load(open(sys.argv[1]))['traceEvents']
assert all(e['ph'] in 'XM' for e in events)
rows = {e['tid']: e['args']['name'] for e in events if e['name'] == 'thread_name'}
names = sorted(rows.values())
for wanted in ('thread 0 of /device:CPU:0', 'thread 1 of /device:CPU:0', '/device:GPU:0'):
    assert wanted in names, names
for row in ('thread 1 of /device:CPU:0', '/device:GPU:0'):
    calls = [e for e in events if e['name'] == 'matmul' and rows[e['tid']] == row]
    assert len(calls) == 1, (row, events)
    assert calls[0]['args']['flops'] > 0 and calls[0]['args']['bytes'] > 0 and calls[0]['dur'] > 0
assert sum(e['name'] == 'step' and rows[e['tid']] == 'thread 0 of /device:CPU:0' for e in events) == 2
)";
  const std::string script = folder / "check.py";
  std::ofstream(script) << check;
  EXPECT_EQ(std::system(("python3 " + script + " " + path).c_str()), 0);
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

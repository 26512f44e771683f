#include "data/row_copy.h"

#include <thread>

#include "data/elements.h"
#include "harness/fresh_devices.h"
#include "runtime/shared_team.h"

namespace tandem::data {
namespace {

using namespace std::chrono_literals;

class RowCopyTest : public harness::FreshDevices {};

constexpr int64_t kRows = 50;

/// Numbers that tell each byte of a row from its neighbours, and each row from the others.
Tensor bytes(int64_t row_bytes) {
  std::vector<uint8_t> values(static_cast<size_t>(kRows * row_bytes));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint8_t>(i * 7 + i / 251);
  return Tensor::from(values, {kRows, row_bytes});
}

std::vector<int64_t> places(int64_t count) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < count; ++i) result.push_back((i * 37 + 11) % kRows);
  return result;
}

/// A copy of rows of two arrays, and the memory that it fills.
struct Pair {
  Pair(int64_t row_bytes, int64_t count)
      : at(places(count)), x(bytes(row_bytes)), y(counting(kRows)) {
    const auto& host = devices::host_device();
    to_x = new_body(host, DType::uint8, {count, row_bytes});
    to_y = new_body(host, DType::int64, {count});
    copy = std::make_shared<RowCopy>(at);
    copy->add(x.body(), to_x);
    copy->add(y.body(), to_y);
  }

  void expect_copied() const {
    const Tensor index = Tensor::from(at, {static_cast<int64_t>(at.size())});
    EXPECT_EQ(Tensor(to_x).to_vector<uint8_t>(), gather(x, index).to_vector<uint8_t>());
    EXPECT_EQ(Tensor(to_y).to_vector<int64_t>(), at);
  }

  std::vector<int64_t> at;
  Tensor x, y;
  std::shared_ptr<TensorBody> to_x, to_y;
  std::shared_ptr<RowCopy> copy;
};

TEST_F(RowCopyTest, RowsOfAnySizeAreCopiedWhole) {
  for (const int64_t row_bytes : {0, 1, 63, 64, 65, 200, 4096, 20'000}) {
    for (const int64_t count : {1, 2, 40}) {
      const Pair pair(row_bytes, count);
      RowCopy::run(pair.copy);
      pair.expect_copied();
    }
  }
}

TEST_F(RowCopyTest, ThreadsShareTheRows) {
  for (const int threads : {1, 2, 3}) {
    core::Team team({{threads, "replica 0"}});
    for (const int64_t count : {1, 2, 41}) {
      const Pair pair(3136, count);
      team.run(pair.copy, 10s);
      pair.expect_copied();
    }
  }
  core::Team replicas({{1, "replica 0"}, {1, "replica 1"}});
  const Pair pair(3136, 41);
  replicas.run(pair.copy, 10s);
  pair.expect_copied();
}

/// A thread that has computed takes the team that it computed with, whether that sleeps or not.
TEST_F(RowCopyTest, AfterAStepTheBatchIsTheSame) {
  config::set_logical_cpus({{.threads = 2}});
  const auto step = function([](const Tensor& x) { return x + x; });
  const Tensor input = ones({512, 512});
  for (int i = 0; i < 20; ++i) {
    step(input);
    ASSERT_NE(runtime::last_team(), nullptr);
    if (i % 10 == 9) std::this_thread::sleep_for(5ms);
    const Pair pair(3136, 41);
    RowCopy::run(pair.copy);
    pair.expect_copied();
  }
}

TEST_F(RowCopyTest, AThreadThatNeverComputedHasNoTeam) {
  std::thread([] {
    EXPECT_EQ(runtime::last_team(), nullptr);
    const Pair pair(3136, 41);
    RowCopy::run(pair.copy);
    pair.expect_copied();
  }).join();
}

}  // namespace
}  // namespace tandem::data

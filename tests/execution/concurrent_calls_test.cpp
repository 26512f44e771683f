/// Functions that several threads of an application call at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <thread>

#include "harness/fresh_devices.h"
#include "harness/threads.h"
#include "harness/throws.h"
#include "op/instruction_hook.h"
#include "tandem/control_flow.h"
#include "tandem/error.h"
#include "tandem/function.h"
#include "tandem/ops.h"
#include "tandem/variable.h"

namespace tandem {
namespace {

using namespace std::chrono_literals;
using Floats = std::vector<float>;

class ConcurrentCallsTest : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    config::set_logical_cpus({{.threads = 2}});
  }
  void TearDown() override {
    op::set_instruction_hook({});
    FreshDevices::TearDown();
  }

  static Tensor scattered(const Shape& shape, double seed = 1) {
    std::vector<float> values(static_cast<size_t>(shape.count()));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(std::sin(seed * static_cast<double>(i * i)));
    }
    return Tensor::from(values, shape);
  }

  /// Calls `work(thread)` on so many threads, all at once.
  static void on_threads(int count, const std::function<void(int)>& work) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) threads.emplace_back([&, i] { work(i); });
    for (std::thread& thread : threads) thread.join();
  }
};

thread_local bool is_caller = false;

/// In a program that a caller's thread runs, waits until another caller is in one too.
class Encounter {
 public:
  Encounter() {
    op::set_instruction_hook([this](int, const std::string&) {
      if (!is_caller) return;
      is_caller = false;
      ++inside_;
      met_ = harness::eventually([this] { return inside_ >= 2; });
    });
  }
  ~Encounter() { op::set_instruction_hook({}); }
  bool happened() const { return met_; }

 private:
  std::atomic<int> inside_{0};
  std::atomic<bool> met_{false};
};

TEST_F(ConcurrentCallsTest, CallsThatOnlyReadVariablesRunSideBySide) {
  const Variable w(scattered({64, 8}));
  const auto f = function([&](const Tensor& x) { return relu(matmul(x, w)); });
  const Tensor x = scattered({16, 64}, 2);
  const Floats wanted = f(x).to_vector<float>();
  std::atomic<int> wrong{0};
  const Encounter encounter;
  on_threads(2, [&](int) {
    is_caller = true;
    wrong += f(x).to_vector<float>() != wanted;
  });
  EXPECT_TRUE(encounter.happened());
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(f.trace_count(), 1);
}

/// Products that the threads of a team share, reductions with phases, loops: some calls get the
/// team, the others are played by their callers alone.
TEST_F(ConcurrentCallsTest, WhoPlaysACallDoesNotChangeABit) {
  const Variable w(scattered({256, 256}));
  const auto f = function([&](const Tensor& x) {
    const Tensor h = matmul(x, w, {.transpose_b = true});
    using State = std::pair<Tensor, Tensor>;
    const State looped = while_loop([](const State& now) { return less(now.first, Tensor(3.0f)); },
                                    [](const State& now) {
                                      return State{now.first + 1.0f, softmax(now.second * 1.5f)};
                                    },
                                    State{Tensor(0.0f), h});
    return Tensors{looped.second, reduce_sum(h), reduce_sum(h * h, {.axes = {{0}}})};
  });
  const auto values_of = [](const Tensors& results) {
    std::vector<Floats> values;
    for (const Tensor& result : results) values.push_back(result.to_vector<float>());
    return values;
  };
  constexpr int kThreads = 4;
  std::vector<Tensor> inputs;
  std::vector<std::vector<Floats>> wanted;
  for (int i = 0; i < kThreads; ++i) {
    inputs.push_back(scattered({200 + 10 * (i % 2), 256}, i + 2));
    wanted.push_back(values_of(f(inputs.back())));
  }
  std::atomic<int> wrong{0};
  on_threads(kThreads, [&](int i) {
    const auto thread = static_cast<size_t>(i);
    for (int call = 0; call < 10; ++call) wrong += values_of(f(inputs[thread])) != wanted[thread];
  });
  EXPECT_EQ(wrong, 0);
}

TEST_F(ConcurrentCallsTest, ASmallCallStaysOnItsCallersThread) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer starts a thread of its own beside the first";
#endif
  const Variable w(scattered({64, 8}));
  const auto f = function([&](const Tensor& x) { return relu(matmul(x, w)); });
  const auto before = harness::thread_count();
  f(scattered({1, 64}));
  EXPECT_EQ(harness::thread_count(), before);
  f(scattered({20'000, 64}));
  EXPECT_EQ(harness::thread_count(), before + std::min(2, core::available_cores()) - 1);
}

/// A program that writes takes the variables for itself, so nobody reads half of a step.
TEST_F(ConcurrentCallsTest, ACallSeesStepsOfOthersWholeOrNotAtAll) {
  const Variable a(zeros({4096})), b(zeros({4096}));
  const auto step = function([&](const Tensor& x) {
    a.assign_add(x);
    b.assign_sub(x);
    return reduce_sum(x);
  });
  const auto balance = function([&](const Tensor& x) { return reduce_sum((a + b) * x); });
  const Tensor one = ones({4096});
  std::atomic<int> wrong{0};
  on_threads(3, [&](int i) {
    for (int call = 0; call < 200; ++call) {
      if (i == 0) {
        step(one);
      } else {
        wrong += balance(one).item<float>() != 0;
      }
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(a.value().to_vector<float>(), Floats(4096, 200));
}

/// Each call has random numbers of its own, and together they are those that one thread would draw.
TEST_F(ConcurrentCallsTest, EachCallDrawsItsOwnRandomNumbers) {
  constexpr int kThreads = 4;
  constexpr int kCalls = 8;
  const auto f = function([](const Tensor& x) { return random_normal(x.shape()); });
  const Tensor x = zeros({3, 5});
  f(x);
  std::vector<Floats> drawn[2];
  random::set_seed(7);
  for (int i = 0; i < kThreads * kCalls; ++i) drawn[0].push_back(f(x).to_vector<float>());
  random::set_seed(7);
  std::mutex mutex;
  on_threads(kThreads, [&](int) {
    for (int call = 0; call < kCalls; ++call) {
      Floats values = f(x).to_vector<float>();
      const std::lock_guard lock(mutex);
      drawn[1].push_back(std::move(values));
    }
  });
  std::ranges::sort(drawn[0]);
  std::ranges::sort(drawn[1]);
  EXPECT_EQ(drawn[0], drawn[1]);
}

/// One call's stuck thread is its own affair.
TEST_F(ConcurrentCallsTest, ACallThatDoesNotEndLeavesOthersAlone) {
  if (core::available_cores() == 1) GTEST_SKIP() << "One core's team is its caller.";
  const Variable w(scattered({64, 8}));
  const auto f = function([&](const Tensor& x) { return relu(matmul(x, w)); });
  const Tensor x = scattered({16, 64}, 2);
  const Floats wanted = f(x).to_vector<float>();
  const auto release = std::make_shared<std::atomic<bool>>(false);
  const auto stuck = std::make_shared<std::atomic<bool>>(false);
  op::set_instruction_hook([release, stuck](int, const std::string&) {
    if (is_caller || stuck->exchange(true)) return;  // The first other thread.
    while (!*release) std::this_thread::sleep_for(1ms);
  });
  is_caller = true;
  config::set_wait_deadline(200ms);
  EXPECT_TRUE(harness::throws<DeadlineExceeded>([&] { f(x); }, {"did not arrive within 0.2 s"}));
  config::set_wait_deadline(120s);
  std::atomic<int> wrong{0};
  on_threads(2, [&](int) { wrong += f(x).to_vector<float>() != wanted; });
  wrong += f(x).to_vector<float>() != wanted;
  EXPECT_EQ(wrong, 0);
  *release = true;
  is_caller = false;
}

}  // namespace
}  // namespace tandem

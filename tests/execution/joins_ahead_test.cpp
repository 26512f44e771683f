// Variables that devices keep in parts are joined one layer ahead, while the layer before computes:
// the same bits, in which order things happen, how much memory that takes, and what a join that
// fails leaves behind.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <sstream>
#include <thread>

#include "device/gpu/gpu_device.h"
#include "device/inventory.h"
#include "device/opencl/opencl_driver.h"
#include "device/test/late_queue.h"
#include "graph/passes/passes.h"
#include "harness/classifier.h"
#include "harness/faulty_driver.h"
#include "harness/opencl.h"
#include "harness/replica_group.h"
#include "harness/throws.h"

namespace tandem::graph {
namespace {

using namespace std::chrono_literals;
using harness::Doubles;
using harness::Names;
using harness::throws;

/// Parts of four are whole chunks.
constexpr int64_t kWidth = 256;

Names gpus(int count) {
  Names names;
  for (int i = 0; i < count; ++i) names.push_back(fmt::format("/GPU:{}", i));
  return names;
}

/// Equal layers, each with a kernel and a bias of which each GPU keeps a part.
template <class T>
class Layers {
 public:
  explicit Layers(int count, double learning_rate = 0.001) : optimizer(learning_rate) {
    for (int i = 0; i < count; ++i) {
      const auto stream = static_cast<uint64_t>(i);
      variables.emplace_back(numbers({kWidth, kWidth}, 10 + stream, 0.1),
                             VariableOptions{.name = fmt::format("kernel{}", i)});
      variables.emplace_back(numbers({kWidth}, 50 + stream, 0.1),
                             VariableOptions{.name = fmt::format("bias{}", i)});
    }
  }

  static Tensor numbers(const Shape& shape, uint64_t stream, double limit) {
    std::vector<T> values(static_cast<size_t>(shape.total_extent()));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<T>((2 * harness::uniform(stream, i) - 1) * limit);
    }
    return Tensor::from(values, shape);
  }
  static Tensor batch(int64_t rows) { return numbers({rows, kWidth}, 1, 1); }

  auto compiled_step() const {
    return function([self = *this](const Tensor& x) {
      GradientTape tape;
      Tensor h = x;
      for (size_t i = 0; i < self.variables.size(); i += 2) {
        h = tanh(matmul(h, self.variables[i]) + self.variables[i + 1]);
      }
      const Tensor loss = compute_average_loss(reduce_sum(square(h), {.axes = {{1}}}));
      self.optimizer.apply_gradients(tape.gradient(loss, self.variables), self.variables);
      return loss;
    });
  }

  /// All values, one variable after another.
  std::vector<T> values() const {
    std::vector<T> all;
    for (const Variable& variable : variables) {
      const auto own = variable.value().template to_vector<T>();
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  Variables variables;
  keras::optimizers::SGD optimizer;
};

/// Replicas on so many GPUs, of which each keeps a part of each variable.
struct InParts {
  explicit InParts(int count) : strategy(gpus(count), {.shard = distribute::Shard::variables}) {}

  /// The sum of the replicas' losses.
  template <class Step>
  double run(const Step& step, const Tensor& batch) const {
    const auto losses = strategy.run(step, strategy.split(batch));
    const Tensor sum = strategy.reduce(distribute::ReduceOp::sum, losses);
    return cast(sum, DType::float64).template item<double>();
  }

  distribute::MirroredStrategy strategy;
  decltype(strategy.scope()) scope = strategy.scope();
};

class JoinsAhead : public harness::FreshDevices {
 protected:
  void TearDown() override {
    op::set_instruction_hook({});
    devices::test::set_copy_hook({});
    set_joins_ahead(true);
    FreshDevices::TearDown();
  }

  static void use_test_gpus(int count, const devices::test::TestDeviceOptions& options = {}) {
    restart();
    for (int i = 0; i < count; ++i) {
      devices::test::TestDeviceOptions own = options;
      own.index = i;
      devices::test::add_test_gpu(own);
    }
  }

  static void use_opencl_gpus(int count) {
    restart();
    harness::use_opencl();
    for (const config::PhysicalDevice& gpu : config::list_physical_devices("GPU")) {
      config::set_logical_device_configuration(
          gpu, std::vector<config::LogicalDeviceConfiguration>(static_cast<size_t>(count) / 2,
                                                               {.memory_limit = 64 << 20}));
    }
  }
};

/// What some steps leave behind: the losses, then all values.
template <class T>
Doubles trained(int count, int layers) {
  const InParts parts(count);
  const Layers<T> model(layers);
  const auto step = model.compiled_step();
  Doubles history;
  for (int64_t rows : {16, 7, 1, 16}) {
    history.push_back(parts.run(step, model.batch(rows)));
  }
  for (T value : model.values()) history.push_back(value);
  return history;
}

template <class T>
void expect_same_bits(const std::function<void()>& restart, int count) {
  const auto by = [&](bool ahead) {
    restart();
    set_joins_ahead(ahead);
    return trained<T>(count, 3);
  };
  const Doubles in_place = by(false);
  const Doubles ahead = by(true);
  EXPECT_GT(in_place[0], in_place[3]);
  EXPECT_EQ(ahead, in_place);
}

TEST_F(JoinsAhead, ChangeNoBit) {
  for (int count : {2, 4}) {
    const auto late = [&] { use_test_gpus(count, {.delay = 200us, .random_delay = true}); };
    expect_same_bits<float>(late, count);
    expect_same_bits<double>(late, count);
  }
}

TEST_F(JoinsAhead, ChangeNoBitOnOpenCl) {
  for (int count : {2, 4}) {
    const auto opencl = [&] { use_opencl_gpus(count); };
    expect_same_bits<float>(opencl, count);
    expect_same_bits<double>(opencl, count);
  }
}

TEST_F(JoinsAhead, ChangeNoBitOfStepsThatAreCaptured) {
  const auto by = [](config::CapturedSteps captured, bool ahead) {
    use_opencl_gpus(2);
    config::set_captured_steps(captured);
    set_joins_ahead(ahead);
    const InParts parts(2);
    const Layers<float> model(3);
    const auto step = model.compiled_step();
    for (int i = 0; i < 6; ++i) parts.run(step, model.batch(8));
    const bool replays = step.explain().find("times replayed") != std::string::npos;
    EXPECT_EQ(replays, captured == config::CapturedSteps::on);
    return model.values();
  };
  const auto plain = by(config::CapturedSteps::off, true);
  EXPECT_EQ(by(config::CapturedSteps::on, true), plain);
  EXPECT_EQ(by(config::CapturedSteps::on, false), plain);
}

/// Each stage is two GPUs, which keep parts of its kernels along the mesh's axis of weights, and
/// join them for each micro-batch.
TEST_F(JoinsAhead, ChangeNoBitOfMicrobatches) {
  std::string explained;
  const auto by = [&](bool ahead) {
    use_test_gpus(4);
    set_joins_ahead(ahead);
    distribute::LayoutMap layouts(
        distribute::DeviceMesh({1, 2, 2}, {"data", "stage", "model"}, gpus(4)));
    layouts["kernel.*"] = {"", "model"};
    const distribute::ModelParallel strategy(layouts, {.microbatches = 4});
    const auto scope = strategy.scope();
    const Layers<double> model(4);
    const auto step = model.compiled_step();
    Doubles losses;
    for (int i = 0; i < 3; ++i) {
      const auto each = strategy.run(step, strategy.split(model.batch(16)));
      losses.push_back(strategy.reduce(distribute::ReduceOp::sum, each).item<double>());
    }
    explained = step.explain();
    return losses;
  };
  const Doubles in_place = by(false);
  EXPECT_EQ(by(true), in_place);
  EXPECT_NE(explained.find("join_start("), std::string::npos) << explained;
  EXPECT_GT(in_place[0], in_place[2]);
  use_test_gpus(1);
  const auto scope = device("/GPU:0");
  const Layers<double> model(4);
  const auto step = model.compiled_step();
  for (double loss : in_place) EXPECT_NEAR(step(model.batch(16)).item<double>(), loss, 1e-9);
}

/// What comes before a product in a program.
struct BeforeProduct {
  int started = 0;   ///< The joins that have begun,
  int finished = 0;  ///< those of them that have ended,
  int copies = 0;    ///< and the copies that each queue for exchanges has been asked for.
};

/// The products of a step that has run.
template <class Step>
std::vector<BeforeProduct> products_of(const Step& step, int count) {
  std::vector<BeforeProduct> products;
  BeforeProduct now;
  std::istringstream lines(step.explain());
  for (std::string line; std::getline(lines, line);) {
    const auto calls = [&](const char* op) { return line.find(op) != std::string::npos; };
    if (calls("matmul(")) products.push_back(now);
    if (calls("join_start(")) ++now.started;
    if (calls("join_finish(")) ++now.finished;
    if (calls("join_start(") || calls("sum_to_part(")) now.copies += count - 1;
  }
  return products;
}

TEST_F(JoinsAhead, BeginWhereThoseBeforeHaveEndedAlsoInTheBackwardPass) {
  use_test_gpus(2);
  constexpr size_t kLayers = 5;
  const InParts parts(2);
  const Layers<float> model(kLayers);
  const auto step = model.compiled_step();
  parts.run(step, model.batch(8));
  const auto products = products_of(step, 2);
  // A product forwards, two backwards, but one for the first layer, whose input has no gradient.
  ASSERT_EQ(products.size(), 3 * kLayers - 1) << step.explain();
  // Forwards the next layer's kernel and bias are on their way, behind the last one its own kernel
  // for the backward pass.
  for (size_t i = 0; i < kLayers; ++i) {
    EXPECT_EQ(products[i].finished, 2 * (static_cast<int>(i) + 1)) << step.explain();
    EXPECT_EQ(products[i].started - products[i].finished, i + 1 < kLayers ? 2 : 1) << i;
  }
  // Then the kernel of the layer before, as long as there is one whose input has a gradient.
  int beside_a_join = 0;
  for (size_t i = kLayers; i < products.size(); ++i) {
    const int under_way = products[i].started - products[i].finished;
    EXPECT_LE(under_way, 1) << i;
    beside_a_join += under_way;
  }
  EXPECT_GE(beside_a_join, static_cast<int>(kLayers) - 2) << step.explain();
}

/// How often each queue has copied.
class Copies {
 public:
  void add(const std::string& row) {
    const std::lock_guard lock(mutex_);
    ++counts_[row];
  }
  int of(int replica) const {
    const std::lock_guard lock(mutex_);
    const auto found = counts_.find(fmt::format("/device:GPU:{} exchange", replica));
    return found == counts_.end() ? 0 : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, int> counts_;
};

/// The first product that a join goes on beside, of each copy that a queue for exchanges is asked
/// for; -1 where there is none.
template <class Step>
std::vector<int> products_beside_copies(const Step& step, int count) {
  std::vector<int> beside;
  std::deque<size_t> under_way;  // The first copy of each join.
  int products = 0;
  std::istringstream lines(step.explain());
  for (std::string line; std::getline(lines, line);) {
    const auto calls = [&](const char* op) { return line.find(op) != std::string::npos; };
    if (calls("join_start(")) under_way.push_back(beside.size());
    if (calls("join_finish(")) under_way.pop_front();
    if (calls("join_start(") || calls("sum_to_part(")) {
      beside.insert(beside.end(), static_cast<size_t>(count) - 1, -1);
    }
    if (!calls("matmul(")) continue;
    for (size_t first : under_way) {
      const auto copies = std::span(beside).subspan(first, static_cast<size_t>(count) - 1);
      if (copies[0] < 0) std::ranges::fill(copies, products);
    }
    ++products;
  }
  return beside;
}

/// False where that does not come true in time.
template <class Condition>
bool comes_true(const Condition& condition) {
  const auto until = std::chrono::steady_clock::now() + 30s;
  while (!condition() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(100us);
  }
  return condition();
}

/// Each product waits until the joins that the next one needs are there. Were these to come behind
/// the product, it would wait for ever.
TEST_F(JoinsAhead, AreNotBehindTheLayerBefore) {
  for (int count : {2, 4}) {
    use_test_gpus(count);
    const InParts parts(count);
    const Layers<float> model(4);
    const auto step = model.compiled_step();
    parts.run(step, model.batch(16));
    const auto products = products_of(step, count);
    Copies copies;
    std::vector<size_t> played(static_cast<size_t>(count), 0);
    std::atomic<int> late{0};
    devices::test::set_copy_hook([&](const std::string& row) { copies.add(row); });
    op::set_instruction_hook([&](int replica, const std::string& op) {
      if (!op.ends_with("matmul")) return;
      const int asked = products[played[static_cast<size_t>(replica)]++].copies;
      if (!comes_true([&] { return copies.of(replica) >= asked; })) ++late;
    });
    parts.run(step, model.batch(16));
    op::set_instruction_hook({});
    devices::test::set_copy_hook({});
    EXPECT_EQ(late, 0);
    for (size_t each : played) EXPECT_EQ(each, products.size());
  }
}

/// Each copy of a join waits until the layer before computes. Were that to wait for the join, both
/// would wait for ever.
TEST_F(JoinsAhead, DoNotHoldUpTheLayerBefore) {
  for (int count : {2, 4}) {
    use_test_gpus(count);
    const InParts parts(count);
    const Layers<float> model(4);
    const auto step = model.compiled_step();
    parts.run(step, model.batch(16));
    const auto beside = products_beside_copies(step, count);
    EXPECT_GE(std::ranges::count_if(beside, [](int product) { return product >= 0; }), 8);
    Copies copies;
    std::vector<std::atomic<int>> begun(static_cast<size_t>(count));
    std::atomic<int> late{0};
    op::set_instruction_hook([&](int replica, const std::string& op) {
      if (op.ends_with("matmul")) ++begun[static_cast<size_t>(replica)];
    });
    devices::test::set_copy_hook([&](const std::string& row) {
      for (int replica = 0; replica < count; ++replica) {
        if (row != fmt::format("/device:GPU:{} exchange", replica)) continue;
        const int product = beside[static_cast<size_t>(copies.of(replica))];
        const auto& own = begun[static_cast<size_t>(replica)];
        if (!comes_true([&] { return own > product; })) ++late;
      }
      copies.add(row);
    });
    parts.run(step, model.batch(16));
    op::set_instruction_hook({});
    devices::test::set_copy_hook({});
    EXPECT_EQ(late, 0);
    EXPECT_EQ(copies.of(count - 1), static_cast<int>(beside.size()));
  }
}

TEST_F(JoinsAhead, KeepTheWeightsOfTwoLayersAtMost) {
  constexpr size_t kKernel = size_t{kWidth} * kWidth * sizeof(float);
  constexpr size_t kLayer = kKernel + size_t{kWidth} * sizeof(float);
  constexpr int kCount = 4;
  const auto peak = [](int layers, bool ahead) {
    use_test_gpus(kCount);
    set_joins_ahead(ahead);
    const InParts parts(kCount);
    const Layers<float> model(layers);
    const auto step = model.compiled_step();
    devices::Allocator& allocator = harness::find("/GPU:1")->allocator();
    allocator.reset_peak();
    for (int i = 0; i < 3; ++i) parts.run(step, model.batch(kCount));
    for (const auto& device : devices::all_devices()) device->finish(30s);
    return allocator.info().peak;
  };
  const size_t few = peak(12, true);
  const size_t many = peak(24, true);
  EXPECT_LT(many, 24 * kLayer * 4 / 5);
  // Twelve more layers are as many more parts of variables and of sums of gradients, and the little
  // that is kept for the backward pass.
  EXPECT_LT(many - few, 12 * 2 * (kLayer / kCount) + kKernel / 2);
  // What comes ahead takes the memory of one layer.
  EXPECT_LE(many, peak(24, false) + kLayer + kKernel / 16);
}

/// A model whose joined weights would not fit.
TEST_F(JoinsAhead, TrainAModelLargerThanEachDevice) {
  constexpr size_t kKernel = size_t{kWidth} * kWidth * sizeof(float);
  constexpr int kLayers = 24;
  use_test_gpus(4);
  const Doubles expected = trained<float>(4, kLayers);
  use_test_gpus(4, {.memory = kKernel * kLayers * 5 / 6});
  EXPECT_EQ(trained<float>(4, kLayers), expected);
}

/// A step, and what it would leave behind if nothing went wrong.
struct Training {
  explicit Training(int count) : parts(count) {}

  void run() { parts.run(step, model.batch(8)); }

  InParts parts;
  Layers<float> model{3};
  decltype(model.compiled_step()) step = model.compiled_step();
};

TEST_F(JoinsAhead, ThatFailOnTheWayAreErrorsAndVariablesStayThoseOfTheLastWholeStep) {
  std::vector<float> before, after;
  Copies copies;
  {
    use_test_gpus(2);
    Training training(2);
    training.run();
    before = training.model.values();
    devices::test::set_copy_hook([&](const std::string& row) { copies.add(row); });
    training.run();
    devices::test::set_copy_hook({});
    after = training.model.values();
  }
  const int each = copies.of(1);
  ASSERT_GT(each, 12);
  for (int failing = 1; failing <= each; ++failing) {
    use_test_gpus(2);
    Training disturbed(2);
    disturbed.run();
    std::atomic<int> made{0};
    devices::test::set_copy_hook([&](const std::string& row) {
      if (row != "/device:GPU:1 exchange" || ++made != failing) return;
      throw Unavailable(row + ": the link is down");
    });
    EXPECT_TRUE(
        throws<Unavailable>([&] { disturbed.run(); }, {"/device:GPU:1 exchange: the link is down"}))
        << failing;
    devices::test::set_copy_hook({});
    EXPECT_EQ(disturbed.model.values(), before) << failing;
    disturbed.run();
    EXPECT_EQ(disturbed.model.values(), after) << failing;
  }
}

/// Whoever waits for the step hears which device is late, and nothing waits for ever.
TEST_F(JoinsAhead, ThatDoNotEndAreNamed) {
  use_test_gpus(2);
  Training training(2);
  training.run();
  config::set_wait_deadline(300ms);
  const auto release = std::make_shared<std::atomic<bool>>(false);
  devices::test::set_copy_hook([release](const std::string& row) {
    while (row == "/device:GPU:1 exchange" && !*release) std::this_thread::sleep_for(1ms);
  });
  EXPECT_TRUE(throws<DeadlineExceeded>([&] { training.run(); }, {"/device:GPU:1 "}));
  *release = true;
  devices::test::set_copy_hook({});
  config::set_wait_deadline(60s);
  training.run();
  for (float value : training.model.values()) ASSERT_TRUE(std::isfinite(value));
}

/// GPUs of OpenCL, both of a driver that fails when it is told to.
class JoinsOnFaultyGpus : public JoinsAhead {
 protected:
  void SetUp() override {
    JoinsAhead::SetUp();
    harness::set_opencl_environment();
    devices::gpu::set_kernel_form(devices::gpu::KernelForm::serial);
    const auto drivers = devices::opencl::find_drivers();
    ASSERT_GE(drivers.size(), 2u);
    for (size_t i = 0; i < 2; ++i) {
      devices::Inventory::instance().add(
          devices::gpu::physical_gpu("opencl", harness::make_faulty(drivers[i], plan), 2));
    }
  }

  std::shared_ptr<harness::FaultPlan> plan = std::make_shared<harness::FaultPlan>();
};

TEST_F(JoinsOnFaultyGpus, ACopyThatIsRefusedNamesTheReplicaAndVariablesStay) {
  Training training(2);
  training.run();
  const auto before = training.model.values();
  const int calls = plan->calls(harness::DriverCall::copy);
  training.run();
  const int each = plan->calls(harness::DriverCall::copy) - calls;
  const auto after = training.model.values();
  training.run();
  const auto last = training.model.values();
  ASSERT_GT(each, 24);
  int named = 0;
  for (int failing = 1; failing <= each; ++failing) {
    for (size_t v = 0, at = 0; v < training.model.variables.size(); ++v) {
      const Variable& variable = training.model.variables[v];
      const auto count = static_cast<size_t>(variable.shape().total_extent());
      variable.assign(
          Tensor::from(std::vector<float>(before.begin() + static_cast<ptrdiff_t>(at),
                                          before.begin() + static_cast<ptrdiff_t>(at + count)),
                       variable.shape()));
      at += count;
    }
    plan->fail(harness::DriverCall::copy, failing);
    const std::string error = harness::error_of<ResourceExhausted>([&] { training.run(); });
    plan->fail_no_more();
    EXPECT_NE(error.find("copy: failed on purpose"), std::string::npos) << error;
    const bool is_named = error.starts_with("replica ");
    EXPECT_EQ(is_named, error.find("the join of 'kernel") != std::string::npos ||
                            error.find("the join of 'bias") != std::string::npos)
        << error;
    named += is_named ? 1 : 0;
    EXPECT_EQ(training.model.values(), before) << failing << " " << error;
    training.run();
    EXPECT_EQ(training.model.values(), after) << failing;
  }
  EXPECT_GE(named, 12);
  training.run();
  EXPECT_EQ(training.model.values(), last);
}

/// A device that is lost stays so.
TEST_F(JoinsOnFaultyGpus, ADeviceThatIsLostIsAnErrorOfEveryStep) {
  Training training(2);
  training.run();
  plan->fail(harness::DriverCall::ask_mark, 1, true);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(throws<Unavailable>([&] { training.run(); }, {"ask_mark"}));
  }
  plan->fail_no_more();
}

}  // namespace
}  // namespace tandem::graph

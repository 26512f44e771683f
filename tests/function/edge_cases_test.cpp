// Corners where two parts of the library meet: memory and barriers, tapes and functions, queues and
// errors, handles that are empty.
#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <thread>

#include "device/test/test_device.h"
#include "execution/execution.h"
#include "graph/program.h"
#include "graph/trace.h"
#include "harness/fresh_devices.h"
#include "harness/late.h"
#include "harness/throws.h"
#include "kernels/cpu/cpu_kind.h"
#include "tandem/tandem.h"
#include "tensor/store.h"

namespace tandem {
namespace {

using harness::throws;
using namespace std::chrono_literals;
using Floats = std::vector<float>;
using EdgeCases = harness::FreshDevices;

Tensor vector(const Floats& v) { return Tensor::from(v, {static_cast<int64_t>(v.size())}); }
devices::DevicePtr find(const char* name) { return devices::find_device(DeviceSpec::parse(name)); }

// Values of different row width in one buffer need a barrier between them.
TEST_F(EdgeCases, AValueOfOtherRowsInTheSameBufferIsWaitedFor) {
  const Tensor w1 = fill({256, 128}, 0.01);
  const Tensor w2 = fill({128, 512}, 0.01);
  const graph::Program program(
      graph::Trace::of(
          [&](const Tensors& a) {
            return Tensors{reduce_sum(matmul(matmul(relu(a[0]), w1), w2), {.axes = {{1}}})};
          },
          {{DType::float32, {-1, 256}}}),
      1);
  const auto& code = program.instructions();  // relu, matmul, matmul, reduce
  const auto buffer = [&](size_t i) { return program.memory().buffer_of[code[i].node.outputs[0]]; };
  ASSERT_EQ(buffer(2), buffer(0));
  EXPECT_EQ(code[2].barrier, graph::BarrierScope::subteam);
}

// The same, seen from outside.
TEST_F(EdgeCases, ASlowThreadsInputIsNotOverwritten) {
  config::set_logical_cpus({{.threads = 2}});
  const Tensor w1 = fill({256, 128}, 0.01);
  const Tensor w2 = fill({128, 512}, 0.01);
  const auto f = function([&](const Tensor& x) {
    return reduce_sum(matmul(matmul(relu(x), w1), w2), {.axes = {{1}}});
  });
  const Tensor x = fill({64, 256}, 1.0);
  const Floats wanted = f(x).to_vector<float>();
  std::atomic<int> calls{0};
  op::set_instruction_hook([&, main = std::this_thread::get_id()](int, const std::string& op) {
    if (op == "matmul" && std::this_thread::get_id() != main && calls++ == 0) {
      std::this_thread::sleep_for(50ms);
    }
  });
  const Floats got = f(x).to_vector<float>();
  op::set_instruction_hook({});
  EXPECT_TRUE(got == wanted);
}

// Threads pack an operand together, in other parts than those in which they have written it.
TEST_F(EdgeCases, AnOperandIsPackedOnceASlowThreadHasWrittenIt) {
  config::set_logical_cpus({{.threads = 2}});
  const Tensor w = fill({64, 1024}, 1.0);
  const auto f = function([&](const Tensor& x) { return matmul(relu(x), w); });
  f(fill({100, 64}, 1.0));
  if (kernels::cpu::this_cpu() != kernels::cpu::CpuKind::other) {
    ASSERT_NE(f.explain().find("packed"), std::string::npos) << f.explain();
  }
  std::atomic<int> calls{0};
  op::set_instruction_hook([&, main = std::this_thread::get_id()](int, const std::string& op) {
    if (op == "relu" && std::this_thread::get_id() != main && calls++ == 0) {
      std::this_thread::sleep_for(50ms);
    }
  });
  const Tensor y = f(fill({100, 64}, 2.0));
  op::set_instruction_hook({});
  EXPECT_EQ(y.to_vector<float>(), Floats(100 * 1024, 128.0f));
}

TEST_F(EdgeCases, AViewOfAResultIsNotOverwrittenByLaterCalls) {
  const auto f = function([](const Tensor& x) { return x * 2.0; });
  const Tensor head = f(vector({1, 2})).rows(0, 1);
  f(vector({10, 20}));
  EXPECT_EQ(head.item<float>(), 2.0f);
}

TEST_F(EdgeCases, AFunctionCalledUnderATapeIsDifferentiatedOrRefused) {
  const Variable v(Tensor(3.0));
  const auto f = function([&] { return v * v; });
  for (int call = 0; call < 2; ++call) {
    GradientTape tape;
    const Tensor y = f() + v * 2.0;
    EXPECT_EQ(tape.gradient(y, Variables{v})[0].item<double>(), 8.0);
  }
}

// The first event after an error may be one that nobody waits for.
TEST_F(EdgeCases, AnErrorReachesAnOpWhoseInputIsCopiedFromTheHost) {
  devices::test::add_test_gpu();
  harness::issue_late(find("/gpu:0")->queue(), [] { throw DataLoss("the bus lost a bit"); });
  const auto scope = device("/gpu:0");
  const Tensor y = relu(vector({1, 2}));
  EXPECT_TRUE(throws<DataLoss>([&] { y.to_vector<float>(); }, {"the bus lost a bit"}));
}
TEST_F(EdgeCases, AnErrorReachesWhatIsComputedFromAFailedTensor) {
  devices::test::add_test_gpu();
  const auto scope = device("/gpu:0");
  const Tensor x = relu(vector({1, 2}));
  harness::issue_late(find("/gpu:0")->queue(), [] { throw DataLoss("the bus lost a bit"); });
  const Tensor z = relu(relu(x));
  EXPECT_TRUE(throws<DataLoss>([&] { z.to_vector<float>(); }, {"the bus lost a bit"}));
}
TEST_F(EdgeCases, AnErrorOfAFunctionWithoutResultsSurfacesAtTheNextRead) {
  devices::test::add_test_gpu();
  const Variable v(vector({1, 2}));
  const auto f = function([&] { v.assign_add(v); });
  harness::issue_late(find("/gpu:0")->queue(), [] { throw DataLoss("the bus lost a bit"); });
  f();
  EXPECT_TRUE(throws<DataLoss>([&] { v.value().to_vector<float>(); }, {"the bus lost a bit"}));
}

TEST_F(EdgeCases, ACopyFromAStuckQueueNamesTheDevice) {
  devices::test::add_test_gpu({.stuck = true});
  config::set_wait_deadline(20ms);
  const Tensor x = on_device(vector({1}), find("/gpu:0"));
  const auto scope = device("/cpu:0");
  EXPECT_TRUE(throws<DeadlineExceeded>([&] { relu(x); }, {"/device:GPU:0"}));
  restart();
}

TEST_F(EdgeCases, ACpuVariableIsUsableInAGpuScope) {
  devices::test::add_test_gpu();
  Variable v;
  {
    const auto scope = device("/cpu:0");
    v = Variable(vector({1, 2}));
  }
  const auto scope = device("/gpu:0");
  EXPECT_EQ((v * 2.0).to_vector<float>(), (Floats{2, 4}));
}

TEST_F(EdgeCases, ReadingTheBatchItselfWhileTracingIsRefused) {
  const auto f = function([](const Tensor& x) {
    x.to_vector<float>();
    return x;
  });
  EXPECT_TRUE(throws<FailedPrecondition>([&] { f(vector({1, 2})); }, {"traced"}));
}

TEST_F(EdgeCases, ATensorOfAnEarlierTraceIsRefused) {
  Tensor leaked;
  const auto f = function([&](const Tensor& x) {
    leaked = x;
    return x * 2.0;
  });
  f(vector({1, 2}));
  const auto g = function([&](const Tensor& x) { return x + leaked; });
  EXPECT_TRUE(throws<FailedPrecondition>([&] { g(vector({1, 2})); }, {"another function's trace"}));
}

TEST_F(EdgeCases, VariablesWithoutElementsAreVariablesOfTheirOwn) {
  const Variable none(Tensor::from<float>({}, {0}));
  const Variable v(vector({1, 2, 3}));
  const auto f = function([&] { return Tensors{none.value(), v.value()}; });
  EXPECT_EQ(f()[1].to_vector<float>(), (Floats{1, 2, 3}));
}

TEST_F(EdgeCases, AnUpdateWhoseGradientsAreTheOtherVariablesIsTheSameTraced) {
  config::set_logical_cpus({{.threads = 1}});
  Floats after[2];
  for (const bool traced : {false, true}) {
    const Variable a(vector({1, 2}));
    const Variable b(vector({-30, 40}));
    const keras::optimizers::Adam adam(0.5);
    const auto step = [&] { adam.apply_gradients({b.value(), a.value()}, {a, b}); };
    const auto f = function([&] { step(); });
    for (int i = 0; i < 20; ++i) traced ? f() : step();
    after[traced] = b.value().to_vector<float>();
  }
  EXPECT_EQ(after[0], after[1]);
}

TEST_F(EdgeCases, AScopeLeftOnAnotherThreadLeavesThatThreadsOwnAlone) {
  std::unique_ptr<DeviceScope> other;
  std::thread([&] { other.reset(new DeviceScope(device("/cpu:7"))); }).join();
  std::thread([&] {
    const auto mine = device("/cpu:3");
    other.reset();
    EXPECT_TRUE(throws<FailedPrecondition>([] { current_device_scope(); }, {"another thread"}));
    EXPECT_EQ(current_device_scope().str(), "/device:CPU:3");
  }).join();
}

TEST_F(EdgeCases, AScopeInsideAFunctionCountsOrIsRefused) {
  const auto f = function([](const Tensor& x) {
    const auto scope = device("/gpu:7");
    return x * 2.0;
  });
  EXPECT_ANY_THROW(f(vector({1, 2})));
}

TEST_F(EdgeCases, OneResultIsAskedForOnlyWhereThereIsOneAlsoWhileTracing) {
  const FlatFunction two([](const Tensors& t) { return Tensors{t[0], t[0]}; });
  const auto f = function([&](const Tensor& x) { return two.single(Tensors{x}); });
  EXPECT_TRUE(throws<InvalidArgument>([&] { f(vector({1, 2})); }, {"2 results"}));
}

TEST_F(EdgeCases, ANegativeZeroIsNotAZero) {
  EXPECT_FALSE(std::signbit(fill({1}, 0.0).item<float>()));
  EXPECT_TRUE(std::signbit(fill({1}, -0.0).item<float>()));
}

TEST_F(EdgeCases, APartGivenTwiceIsRefusedAlsoWhereOneIsAStar) {
  for (const char* name : {"/job:a/job:*", "/job:*/job:a", "/task:*/task:1", "/device:*/gpu:1"}) {
    EXPECT_TRUE(throws<InvalidArgument>([&] { DeviceSpec::parse(name); }, {name, "twice"})) << name;
  }
}

TEST_F(EdgeCases, AnIntegerSourceIsRefused) {
  const Variable count(Tensor(int64_t{3}));
  const Tensor i(3);
  GradientTape tape({.persistent = true});
  EXPECT_TRUE(throws<InvalidArgument>([&] { tape.watch(count); }, {"int64"}));
  const Variable v(Tensor(2.0));
  const Tensor y = v * v;
  EXPECT_TRUE(throws<InvalidArgument>([&] { tape.gradient(y, Tensors{i}); }, {"int32"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { tape.gradient(y, Variables{count}); }, {"int64"}));
}

TEST_F(EdgeCases, ADeviceAddedTwiceIsRefused) {
  devices::test::add_test_gpu();
  EXPECT_ANY_THROW(devices::test::add_test_gpu());
}

TEST_F(EdgeCases, ATargetThatIsRefusedDoesNotSpendTheTape) {
  const Variable v(Tensor(3.0));
  GradientTape tape;
  const Tensor y = v * v;
  EXPECT_THROW(tape.gradient(Tensor(1), Variables{v}), InvalidArgument);
  EXPECT_EQ(tape.gradient(y, Variables{v})[0].item<double>(), 6.0);
}

TEST_F(EdgeCases, AVariableOfAnEmptyTensorIsRefused) {
  EXPECT_TRUE(throws<FailedPrecondition>([] { const Variable v{Tensor()}; }, {"empty"}));
}
TEST_F(EdgeCases, AnEmptyVariableIsRefusedEverywhere) {
  EXPECT_TRUE(throws<FailedPrecondition>([] { Variable().assign(Tensor(1.0f)); }, {"empty"}));
}

TEST_F(EdgeCases, ASymbolicShapeOutsideOfAFunctionIsRefused) {
  EXPECT_TRUE(throws<InvalidArgument>([] { fill({-1, 3}, 1.0); }, {"fill", "[None,3]"}));
}

// Its queue cannot wait for itself to end.
TEST_F(EdgeCases, ADeviceWhoseLastWorkOutlivesEveryHandleEndsQuietly) {
  devices::test::add_test_gpu({.delay = 5ms});
  {
    const auto scope = device("/gpu:0");
    relu(vector({1, 2}));
  }
  devices::reset_devices();
  const Tensor next(1.0f);
  std::this_thread::sleep_for(100ms);
}

TEST_F(EdgeCases, ASinkMayLog) {
  const auto former = logging::set_sink([](logging::Level, std::string_view m) {
    if (m == "a") logging::write(logging::Level::info, "b");
  });
  logging::write(logging::Level::info, "a");
  logging::set_sink(former);
}

}  // namespace
}  // namespace tandem

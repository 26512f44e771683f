// The driver of CUDA devices, on doubles: kernels that the real NVRTC has compiled, in both forms
// and with threads in both orders; memory in order; times; errors by name; what is said where
// something is missing.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <thread>

#include "device/cuda/cuda_api.h"
#include "device/cuda/cuda_devices.h"
#include "device/cuda/cuda_nvrtc.h"
#include "device/gpu/compiler.h"
#include "device/gpu/dialect.h"
#include "device/gpu/gpu_timeline.h"
#include "harness/cuda.h"
#include "harness/temp_folder.h"
#include "harness/throws.h"
#include "tandem/error.h"

namespace tandem::devices::cuda {
namespace {

using namespace std::chrono_literals;
using gpu::KernelArgument;
using gpu::KernelForm;
using gpu::Location;
using harness::CudaDoubleSetting;
using harness::throws;
namespace cuda_double = harness::cuda_double;

constexpr KernelForm kForms[] = {KernelForm::serial, KernelForm::parallel};

/// A stream of one of the doubles, and memory that is given back with the object.
class Bench {
 public:
  explicit Bench(gpu::DriverPtr driver = harness::cuda_drivers().at(0))
      : driver(std::move(driver)), stream(this->driver->create_stream()) {}
  ~Bench() {
    for (const gpu::Memory memory : memory_) driver->release(memory);
  }

  template <class T>
  Location put(const std::vector<T>& values) {
    const size_t bytes = values.size() * sizeof(T);
    memory_.push_back(driver->allocate(bytes));
    const auto staging = driver->staging(bytes);
    std::memcpy(staging.get(), values.data(), bytes);
    stream->write({memory_.back(), 0}, staging.get(), bytes);
    finish();
    return {memory_.back(), 0};
  }
  template <class T>
  std::vector<T> get(const Location& from, size_t count) {
    const auto staging = driver->staging(count * sizeof(T));
    stream->read(staging.get(), from, count * sizeof(T));
    finish();
    std::vector<T> values(count);
    std::memcpy(values.data(), staging.get(), count * sizeof(T));
    return values;
  }
  void finish() { ASSERT_TRUE(gpu::wait_for(*stream->mark(nullptr), core::Clock::now() + 60s)); }

  /// Compiles a kernel and launches it. Memory is a Location, everything else a number.
  template <class... Arguments>
  void launch(KernelForm form, const gpu::KernelText& text, const gpu::Grid& grid,
              const Arguments&... arguments) {
    gpu::Compiler compiler("GPU:0", driver, form);
    const auto kernel = compiler.add(text);
    std::vector<KernelArgument> list;
    (add(list, arguments), ...);
    stream->launch(compiler.get(*kernel), grid, list);
    finish();
  }

  const gpu::DriverPtr driver;
  const std::shared_ptr<gpu::Stream> stream;

 private:
  static void add(std::vector<KernelArgument>& list, const Location& memory) {
    list.push_back({.memory = memory.memory});
    list.push_back({.bits = memory.offset});
  }
  static void add(std::vector<KernelArgument>& list, int64_t number) {
    list.push_back({.bits = static_cast<uint64_t>(number)});
  }
  static void add(std::vector<KernelArgument>& list, int number) { add(list, int64_t{number}); }
  static void add(std::vector<KernelArgument>& list, double number) {
    list.push_back({.bits = std::bit_cast<uint64_t>(number)});
  }

  std::vector<gpu::Memory> memory_;
};

gpu::Grid grid_of(KernelForm form) {
  return form == KernelForm::serial ? gpu::Grid{3, 1} : gpu::Grid{3, gpu::kGroupSize};
}

class CudaDriver : public testing::Test {
 protected:
  void SetUp() override {
    TANDEM_SKIP_WITHOUT_NVRTC();
    complaints_ = cuda_double::count("complaints");
  }
  void TearDown() override {
    if (IsSkipped()) return;
    EXPECT_EQ(cuda_double::count("complaints"), complaints_);
    EXPECT_EQ(cuda_double::count("contexts"), 0) << "all was given back";
    for (const char* what : {"memory", "streams", "events", "modules", "pinned"}) {
      EXPECT_EQ(cuda_double::count(what), 0) << what;
    }
  }

 private:
  long long complaints_ = 0;
};

// ---- Kernels ----

constexpr const char* kSoftmax = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), i64 rows, i64 columns) {
  const GLOBAL T* x = AT(T, 0);
  GLOBAL T* y = AT(T, 1);
  SCRATCH(T)
  ROWS(r, rows) {
    LANES_OF(T, most, -INFINITY)
    ALONG(c, l, columns) most[l] = fmax(most[l], x[r * columns + c]);
    JOIN(T, most, MAX_OF)
    LANES_OF(T, sum, 0)
    ALONG(c, l, columns) sum[l] += exp(x[r * columns + c] - most[0]);
    JOIN(T, sum, SUM_OF)
    ALONG(c, l, columns) y[r * columns + c] = exp(x[r * columns + c] - most[0]) / sum[0];
  }
}
)";

template <class T>
void check_softmax(KernelForm form, const char* type, double tolerance) {
  constexpr int kRows = 7;
  constexpr int kColumns = 300;
  std::vector<T> x(kRows * kColumns);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<T>(3 * std::sin(0.7 * static_cast<double>(i)));
  Bench bench;
  const Location in = bench.put(x);
  const Location out = bench.put(std::vector<T>(x.size()));
  bench.launch(form, {.name = "softmax", .words = {{"T", type}}, .body = kSoftmax}, grid_of(form),
               in, out, kRows, kColumns);
  const auto y = bench.get<T>(out, x.size());
  for (int r = 0; r < kRows; ++r) {
    double sum = 0;
    for (int c = 0; c < kColumns; ++c) sum += std::exp(static_cast<double>(x[r * kColumns + c]));
    for (int c = 0; c < kColumns; ++c) {
      const double expected = std::exp(static_cast<double>(x[r * kColumns + c])) / sum;
      ASSERT_NEAR(y[r * kColumns + c], expected, tolerance * expected) << r << " " << c;
    }
  }
}

TEST_F(CudaDriver, SoftmaxWithSharedMemoryGivesTheHostsValuesInBothFormsAndOrders) {
  for (const int reverse : {0, 1}) {
    const CudaDoubleSetting order("reverse", reverse, 0);
    for (const KernelForm form : kForms) {
      check_softmax<float>(form, "float", 1e-5);
      check_softmax<double>(form, "double", 1e-13);
    }
  }
}

/// Every function of mathematics that kernels call, against the host's.
struct MathFunction {
  const char* text;
  double (*host)(double);
  double tolerance;  ///< Relative, in float32.
};

const MathFunction kFunctions[] = {
    {"exp(x)", [](double x) { return std::exp(x); }, 1e-6},
    {"log(fabs(x))", [](double x) { return std::log(std::fabs(x)); }, 1e-5},
    {"log1p(fabs(x))", [](double x) { return std::log1p(std::fabs(x)); }, 1e-6},
    {"expm1(x)", [](double x) { return std::expm1(x); }, 1e-6},
    {"sin(x)", [](double x) { return std::sin(x); }, 1e-6},
    {"cos(x)", [](double x) { return std::cos(x); }, 1e-6},
    {"sin(x * 65536)", [](double x) { return std::sin(x * 65536); }, 1e-6},
    {"tan(x)", [](double x) { return std::tan(x); }, 1e-5},
    {"tanh(x)", [](double x) { return std::tanh(x); }, 1e-6},
    {"sinh(x)", [](double x) { return std::sinh(x); }, 1e-6},
    {"cosh(x)", [](double x) { return std::cosh(x); }, 1e-6},
    {"asin(x / 20)", [](double x) { return std::asin(x / 20); }, 1e-6},
    {"acos(x / 20)", [](double x) { return std::acos(x / 20); }, 1e-6},
    {"atan(x)", [](double x) { return std::atan(x); }, 1e-6},
    {"atan2(x, (T)3)", [](double x) { return std::atan2(x, 3); }, 1e-6},
    {"erf(x)", [](double x) { return std::erf(x); }, 1e-6},
    {"pow(fabs(x), (T)1.5)", [](double x) { return std::pow(std::fabs(x), 1.5); }, 1e-6},
    {"pow(x, (T)3)", [](double x) { return std::pow(x, 3); }, 1e-6},
    {"sqrt(fabs(x))", [](double x) { return std::sqrt(std::fabs(x)); }, 1e-6},
    {"rsqrt(fabs(x) + 1)", [](double x) { return 1 / std::sqrt(std::fabs(x) + 1); }, 1e-6},
    {"fmod(x, (T)0.75)", [](double x) { return std::fmod(x, 0.75); }, 1e-5},
    {"floor(x)", [](double x) { return std::floor(x); }, 0},
    {"ceil(x)", [](double x) { return std::ceil(x); }, 0},
    {"rint(x)", [](double x) { return std::rint(x); }, 0},
    {"round(x)", [](double x) { return std::round(x); }, 0},
    {"trunc(x)", [](double x) { return std::trunc(x); }, 0},
    {"copysign((T)2, x)", [](double x) { return std::copysign(2.0, x); }, 0},
    {"(T)(i32)x", [](double x) { return static_cast<double>(static_cast<int32_t>(x)); }, 0},
    {"(T)(i64)(x * 1000)", [](double x) { return std::trunc(x * 1000); }, 1e-6},
    {"(T)(u8)(i32)x", [](double x) { return double(uint8_t(int32_t(x))); }, 0},
    {"(T)(float)x", [](double x) { return x; }, 1e-6},
    {"x / (T)3", [](double x) { return x / 3; }, 1e-6},
    {"isnan(x) ? 1 : isinf(x) ? 2 : x > 1 ? 3 : 4", [](double x) { return x > 1 ? 3.0 : 4.0; }, 0},
};

template <class T>
void check_functions(const char* type, double precision) {
  constexpr size_t kCount = 257;
  std::vector<T> x(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    x[i] = static_cast<T>(std::sin(0.7 * static_cast<double>(i)) *
                              std::pow(10.0, static_cast<double>(i % 4) - 2) +
                          0.003);
  }
  std::string body =
      "KERNEL NAME(MEMORY(0), MEMORY(1), i64 n) {\n  const GLOBAL T* in = AT(T, 0);\n"
      "  GLOBAL T* out = AT(T, 1);\n  EACH(i, n) {\n    const T x = in[i];\n";
  for (size_t k = 0; k < std::size(kFunctions); ++k) {
    body += "    out[" + std::to_string(k) + " * n + i] = (T)(" + kFunctions[k].text + ");\n";
  }
  body += "  }\n}\n";
  Bench bench;
  const Location in = bench.put(x);
  const Location out = bench.put(std::vector<T>(kCount * std::size(kFunctions)));
  bench.launch(KernelForm::parallel, {.name = "functions", .words = {{"T", type}}, .body = body},
               {1, gpu::kGroupSize}, in, out, static_cast<int64_t>(kCount));
  const auto y = bench.get<T>(out, kCount * std::size(kFunctions));
  for (size_t k = 0; k < std::size(kFunctions); ++k) {
    const MathFunction& function = kFunctions[k];
    int wrong = 0;
    for (size_t i = 0; i < kCount; ++i) {
      const double expected = function.host(static_cast<double>(x[i]));
      const double found = static_cast<double>(y[k * kCount + i]);
      const bool is_float_of_double =
          precision < 1 && std::strstr(function.text, "float") != nullptr;
      const double allowed = function.tolerance * (is_float_of_double ? 1 : precision) *
                             std::max(std::fabs(expected), 1e-3);
      if (std::fabs(found - expected) <= allowed || wrong++ > 0) continue;
      ADD_FAILURE() << type << " " << function.text << " of " << x[i] << " is " << found << ", not "
                    << expected;
    }
  }
}

TEST_F(CudaDriver, FunctionsOfMathematicsGiveTheHostsValues) {
  check_functions<float>("float", 1);
  check_functions<double>("double", 1e-7);
}

TEST_F(CudaDriver, WholeNumbersAndAtomicsAreThoseOfC) {
  constexpr const char* kBody = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), i64 n) {
  const GLOBAL i64* in = AT(i64, 0);
  GLOBAL i64* out = AT(i64, 1);
  EACH(i, n) {
    const i64 x = in[i];
    const i32 s = (i32)x;
    const u32 u = (u32)x;
    GLOBAL i64* o = out + 12 * i;
    o[0] = x / 7; o[1] = x % 7; o[2] = s / 7; o[3] = s % 7; o[4] = u / 7u; o[5] = x >> 3;
    o[6] = (i64)((u64)x >> 3); o[7] = x * 1000003; o[8] = (i64)MULTIPLY_HIGH(u, 0xD2511F53u);
    o[9] = s << 5; o[10] = (i64)BITS_OF_FLOAT((float)x); o[11] = x < 0 ? -x : x;
    ATOMIC_ADD(out + 12 * n, (i32)(x & 15));
    COMPARE_AND_SET((GLOBAL u32*)(out + 12 * n) + 1, 0u, 5u);
  }
}
)";
  std::vector<int64_t> x;
  for (int64_t i = -40; i < 60; ++i) x.push_back(i * i * i * 12345);
  const auto n = static_cast<int64_t>(x.size());
  std::vector<int64_t> expected;
  int32_t sum = 0;
  for (const int64_t v : x) {
    const auto s = static_cast<int32_t>(v);
    const auto u = static_cast<uint32_t>(v);
    expected.insert(
        expected.end(),
        {v / 7, v % 7, s / 7, s % 7, u / 7, v >> 3,
         static_cast<int64_t>(static_cast<uint64_t>(v) >> 3), v * 1000003,
         static_cast<int64_t>(uint64_t{u} * 0xD2511F53U >> 32), static_cast<int32_t>(u << 5),
         std::bit_cast<uint32_t>(static_cast<float>(v)), v < 0 ? -v : v});
    sum += static_cast<int32_t>(v & 15);
  }
  expected.push_back(int64_t{5} << 32 | sum);
  for (const KernelForm form : kForms) {
    Bench bench;
    const Location in = bench.put(x);
    const Location out = bench.put(std::vector<int64_t>(expected.size()));
    bench.launch(form, {.name = "whole_numbers", .body = kBody}, grid_of(form), in, out, n);
    EXPECT_EQ(bench.get<int64_t>(out, expected.size()), expected);
  }
}

TEST_F(CudaDriver, SubnormalNumbersCountAsZeroAndProductsAreRoundedBeforeSums) {
  constexpr const char* kBody = R"(
KERNEL NAME(MEMORY(0), double c) {
  GLOBAL float* x = AT(float, 0);
  if (GID() != 0) return;
  x[0] = x[0] * 0.5f;
  x[1] = x[1] * x[1] - (float)c;
}
)";
  const float a = 1 + std::ldexp(1.0F, -12);
  volatile float product = a * a;
  Bench bench;
  const Location memory = bench.put(std::vector<float>{std::numeric_limits<float>::min(), a});
  bench.launch(KernelForm::parallel, {.name = "rounding", .body = kBody}, {1, 32}, memory, 1.0);
  const auto y = bench.get<float>(memory, 2);
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], product - 1.0F);
}

TEST_F(CudaDriver, LocalArraysSwitchesAndSmallTypesWork) {
  constexpr const char* kBody = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), i64 n) {
  const GLOBAL u8* in = AT(u8, 0);
  GLOBAL u16* out = AT(u16, 1);
  EACH(i, n) {
    u16 table[16];
    for (int k = 0; k < 16; ++k) table[(k * 5) % 16] = (u16)(k * in[i]);
    u16 v = table[in[i] % 16];
    switch (in[i] % 9) {
      case 0: v += 7; break;
      case 1: v ^= 0x5555; break;
      case 2: v = (u16)(v << 3); break;
      case 3: v = (u16)-v; break;
      case 4: v = (u16)(v % 11); break;
      case 5: v |= 0x8000; break;
      case 6: v = (u16)(v >> 2); break;
      case 7: v = (u16)~v; break;
      default: v = 1; break;
    }
    out[i] = v;
  }
}
)";
  std::vector<uint8_t> x(256);
  std::vector<uint16_t> expected;
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<uint8_t>(i);
    uint16_t table[16];
    for (int k = 0; k < 16; ++k) table[k * 5 % 16] = static_cast<uint16_t>(k * x[i]);
    uint16_t v = table[x[i] % 16];
    switch (x[i] % 9) {
      case 0:
        v = static_cast<uint16_t>(v + 7);
        break;
      case 1:
        v ^= 0x5555;
        break;
      case 2:
        v = static_cast<uint16_t>(v << 3);
        break;
      case 3:
        v = static_cast<uint16_t>(-v);
        break;
      case 4:
        v = static_cast<uint16_t>(v % 11);
        break;
      case 5:
        v |= 0x8000;
        break;
      case 6:
        v = static_cast<uint16_t>(v >> 2);
        break;
      case 7:
        v = static_cast<uint16_t>(~v);
        break;
      default:
        v = 1;
        break;
    }
    expected.push_back(v);
  }
  for (const KernelForm form : kForms) {
    Bench bench;
    const Location in = bench.put(x);
    const Location out = bench.put(std::vector<uint16_t>(x.size()));
    bench.launch(form, {.name = "small", .body = kBody}, grid_of(form), in, out, 256);
    EXPECT_EQ(bench.get<uint16_t>(out, x.size()), expected);
  }
}

TEST_F(CudaDriver, TheSameKernelsCompileForRealDevices) {
  for (const KernelForm form : kForms) {
    const std::string program =
        gpu::prelude("cuda", form) + "#define T float\n#define NAME softmax\n" + kSoftmax;
    for (const int capability : harness::kCudaCapabilities) {
      EXPECT_EQ(harness::compile_for_cuda(program, capability), "") << capability;
    }
  }
  EXPECT_NE(harness::compile_for_cuda("KERNEL", 90).find("error"), std::string::npos);
}

TEST_F(CudaDriver, WhatWasCompiledIsLoadedAgain) {
  Bench bench;
  const std::string text = "extern \"C\" __global__ void set(int* p) { *p = 7; }";
  const std::string binary = bench.driver->compile(text)->binary();
  EXPECT_NE(binary.find(".target sm_80"), std::string::npos);
  const auto module = bench.driver->load(binary);
  ASSERT_NE(module, nullptr);
  const Location memory = bench.put(std::vector<int>{0});
  const KernelArgument arguments[] = {{.memory = memory.memory}};
  bench.stream->launch(*module->kernel("set"), {}, arguments);
  EXPECT_EQ(bench.get<int>(memory, 1), std::vector<int>{7});
  EXPECT_TRUE(throws<NotFound>([&] { module->kernel("get"); }, {"cuModuleGetFunction", "get"}));
  EXPECT_EQ(bench.driver->load("nothing of the kind"), nullptr);
  EXPECT_EQ(bench.driver->load("\x7f"
                               "ELF"),
            nullptr);
  EXPECT_NE(bench.driver->compiler().find("compute_80"), std::string::npos);
}

TEST_F(CudaDriver, ATextThatDoesNotCompileIsShownWithTheCompilersLog) {
  Bench bench;
  EXPECT_TRUE(throws<InvalidArgument>([&] { bench.driver->compile("KERNEL nonsense"); },
                                      {"does not compile for compute_80", "error"}));
}

// ---- What kernels must not do ----

/// Runs a kernel that breaks a rule; the device is lost then. Returns the error of the next wait.
void expect_lost(const char* body, const gpu::Grid& grid, const char* error) {
  Bench bench;
  const Location memory = bench.put(std::vector<float>(256));
  gpu::Compiler compiler("GPU:0", bench.driver, KernelForm::parallel);
  const auto kernel = compiler.add({.name = "bad", .body = body});
  const KernelArgument arguments[] = {{.memory = memory.memory}, {.bits = 0}, {.bits = 256}};
  bench.stream->launch(compiler.get(*kernel), grid, arguments);
  EXPECT_TRUE(throws<Unavailable>(
      [&] { gpu::wait_for(*bench.stream->mark(nullptr), core::Clock::now() + 10s); }, {error}));
}

TEST_F(CudaDriver, AnAddressPastTheEndIsAnErrorThatTheNextWaitThrows) {
  expect_lost("KERNEL NAME(MEMORY(0), i64 n) { AT(float, 0)[n] = 1; }", {1, 1}, "ILLEGAL_ADDRESS");
  expect_lost("KERNEL NAME(MEMORY(0), i64 n) { *(float*)(p0 + 2) = 1; }", {1, 1}, "(716)");
}

TEST_F(CudaDriver, ABarrierThatNotAllThreadsReachIsAnError) {
  expect_lost(
      "KERNEL NAME(MEMORY(0), i64 n) { if (LID() < 3) BARRIER(); AT(float, 0)[LID()] = 1; }",
      {1, 64}, "LAUNCH_FAILED");
}

TEST_F(CudaDriver, AMissingBarrierShows) {
  constexpr const char* kBody = R"(
KERNEL NAME(MEMORY(0)) {
  LOCAL float shared[64];
  GLOBAL float* x = AT(float, 0);
  shared[LID()] = x[LID()];
  x[LID()] = shared[63 - LID()];
}
)";
  std::vector<float> x(64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  Bench bench;
  const Location memory = bench.put(x);
  bench.launch(KernelForm::parallel, {.name = "race", .body = kBody}, {1, 64}, memory);
  const auto y = bench.get<float>(memory, 64);
  EXPECT_TRUE(std::isnan(y[0])) << "the other thread has not yet written what it reads";
}

// ---- Memory, streams ----

TEST_F(CudaDriver, MemoryIsOrderedWithCommandsOfEveryStream) {
  for (const int pools : {1, 0}) {
    const CudaDoubleSetting setting("pools", pools, 1);
    const auto driver = harness::cuda_drivers().at(0);
    const auto one = driver->create_stream();
    const auto two = driver->create_stream();
    for (int i = 0; i < 50; ++i) {
      const gpu::Memory memory = driver->allocate(4096);
      one->fill({memory, 0}, static_cast<uint8_t>(i), 4096);
      two->wait(*one->mark(nullptr));
      const auto landing = driver->staging(4096);
      two->read(landing.get(), {memory, 0}, 4096);
      const auto mark = two->mark(nullptr);
      driver->release(memory);  // The read has not run yet.
      ASSERT_TRUE(gpu::wait_for(*mark, core::Clock::now() + 10s));
      ASSERT_EQ(landing[4095], static_cast<char>(i));
    }
  }
}

TEST_F(CudaDriver, MemoryThatIsNotThereIsNull) {
  const CudaDoubleSetting setting("memory", 1 << 20, 1 << 30);
  for (const int pools : {1, 0}) {
    const CudaDoubleSetting with("pools", pools, 1);
    const auto driver = harness::cuda_drivers().at(0);
    EXPECT_EQ(driver->description().memory, 1U << 20);
    const gpu::Memory most = driver->allocate(900 << 10);
    EXPECT_NE(most, nullptr);
    EXPECT_EQ(driver->allocate(200 << 10), nullptr);
    driver->release(most);  // Still to be done by the device when the next is asked for.
    const gpu::Memory next = driver->allocate(900 << 10);
    EXPECT_NE(next, nullptr);
    driver->release(next);
  }
}

TEST_F(CudaDriver, DevicesCopyToEachOtherWithAndWithoutALink) {
  for (const int peers : {1, 0}) {
    const CudaDoubleSetting setting("peers", peers, 1);
    const auto drivers = harness::cuda_drivers();
    ASSERT_EQ(drivers.size(), 2U);
    EXPECT_TRUE(drivers[0]->reaches(*drivers[1]));
    Bench one(drivers[0]);
    Bench two(drivers[1]);
    const Location from = one.put(std::vector<int>{1, 2, 3});
    const Location to = two.put(std::vector<int>{0, 0, 0});
    two.stream->wait(*one.stream->mark(nullptr));
    two.stream->copy(to, from, 12);
    EXPECT_EQ(two.get<int>(to, 3), (std::vector<int>{1, 2, 3}));
  }
}

TEST_F(CudaDriver, PinnedMemoryIsKeptForTheNext) {
  const auto driver = harness::cuda_drivers().at(0);
  const char* const first = driver->staging(5000).get();
  EXPECT_EQ(driver->staging(8000).get(), first);
  EXPECT_NE(driver->staging(9000).get(), first);
}

TEST_F(CudaDriver, CommandsTellWhenTheyRan) {
  Bench bench;
  const Location memory = bench.put(std::vector<float>(1000));
  bench.stream->fill(memory, 0, 4000);
  EXPECT_EQ(bench.stream->last_timing(), nullptr);
  bench.stream->set_timed(true);
  std::vector<std::shared_ptr<gpu::TimedCommand>> commands;
  for (int i = 0; i < 3; ++i) {
    bench.stream->fill(memory, 0, 4000);
    commands.push_back(bench.stream->last_timing());
    if (i != 1) continue;
    bench.finish();  // The clock begins with the first command.
    std::this_thread::sleep_for(150ms);
  }
  bench.finish();
  uint64_t last = 0;
  for (const auto& command : commands) {
    const gpu::Timing timing = command->timing();
    EXPECT_GE(timing.begin_ns, last);
    EXPECT_GE(timing.end_ns, timing.begin_ns);
    last = timing.end_ns;
  }
  EXPECT_GT(last, 150'000'000U);
}

// ---- What fails ----

TEST_F(CudaDriver, AFailingCallIsNamed) {
  struct Case {
    const char* function;
    std::function<void(Bench&, const Location&)> use;
  };
  const Case cases[] = {
      {"cuMemcpyHtoDAsync", [](Bench& b, const Location& m) { b.stream->write(m, &b, 8); }},
      {"cuMemcpyDtoHAsync", [](Bench& b, const Location& m) { b.stream->read(&b, m, 8); }},
      {"cuMemcpyDtoDAsync", [](Bench& b, const Location& m) { b.stream->copy(m, m, 8); }},
      {"cuMemsetD8Async", [](Bench& b, const Location& m) { b.stream->fill(m, 0, 8); }},
      {"cuEventCreate", [](Bench& b, const Location&) { b.stream->mark(nullptr); }},
      {"cuEventRecord", [](Bench& b, const Location&) { b.stream->mark(nullptr); }},
      {"cuStreamCreate", [](Bench& b, const Location&) { b.driver->create_stream(); }},
      {"cuMemHostAlloc", [](Bench& b, const Location&) { b.driver->staging(1 << 20); }},
  };
  for (const Case& failing : cases) {
    Bench bench;
    const Location memory = bench.put(std::vector<double>{1, 2});
    const std::string name = failing.function;
    const bool has_version = name.starts_with("cuMemcpy");
    cuda_double::fail((name + (has_version ? "_v2" : "")).c_str(), 1, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_TRUE(throws<ResourceExhausted>([&] { failing.use(bench, memory); },
                                          {name, "CUDA_ERROR_OUT_OF_MEMORY: out of memory (2)"}));
    EXPECT_EQ(bench.get<double>(memory, 2), (std::vector<double>{1, 2})) << "all goes on";
  }
}

TEST_F(CudaDriver, AContextThatCannotBeOpenedIsTriedAgain) {
  for (const char* function : {"cuDevicePrimaryCtxRetain", "cuStreamCreate", "cuEventCreate"}) {
    const auto driver = harness::cuda_drivers().at(0);
    cuda_double::fail(function, 1, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_TRUE(throws<ResourceExhausted>([&] { driver->create_stream(); }, {function}));
    EXPECT_NE(driver->create_stream(), nullptr);
  }
}

TEST_F(CudaDriver, ACommandThatFailsOnTheDeviceIsThrownByTheNextQuestion) {
  Bench bench;
  const Location memory = bench.put(std::vector<float>{1});
  cuda_double::fail("fill", 1, CUDA_ERROR_LAUNCH_FAILED);
  bench.stream->fill(memory, 0, 4);
  EXPECT_TRUE(throws<Unavailable>(
      [&] { gpu::wait_for(*bench.stream->mark(nullptr), core::Clock::now() + 10s); },
      {"CUDA_ERROR_LAUNCH_FAILED"}));
}

TEST_F(CudaDriver, ALibraryLivesNoLongerThanItsDriver) {
  const long long before = cuda_double::count("handles");
  {
    Bench bench;
    const Location a = bench.put(std::vector<float>{1, 2, 3, 4, 5, 6});
    const Location b = bench.put(std::vector<float>{1, 0, 2});
    const Location c = bench.put(std::vector<float>{0, 0});
    bench.driver->products()->multiply(*bench.stream, DType::float32,
                                       {.m = 2, .n = 1, .k = 3, .lda = 3, .ldb = 1, .ldc = 1}, a, b,
                                       c);
    EXPECT_EQ(bench.get<float>(c, 2), (std::vector<float>{7, 16}));
    EXPECT_EQ(cuda_double::count("handles"), before + 1);
  }
  EXPECT_EQ(cuda_double::count("handles"), before);
}

// ---- What is missing ----

TEST(CudaLibraries, AMissingDriverIsNamedWithWhatWasLookedFor) {
  const harness::TempFolder folder;
  set_library_folder(folder.path());
  const Found found = find_devices({});
  set_library_folder("");
  EXPECT_TRUE(found.usable.empty());
  ASSERT_EQ(found.unusable.size(), 1U);
  EXPECT_EQ(found.unusable[0].backend, "cuda");
  EXPECT_NE(
      found.unusable[0].reason.find("libcuda.so.1, which NVIDIA's driver brings, cannot be loaded"),
      std::string::npos)
      << found.unusable[0].reason;
}

TEST(CudaLibraries, ADriverThatIsTooOldOrShowsNothingIsUnusable) {
  const auto reason = [] {
    set_library_folder(TANDEM_BINARY_DIR "/doubles/cuda");
    const Found found = find_devices({});
    set_library_folder("");
    return found.unusable.empty() ? "" : found.unusable[0].reason;
  };
  {
    const CudaDoubleSetting old("driver", 11040, 13000);
    EXPECT_EQ(reason(), "the driver is for CUDA 11.4; CUDA 12.0 is the oldest that is supported");
  }
  const CudaDoubleSetting none("devices", 0, 2);
  EXPECT_NE(reason().find("cuInit: CUDA_ERROR_NO_DEVICE"), std::string::npos) << reason();
}

TEST(CudaLibraries, DevicesAreDescribedBeforeTheyAreOpened) {
  set_library_folder(TANDEM_BINARY_DIR "/doubles/cuda");
  const Found found = find_devices({});
  set_library_folder("");
  ASSERT_EQ(found.usable.size(), 2U);
  const config::PhysicalDevice& device = found.usable[1].description;
  EXPECT_EQ(device.hardware, "CUDA double 1");
  EXPECT_EQ(device.vendor, "NVIDIA Corporation");
  EXPECT_EQ(device.driver, "CUDA 13.0, compute capability 8.1");
  EXPECT_EQ(device.backend, "cuda");
  EXPECT_EQ(cuda_double::count("contexts"), 0);
}

TEST(CudaLibraries, CudaVisibleDevicesChoosesAmongTheDevices) {
  const CudaDoubleSetting four("devices", 4, 2);
  const auto found = [](const char* visible) {
    ::setenv("CUDA_VISIBLE_DEVICES", visible, 1);
    set_library_folder(TANDEM_BINARY_DIR "/doubles/cuda");
    const Found devices = find_devices({});
    set_library_folder("");
    ::unsetenv("CUDA_VISIBLE_DEVICES");
    std::string names;
    for (const Physical& device : devices.usable) names += device.description.hardware + "; ";
    for (const auto& unusable : devices.unusable) names += unusable.reason;
    return names;
  };
  EXPECT_EQ(found("2,0"), "CUDA double 2; CUDA double 0; ");
  EXPECT_EQ(found("1,9,0"), "CUDA double 1; ");  // Up to the first that there is not.
  EXPECT_NE(found("").find("CUDA_ERROR_NO_DEVICE"), std::string::npos) << found("");
  EXPECT_NE(found("-1").find("CUDA_VISIBLE_DEVICES is '-1'"), std::string::npos) << found("-1");
}

TEST(CudaLibraries, AMissingCompilerIsNamedWithWhatWasLookedFor) {
  constexpr const char* kNone[] = {"libnvrtc.so.1013", "libnvrtc.so.1012"};
  EXPECT_TRUE(throws<Unavailable>([&] { find_nvrtc(86, 12040, kNone); },
                                  {"NVRTC", "compute capability 8.6", "CUDA 12.4",
                                   "libnvrtc.so.1013 cannot be loaded", "libnvrtc.so.1012"}));
}

TEST(CudaLibraries, ACompilerThatIsNewerThanTheDriverOrKnowsOnlyNewerDevicesIsNotTaken) {
  TANDEM_SKIP_WITHOUT_NVRTC();
  const Nvrtc& nvrtc = find_nvrtc(80, 99000);
  const std::string soname = nvrtc.major() == 13 ? "libnvrtc.so.13" : "libnvrtc.so.12";
  const char* const libraries[] = {soname.c_str()};
  EXPECT_TRUE(throws<Unavailable>([&] { find_nvrtc(80, 11000, libraries); },
                                  {soname.c_str(), "newer than the driver"}));
  EXPECT_TRUE(throws<Unavailable>([&] { find_nvrtc(10, 99000, libraries); },
                                  {"compiles for newer devices only"}));
  EXPECT_EQ(nvrtc.target_for(80).name(), "sm_80");
  EXPECT_EQ(nvrtc.target_for(81).name(), "compute_80");
}

}  // namespace
}  // namespace tandem::devices::cuda

/// Reductions, transposes and lookups of large tensors, eager, on the whole CPU: work that memory
/// bounds.
#include "bench.h"
#include "device/logical_device.h"
#include "harness/classifier.h"

namespace tandem::bench {
namespace {

constexpr int64_t kSide = 4096;
constexpr int64_t kTableRows = 1 << 20;
constexpr int64_t kTableColumns = 64;
constexpr int64_t kLookups = 64 << 10;

/// The time of `f`, and a number that says what it computed, which peers compare.
template <class F, class Check>
void measure(const std::string& name, F f, Check check) {
  report(name + ".loss", check(f()), "loss");
  report(name, best_seconds([&] { f(); }) * 1e6, "us");
}

Tensor matrix() { return harness::features<float>(kSide, kSide); }

}  // namespace

void reduce_sum_16M() {
  devices::reset_devices();
  const Tensor x = matrix();
  measure(
      "reduce_sum_16M", [&] { return reduce_sum(x); },
      [](const Tensor& sum) { return sum.item<float>() / (kSide * kSide); });
}

void reduce_rows() {
  devices::reset_devices();
  const Tensor x = matrix();
  measure(
      "reduce_rows_4096x4096", [&] { return reduce_sum(x, {.axes = std::vector{1}}); },
      [](const Tensor& sums) { return reduce_mean(sums).item<float>() / kSide; });
}

void transpose_4096() {
  devices::reset_devices();
  const Tensor x = matrix();
  measure(
      "transpose_4096", [&] { return transpose(x); },
      [](const Tensor& y) {
        return slice(y, {1, 2}, {1, 1}).item<float>();
      });
}

void gather_rows() {
  devices::reset_devices();
  const Tensor table = harness::features<float>(kTableRows, kTableColumns);
  std::vector<int64_t> rows(kLookups);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = static_cast<int64_t>((harness::hashed(3, i) >> 33) % kTableRows);
  }
  const Tensor indices = Tensor::from(rows, {kLookups});
  measure(
      "gather_rows", [&] { return gather(table, indices); },
      [](const Tensor& y) { return reduce_mean(y).item<float>(); });
}

}  // namespace tandem::bench

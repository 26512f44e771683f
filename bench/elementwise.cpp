/// Eager calls of elementwise functions on all cores, and how far they are from what memory allows.
#include <map>
#include <vector>

#include "bench.h"
#include "device/logical_device.h"
#include "harness/classifier.h"
#include "support/triad.h"

namespace tandem::bench {
namespace {

constexpr int64_t kColumns = 1024;

/// Values in [-1, 2), as in bench/peers.
Tensor operand(uint64_t seed, int64_t rows) {
  std::vector<float> values(static_cast<size_t>(rows * kColumns));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(3 * harness::uniform(seed, i) - 1);
  }
  return Tensor::from(values, {rows, kColumns});
}

struct Work {
  std::function<Tensor()> call;
  int bytes_per_element;  ///< The bytes that are read and written for an element.
};

Work work_of(const std::string& function, int64_t rows) {
  const Tensor a = operand(1, rows);
  const Tensor b = operand(2, rows);
  const Tensor row = reshape(b.rows(0, 1), {kColumns});
  const Tensor condition = greater(a, scalar_like(0.5, a));
  const std::map<std::string, Work> all = {
      {"add", {[=] { return add(a, b); }, 12}},
      {"broadcast_add", {[=] { return add(a, row); }, 8}},
      {"where", {[=] { return where(condition, a, b); }, 13}},
      {"exp", {[=] { return exp(a); }, 8}},
      {"tanh", {[=] { return tanh(a); }, 8}},
      {"gelu", {[=] { return gelu(a); }, 8}},
  };
  return all.at(function);
}

}  // namespace

void elementwise(const std::string& function) {
  devices::reset_devices();
  for (const auto& [size, rows] : {std::pair("64K", 64), std::pair("16M", 16384)}) {
    const std::string name = "elementwise_" + function + "_" + size;
    const Work work = work_of(function, rows);
    report(name + ".loss", reduce_mean(cast(work.call(), DType::float64)).item<double>(), "loss");
    const double seconds = best_seconds(work.call);
    report(name, seconds * 1e6, "us");
    const auto count = static_cast<size_t>(rows * kColumns);
    report(name + ".bound", seconds / (triad_seconds(count) * work.bytes_per_element / 12), "x");
  }
}

}  // namespace tandem::bench

#include "runtime/prepared_kernels.h"

#include <mutex>

#include "core/compute_scope.h"
#include "op/hash.h"

namespace tandem::runtime {
namespace {

/// Below this many operations a hand-over to the other threads costs more than it saves.
constexpr double kWorthSharing = 120e3;

size_t hash_of(const op::TensorTypes& types, size_t seed) {
  for (const op::TensorType& type : types) {
    seed = op::mixed(seed, op::hash_of(type.shape) + static_cast<size_t>(type.dtype));
  }
  return seed;
}

size_t hash_of(const op::Signature& s, uint64_t device) {
  size_t seed = op::mixed(static_cast<size_t>(s.op->id), device);
  seed = hash_of(s.inputs, seed);
  seed = hash_of(s.ranges, seed);
  return s.attrs.empty() ? seed : op::mixed(seed, s.attrs.hash());
}

bool same(const op::Signature& a, const op::Signature& b) {
  return a.op == b.op && a.inputs == b.inputs && a.ranges == b.ranges && a.attrs == b.attrs;
}

double work_of(const op::Signature& s) {
  if (s.op->flops) return s.op->flops(s);
  double elements = 0;
  for (const auto* types : {&s.inputs, &s.outputs}) {
    for (const op::TensorType& type : *types)
      elements += static_cast<double>(type.shape.total_extent());
  }
  return elements;
}

}  // namespace

PreparedKernels& PreparedKernels::instance() {
  static auto* cache = new PreparedKernels;
  return *cache;
}

PreparedKernel PreparedKernels::get(const op::Signature& signature, devices::Device& device) {
  const size_t key = hash_of(signature, device.id());
  {
    std::shared_lock lock(mutex_);
    for (auto [it, end] = entries_.equal_range(key); it != end; ++it) {
      if (it->second.device == device.id() && same(it->second.signature, signature)) {
        return it->second.prepared;
      }
    }
  }
  const bool share = device.works_on_threads() && work_of(signature) > kWorthSharing;
  const core::ComputeScope computing;
  PreparedKernel prepared{nullptr, share ? device.threads() : 1};
  prepared.executable = op::Registry::instance().prepare(signature, device, prepared.parts);
  std::unique_lock lock(mutex_);
  if (entries_.size() >= kMostEntries) entries_.clear();
  entries_.emplace(key, Entry{signature, device.id(), prepared});
  return prepared;
}

}  // namespace tandem::runtime

#include "kernels/gpu/gemm/product_choice.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

namespace tandem::kernels::gpu {
namespace {

using devices::gpu::KernelCache;

std::string key_of(const devices::gpu::Description& device) {
  return fmt::format("provider of products\n{}\n{}", device.name, device.driver);
}

std::mutex known_mutex;
std::map<std::string, std::string> known;  // By key.

}  // namespace

std::string chosen_products(const devices::gpu::Description& device) {
  const std::string key = key_of(device);
  const std::lock_guard lock(known_mutex);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known[key] = kept_products(device, KernelCache::instance()).value_or("own");
}

void choose_products(const devices::gpu::Description& device, const std::string& provider) {
  const std::lock_guard lock(known_mutex);
  known[key_of(device)] = provider;
}

void keep_products(const devices::gpu::Description& device, const std::string& provider,
                   KernelCache& cache) {
  cache.add(key_of(device), provider);
}

std::optional<std::string> kept_products(const devices::gpu::Description& device,
                                         const KernelCache& cache) {
  return cache.find(key_of(device));
}

}  // namespace tandem::kernels::gpu

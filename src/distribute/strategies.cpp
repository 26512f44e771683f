/// The strategies there are: which devices, and where variables live.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "distribute/strategy_body.h"
#include "distribute/strategy_devices.h"
#include "tandem/error.h"

namespace tandem::distribute {

using devices::DevicePtr;

uint64_t next_owner() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

namespace {

std::vector<DevicePtr> default_devices() {
  const auto& all = devices::placement_order();
  std::vector<DevicePtr> chosen;
  std::ranges::copy_if(all, std::back_inserter(chosen),
                       [&](const DevicePtr& d) { return d->spec().type == all[0]->spec().type; });
  return chosen;
}

}  // namespace

std::vector<DevicePtr> devices_for(const char* strategy, const std::vector<std::string>& names) {
  if (names.empty()) return default_devices();
  std::vector<DevicePtr> chosen;
  for (const std::string& name : names) {
    chosen.push_back(devices::find_device(DeviceSpec::parse(name)));
    if (std::ranges::count(chosen, chosen.back()) > 1) {
      throw InvalidArgument(fmt::format("{}: {} is given twice", strategy, chosen.back()->name()));
    }
  }
  return chosen;
}

std::vector<DevicePtr> dealt(const std::vector<DevicePtr>& devices, int shards) {
  std::vector<DevicePtr> by_shard;
  by_shard.reserve(static_cast<size_t>(shards));
  for (int s = 0; s < shards; ++s) {
    by_shard.push_back(
        devices[static_cast<size_t>(s) * devices.size() / static_cast<size_t>(shards)]);
  }
  return by_shard;
}

namespace {

graph::Replicas mirrored(const std::vector<std::string>& names, const MirroredOptions& options) {
  graph::Replicas replicas{.devices = devices_for("MirroredStrategy", names),
                           .owner = next_owner(),
                           .reduction = options.reduction};
  if (!options.reproducible_shards) return replicas;
  const int shards = *options.reproducible_shards;
  if (shards < replicas.count()) {
    throw InvalidArgument(fmt::format(
        "MirroredStrategy: reproducible_shards is {}, at least the {} devices are accepted", shards,
        replicas.count()));
  }
  replicas.devices = dealt(replicas.devices, shards);
  replicas.single_threaded = true;
  return replicas;
}

graph::Replicas central(const std::vector<std::string>& names) {
  graph::Replicas replicas{.devices = devices_for("CentralStorageStrategy", names),
                           .owner = next_owner()};
  const bool one_gpu = replicas.count() == 1;
  replicas.central = one_gpu ? replicas.devices[0] : devices::host_device();
  return replicas;
}

}  // namespace

/// Parts of few elements are not worth the meetings.
Store::ShardingRule sharding_by(Shard shard, int replicas, int first) {
  return [=](const std::string&, const Shape& shape) -> Sharding {
    constexpr int64_t kLeastElements = 16;
    if (shape.total_extent() < kLeastElements * replicas) return {};
    const VariableCut cut{.parts = replicas, .first = first};
    if (shard == Shard::variables) return {.value = cut};
    return {.slots = cut, .gradients = shard == Shard::gradients};
  };
}

namespace {

std::shared_ptr<const Strategy::Body> mirrored_body(const std::vector<std::string>& devices,
                                                    const MirroredOptions& options) {
  auto body = std::make_shared<Strategy::Body>("MirroredStrategy", mirrored(devices, options));
  if (options.shard == Shard::nothing || body->replicas() == 1) return body;
  body->store()->set_sharding(sharding_by(options.shard, body->replicas()));
  return body;
}

template <class... Args>
std::shared_ptr<const Strategy::Body> body_of(Args&&... args) {
  return std::make_shared<const Strategy::Body>(std::forward<Args>(args)...);
}

}  // namespace

MirroredStrategy::MirroredStrategy(const std::vector<std::string>& devices,
                                   const MirroredOptions& options)
    : Strategy(mirrored_body(devices, options)) {}

OneDeviceStrategy::OneDeviceStrategy(const std::string& device)
    : Strategy(body_of("OneDeviceStrategy",
                       graph::Replicas{.devices = devices_for("OneDeviceStrategy", {device}),
                                       .owner = next_owner()})) {}

CentralStorageStrategy::CentralStorageStrategy(const std::vector<std::string>& devices)
    : Strategy(body_of("CentralStorageStrategy", central(devices))) {}

}  // namespace tandem::distribute

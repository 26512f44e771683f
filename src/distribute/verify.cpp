/// Compares what the replicas hold of variables.
#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/crc32c.h"
#include "device/transfer.h"
#include "distribute/strategy_body.h"
#include "tandem/error.h"

namespace tandem::distribute {
namespace {

/// The checksum of the bytes that one component holds of a variable.
uint32_t checksum(const StoreRange& range, const Buffer& component) {
  const size_t size = size_of(range.block->dtype());
  uint32_t crc = 0;
  devices::read_in_chunks(
      *component.device(),
      static_cast<const char*>(component.data()) + static_cast<size_t>(range.offset) * size,
      static_cast<size_t>(range.count) * size,
      [&](const char* chunk, size_t bytes) { crc = checkpoint::extend_crc32c(crc, chunk, bytes); });
  return crc;
}

/// Compares the checksums of all processes.
void verify_processes(const Variables& variables, const WorkerGroup& workers) {
  std::vector<int64_t> checksums(variables.size() * static_cast<size_t>(workers.size()));
  const auto place = [&](int rank, size_t variable) {
    return static_cast<size_t>(rank) * variables.size() + variable;
  };
  for (size_t v = 0; v < variables.size(); ++v) {
    const StoreRange& range = variables[v].body()->range;
    if (!range.is_same_for_all()) continue;
    checksums[place(workers.rank(), v)] = checksum(range, *range.block->components()[0]);
  }
  const op::Piece piece{checksums.data(), static_cast<int64_t>(checksums.size()), DType::int64};
  workers.group().run({.pieces = {&piece, 1}, .name = "verify"});
  for (int rank = 1; rank < workers.size(); ++rank) {
    for (size_t v = 0; v < variables.size(); ++v) {
      if (checksums[place(rank, v)] == checksums[place(0, v)]) continue;
      throw DataLoss(fmt::format(
          "verify: {} has other values of variable '{}' than {}; restore the last checkpoint",
          workers.group().describe(rank), variables[v].name(), workers.group().describe(0)));
    }
  }
}

}  // namespace

void Strategy::verify(const Variables& variables) const {
  if (const WorkerGroup* workers = body_->other_replicas()) verify_processes(variables, *workers);
  for (const Variable& variable : variables) {
    const StoreRange& range = variable.body()->range;
    if (!range.is_same_for_all()) continue;
    const auto& components = range.block->components();
    const uint32_t first = components.size() < 2 ? 0 : checksum(range, *components[0]);
    for (size_t c = 1; c < components.size(); ++c) {
      if (checksum(range, *components[c]) == first) continue;
      const auto& devices = body_->devices();
      const auto space = [](const devices::DevicePtr& device) { return &device->space(); };
      const auto differs = std::ranges::find(devices, space(components[c]->device()), space);
      throw DataLoss(
          fmt::format("verify: replica {} on {} has other values of variable '{}' than replica 0 "
                      "on {}; restore "
                      "the last checkpoint",
                      differs - devices.begin(), components[c]->device()->name(), variable.name(),
                      components[0]->device()->name()));
    }
  }
}

}  // namespace tandem::distribute

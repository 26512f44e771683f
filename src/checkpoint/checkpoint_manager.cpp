// CheckpointManager: saves numbered checkpoints into a folder and keeps the latest few of them.
// What stands in the folder is decided by its state file alone (checkpoint/state_file.h).
#include <fmt/format.h>

#include "checkpoint/process_files.h"
#include "checkpoint/state_file.h"
#include "tandem/checkpoint.h"
#include "tandem/error.h"

namespace tandem::train {
namespace {

std::vector<std::filesystem::path> complete_ones(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& one : checkpoint::read_state(folder)) {
    if (checkpoint::is_complete(one.path)) paths.push_back(one.path);
  }
  return paths;
}

}  // namespace

CheckpointManager::CheckpointManager(Checkpoint checkpoint, std::filesystem::path folder,
                                     const CheckpointManagerOptions& options)
    : checkpoint_(std::move(checkpoint)), folder_(std::move(folder)), options_(options) {
  if (options_.max_to_keep < 1) {
    throw InvalidArgument(fmt::format("CheckpointManager: max_to_keep is {}, at least 1 is needed",
                                      options_.max_to_keep));
  }
  const std::string& name = options_.checkpoint_name;
  if (name.empty() || name.find('/') != std::string::npos) {
    throw InvalidArgument(
        fmt::format("CheckpointManager: checkpoint_name '{}' is not the name of a file", name));
  }
  kept_ = complete_ones(folder_);
}

std::filesystem::path CheckpointManager::save() {
  if (checkpoint::is_writer()) checkpoint::sweep(folder_, options_.checkpoint_name);
  auto path = checkpoint_.save_and_keep(folder_ / options_.checkpoint_name,
                                        static_cast<size_t>(options_.max_to_keep));
  kept_ = complete_ones(folder_);
  return path;
}

std::optional<std::filesystem::path> CheckpointManager::latest_checkpoint() const {
  return kept_.empty() ? std::nullopt : std::optional(kept_.back());
}

std::optional<std::filesystem::path> CheckpointManager::restore_or_initialize(
    const RestoreOptions& options) const {
  return checkpoint_.restore(latest_checkpoint(), options).path();
}

}  // namespace tandem::train

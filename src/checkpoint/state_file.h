/// The text file "checkpoint" of a folder: which checkpoints it keeps. A CheckpointState of
/// TensorFlow's in the text form of protocol buffers.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tandem::checkpoint {

struct KeptCheckpoint {
  std::filesystem::path path;  ///< The path with its folder.
  double saved_at = 0;         ///< Seconds since 1970.
};

/// Checkpoints, oldest first; the last is the latest.
using KeptCheckpoints = std::vector<KeptCheckpoint>;

/// The checkpoints in the folder's file; none where there is no such file. Throws DataLoss when it
/// is damaged.
KeptCheckpoints read_state(const std::filesystem::path& folder);

/// Replaces the file. Paths in the folder are written relative to it.
void write_state(const std::filesystem::path& folder, const KeptCheckpoints& kept);

/// Enters a checkpoint as the latest; those that are gone are left out. If there are more than
/// `most`, the oldest are removed, then left out: one that is there but for a kill is listed, and
/// the next call removes it. A file "checkpoint" that is damaged is logged and begun anew.
void enter_checkpoint(const std::filesystem::path& path, size_t most);

/// Removes what kills left of the checkpoints `folder`/`name`-N and of the file "checkpoint": files
/// that were not completed, and data without an index. What cannot be removed is logged.
void sweep(const std::filesystem::path& folder, const std::string& name);

/// Whether its index is there.
bool is_complete(const std::filesystem::path& checkpoint);

}  // namespace tandem::checkpoint

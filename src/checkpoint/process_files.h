/// Checkpoints of processes that train together. The chief writes them and picks the one that is
/// restored; the others get its files from it, so that they need no folder in common.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "op/group.h"
#include "tandem/variable.h"

namespace tandem::checkpoint {

/// The processes that this one trains with, for as long as somebody holds the group.
void set_processes(const std::shared_ptr<op::Group>& group);

/// Null: this process is alone.
std::shared_ptr<op::Group> processes();

/// True where this process writes files: the first of those that it trains with, and one that
/// follows no other.
bool is_writer();
void set_follower(bool follows);

/// While it lives, slots of which each process keeps a part, and variables that other processes
/// keep, are whole with the one that writes. To be made by all before these variables are saved;
/// where there are none, nobody waits.
class GatheredParts {
 public:
  explicit GatheredParts(const std::vector<Variable>& variables);
  ~GatheredParts();
  GatheredParts(const GatheredParts&) = delete;
  GatheredParts& operator=(const GatheredParts&) = delete;

 private:
  bool has_parts_ = false;
};

/// The files of the checkpoint `prefix`, given out by the chief.
void send_files(op::Group& group, const std::filesystem::path& prefix);

/// A checkpoint of another process, in files of this one, which are removed with it.
class ReceivedFiles {
 public:
  /// Takes what the chief sends.
  explicit ReceivedFiles(op::Group& group);
  ~ReceivedFiles();
  ReceivedFiles(const ReceivedFiles&) = delete;
  ReceivedFiles& operator=(const ReceivedFiles&) = delete;

  std::filesystem::path prefix() const { return folder_ / "checkpoint"; }

 private:
  std::filesystem::path folder_;
};

/// Calls `act`; when it throws, on this or on another process, all throw.
void act_together(op::Group& group, const char* what, const std::function<void()>& act);

}  // namespace tandem::checkpoint

/// Checkpoints of processes that train together. The chief picks the one that is restored, and the
/// others get its files from it, so that they need no folder in common. It writes them, too, or
/// where processes keep parts of slots and have the folder in common, all do.
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

/// True where a process keeps parts alone of some of these: then all save, at the same time.
bool are_in_parts(const std::vector<Variable>& variables);

/// The whole of a variable of which each replica keeps a part. To be called by all.
std::vector<char> gathered_value(op::Group& group, const Variable& variable);

/// True where all processes see the chief's files in `folder`, which is made. To be called by all.
bool share_folder(op::Group& group, const std::filesystem::path& folder);

/// While it lives, slots of which each process keeps a part, and variables that other processes
/// keep, are whole with the one that writes them, which is `writers[i]` for the i-th. To be made by
/// all before these variables are saved;
/// where there are none, nobody waits.
class GatheredParts {
 public:
  GatheredParts(const std::vector<Variable>& variables, const std::vector<int>& writers);
  /// The first process writes all of them.
  explicit GatheredParts(const std::vector<Variable>& variables)
      : GatheredParts(variables, std::vector<int>(variables.size(), 0)) {}
  ~GatheredParts();
  GatheredParts(const GatheredParts&) = delete;
  GatheredParts& operator=(const GatheredParts&) = delete;

  bool has_parts() const { return has_parts_; }

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

// The public handles Checkpoint and CheckpointStatus: which objects are saved under which names,
// and which of several checkpoints is restored when the newest is damaged.
#include "tandem/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "checkpoint/process_files.h"
#include "checkpoint/restoration.h"
#include "checkpoint/restore_report.h"
#include "checkpoint/saving.h"
#include "checkpoint/state_file.h"
#include "tandem/error.h"
#include "tandem/log.h"
#include "tensor/shared_stores.h"

namespace tandem::train {
namespace {

using checkpoint::kSaveCounter;

/// A root with these children, in the order of their names as in TensorFlow: keys follow it where a
/// value has several paths.
Trackable root_of(NamedTrackables objects) {
  std::ranges::stable_sort(objects, {}, &NamedTrackables::value_type::first);
  Trackable root;
  for (const auto& [name, object] : objects) {
    if (name == kSaveCounter) {
      throw InvalidArgument("checkpoint: 'save_counter' is the name of its own counter");
    }
    root.track(name, object);
  }
  return root;
}

HostState<int64_t> new_counter() {
  auto count = std::make_shared<int64_t>(0);
  return {.save = [count] { return *count; }, .restore = [count](int64_t n) { *count = n; }};
}

/// The checkpoints to try, in this order.
std::vector<std::filesystem::path> candidates(const std::filesystem::path& path, bool fall_back) {
  std::vector<std::filesystem::path> result = {path};
  if (!fall_back) return result;
  const checkpoint::KeptCheckpoints kept = checkpoint::read_state(path.parent_path());
  const auto at = std::ranges::find(kept, path, &checkpoint::KeptCheckpoint::path);
  // One that is not in the file may be newer than all of it.
  for (auto one = at; one != kept.begin();) result.push_back((--one)->path);
  return result;
}

template <class Kind>
void pass_over(const Kind& error, const std::filesystem::path& next) {
  logging::write(logging::Level::warning, fmt::format("restore: {}: {}; falling back to {}",
                                                      Kind::kName, error.what(), next.string()));
}

}  // namespace

Checkpoint::Checkpoint(const NamedTrackables& objects) : Checkpoint(root_of(objects)) {}

Checkpoint::Checkpoint(const Trackable& root) : root_(root), counter_(new_counter()) {
  auto& children = root_.trackable_body()->children;
  const auto former = std::ranges::find(children, kSaveCounter, &TrackedChild::name);
  if (former == children.end()) {
    root_.track(kSaveCounter, counter_, {.optional = true});
    children.back().of_root_only = true;
    return;
  }
  const auto* counter = std::get_if<HostState<int64_t>>(&former->body->value);
  if (counter == nullptr) {
    throw InvalidArgument("checkpoint: 'save_counter' is the name of its own counter");
  }
  counter_ = *counter;
}

int64_t Checkpoint::save_counter() const { return counter_.save(); }

void Checkpoint::write(const std::filesystem::path& path) const {
  try {
    checkpoint::save_objects(root_, path);
  } catch (const Error& error) {
    error.rethrow_within("save");
  }
}

std::filesystem::path Checkpoint::save(const std::filesystem::path& prefix) const {
  return save_and_keep(prefix, std::numeric_limits<size_t>::max());
}

std::filesystem::path Checkpoint::save_and_keep(const std::filesystem::path& prefix,
                                                size_t most) const {
  const int64_t former = counter_.save();
  counter_.restore(former + 1);
  try {
    std::filesystem::path path = fmt::format("{}-{}", prefix.string(), former + 1);
    if (checkpoint::save_objects(root_, path)) checkpoint::enter_checkpoint(path, most);
    return path;
  } catch (const Error& error) {
    counter_.restore(former);
    error.rethrow_within("save");
    throw;
  }
}

/// Processes that train together restore what the chief restores: its files go to all, and when one
/// cannot take them nobody goes on.
CheckpointStatus Checkpoint::restore(const std::optional<std::filesystem::path>& path,
                                     const RestoreOptions& options) const {
  const auto group = checkpoint::processes();
  if (!group) return restore_here(path, options);
  CheckpointStatus status;
  const bool is_chief = group->rank() == 0;
  checkpoint::act_together(*group, "restore: the chief's choice", [&] {
    if (is_chief) status = restore_here(path, options);
  });
  const std::string chosen =
      group->gather_texts("restored", status.path() ? status.path()->string() : "")[0];
  status.root_ = root_;
  if (chosen.empty()) return status;
  if (is_chief) checkpoint::send_files(*group, chosen);
  checkpoint::act_together(*group, "restore", [&] {
    if (is_chief) return;
    const checkpoint::ReceivedFiles files(*group);
    status = restore_here(files.prefix(), {});
  });
  status.path_ = chosen;
  release_parts_of_others();
  return status;
}

CheckpointStatus Checkpoint::restore_here(const std::optional<std::filesystem::path>& path,
                                          const RestoreOptions& options) const {
  CheckpointStatus status;
  status.root_ = root_;
  if (!path) return status;
  try {
    const auto paths = candidates(*path, options.fall_back);
    for (size_t i = 0;; ++i) {
      try {
        const auto restoration = std::make_shared<checkpoint::Restoration>(paths[i]);
        restoration->restore(root_);
        checkpoint::warn_of_mismatches(*restoration, root_);
        status.restoration_ = restoration;
        return status;
      } catch (const DataLoss& error) {
        if (i + 1 == paths.size()) throw;
        pass_over(error, paths[i + 1]);
      } catch (const NotFound& error) {
        if (i + 1 == paths.size()) throw;
        pass_over(error, paths[i + 1]);
      }
    }
  } catch (const Error& error) {
    error.rethrow_within("restore");
    throw;
  }
}

std::optional<std::filesystem::path> CheckpointStatus::path() const {
  if (path_) return path_;
  return restoration_ ? std::optional(restoration_->prefix()) : std::nullopt;
}

RestoreReport CheckpointStatus::report() const {
  return checkpoint::report_of(restoration_.get(), root_);
}

const CheckpointStatus& CheckpointStatus::assert_existing_objects_matched() const {
  if (!restoration_) throw FailedPrecondition("restore: no checkpoint was given");
  const std::vector<std::string> missed = report().unmatched_in_objects;
  if (missed.empty()) return *this;
  throw FailedPrecondition(fmt::format("restore: {} has no values for {}",
                                       restoration_->prefix().string(),
                                       checkpoint::listed(missed)));
}

const CheckpointStatus& CheckpointStatus::assert_consumed() const {
  assert_existing_objects_matched();
  const std::vector<std::string> left = report().unmatched_in_checkpoint;
  if (left.empty()) return *this;
  throw FailedPrecondition(
      fmt::format("restore: {} has values that no object has taken: {}; objects that make their "
                  "variables late take theirs then",
                  restoration_->prefix().string(), checkpoint::listed(left)));
}

const CheckpointStatus& CheckpointStatus::expect_partial() const {
  if (restoration_) restoration_->warn_at_end(false);
  return *this;
}

std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& folder) {
  const auto kept = checkpoint::read_state(folder);
  if (kept.empty() || !checkpoint::is_complete(kept.back().path)) return std::nullopt;
  return kept.back().path;
}

}  // namespace tandem::train

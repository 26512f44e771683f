/// Checkpoints: all that objects hold, in files, in TensorFlow's own format.
/// tf.train.load_checkpoint and tf.train.Checkpoint read what is written here, and the other way
/// round.
///
/// A checkpoint "dir/ckpt-1" is two files, dir/ckpt-1.data-00000-of-00001 and dir/ckpt-1.index, and
/// beside them a text file "checkpoint" that names the latest and those kept before it. Files
/// appear whole, the index last; when `save` returns they are on the disk. Every value has a
/// checksum, which is verified when it is read.
///
/// Keras's layers, models and optimizers have the names that Keras 3 gives them; checkpoints of
/// models with the names of Keras 2 ("layer-0") are restored too.
///
/// A file that is truncated, changed or half-written is DataLoss, naming the file and the key; one
/// that cannot be written is Unavailable. Objects must not change while they are saved or restored;
/// writers of one folder at once are the caller's to order.
///
/// The chief alone writes where several processes train under a MultiWorkerMirroredStrategy. Others
/// may save too, and must where an optimizer of a large model is saved, of whose slots each keeps a
/// part; then each writes a data file of some of the values, if all of them see the chief's folder.
/// All must restore at the same time: they get the checkpoint that the chief's path names, from the
/// chief, and need no folder in common.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/trackable.h"

namespace tandem::checkpoint {
class BundleReader;
class Restoration;
}  // namespace tandem::checkpoint

namespace tandem::train {

/// Which values have been restored, by the paths of names from the root to them:
/// "model/_functional/_operations/1/_kernel". A checkpoint's own save_counter is left out.
struct RestoreReport {
  std::vector<std::string> matched;                  ///< Objects that have been given their values.
  std::vector<std::string> unmatched_in_checkpoint;  ///< Values that no object has taken.
  std::vector<std::string> unmatched_in_objects;     ///< Objects without a value, unless optional.
};

/// What a restore found and did not find, also of what came after it. Values that had no object yet
/// wait for it for as long as the object that will track it lives.
class TANDEM_API CheckpointStatus {
 public:
  RestoreReport report() const;

  /// The checkpoint that was restored; none where there was nothing to restore.
  std::optional<std::filesystem::path> path() const;

  /// Throws FailedPrecondition unless every value of the checkpoint has found its object and every
  /// object its value, naming those that have not.
  const CheckpointStatus& assert_consumed() const;

  /// The same for the objects alone: the checkpoint may hold more.
  const CheckpointStatus& assert_existing_objects_matched() const;

  /// Values that no object ever takes are no reason for a warning.
  const CheckpointStatus& expect_partial() const;

 private:
  friend class Checkpoint;
  std::shared_ptr<checkpoint::Restoration> restoration_;
  std::optional<std::filesystem::path> path_;  // What the chief has restored.
  Trackable root_;
};

struct RestoreOptions {
  /// Where the checkpoint is damaged or gone, the one saved before it in the same folder is
  /// restored, and so on; each that is passed over is logged as a warning.
  bool fall_back = false;
};

/// The handle is cheap and copies are the same checkpoint.
class TANDEM_API Checkpoint {
 public:
  /// Saves and restores these objects: `Checkpoint ckpt({{"model", model}, {"optimizer", adam}})`.
  /// Throws InvalidArgument when two have one name, or one is called "save_counter".
  explicit Checkpoint(const NamedTrackables& objects);

  /// Saves and restores what `root` tracks, under the same names, and "save_counter" with it, which
  /// checkpoints of one root share.
  explicit Checkpoint(const Trackable& root);

  /// Writes `prefix`-N, where N counts the saves of this checkpoint from 1, and enters it into the
  /// folder's file "checkpoint". Makes the folder if needed. Returns the path.
  std::filesystem::path save(const std::filesystem::path& prefix) const;

  /// Writes `path` itself, counts nothing and enters nothing. A checkpoint of that name is
  /// replaced; if the process is killed in the last moment of that, there is neither.
  void write(const std::filesystem::path& path) const;

  /// Gives all objects their values, and those that are tracked later theirs then. Nothing happens
  /// without a path, as when latest_checkpoint finds none. Throws NotFound when there is no such
  /// checkpoint, InvalidArgument when a variable has another shape or dtype there; when it throws,
  /// nothing has changed, unless it was a HostState's own function that threw. A value is given
  /// once to each object, which may change afterwards. Logs a warning when nothing matched: at once
  /// when no value of all objects, or of one that the checkpoint has by name, is in it; and where
  /// there were no values yet, when the last object goes that could have got one.
  CheckpointStatus restore(const std::optional<std::filesystem::path>& path,
                           const RestoreOptions& options = {}) const;

  /// How often it was saved; restored too.
  int64_t save_counter() const;

 private:
  friend class CheckpointManager;
  std::filesystem::path save_and_keep(const std::filesystem::path& prefix, size_t most) const;
  CheckpointStatus restore_here(const std::optional<std::filesystem::path>& path,
                                const RestoreOptions& options) const;

  Trackable root_;
  HostState<int64_t> counter_;
};

/// The latest checkpoint that the file "checkpoint" in this folder names, if its index is there
/// too. Throws DataLoss when the file is damaged.
TANDEM_API std::optional<std::filesystem::path> latest_checkpoint(
    const std::filesystem::path& folder);

struct CheckpointManagerOptions {
  int max_to_keep = 5;  ///< At least 1; older ones are removed.
  std::string checkpoint_name = "ckpt";
};

/// Saves into one folder and keeps the last few. Takes over what an earlier process left there;
/// what it had not completed or not wholly removed when it was killed is removed by the next save.
class TANDEM_API CheckpointManager {
 public:
  /// Throws InvalidArgument when max_to_keep is below 1, or the name empty or a path.
  CheckpointManager(Checkpoint checkpoint, std::filesystem::path folder,
                    const CheckpointManagerOptions& options = {});

  /// Checkpoint::save, then removes those that are too many.
  std::filesystem::path save();

  /// The checkpoints that are kept, oldest first.
  const std::vector<std::filesystem::path>& checkpoints() const { return kept_; }
  std::optional<std::filesystem::path> latest_checkpoint() const;

  /// Restores the latest; returns it, or none where there is none yet.
  std::optional<std::filesystem::path> restore_or_initialize(const RestoreOptions& options = {
                                                                 .fall_back = true}) const;

 private:
  Checkpoint checkpoint_;
  std::filesystem::path folder_;
  CheckpointManagerOptions options_;
  std::vector<std::filesystem::path> kept_;
};

/// A checkpoint's tensors by key, for checkpoints of any program. Any thread may use it.
class TANDEM_API CheckpointReader {
 public:
  /// The keys, in order: "model/kernel/.ATTRIBUTES/VARIABLE_VALUE".
  std::vector<std::string> keys() const;

  /// The type of a key's value: "float32", "string", ... Throws NotFound as the others do.
  std::string dtype_name(const std::string& key) const;
  Shape shape(const std::string& key) const;

  /// The value of a key, on the host. Throws Unimplemented for types that tensors do not have.
  Tensor tensor(const std::string& key) const;

  /// A scalar string. Throws InvalidArgument when the key holds something else.
  std::string bytes(const std::string& key) const;

 private:
  friend TANDEM_API CheckpointReader load_checkpoint(const std::filesystem::path&);
  std::shared_ptr<const checkpoint::BundleReader> reader_;
};

/// A folder stands for its latest checkpoint. Throws NotFound when there is none.
TANDEM_API CheckpointReader load_checkpoint(const std::filesystem::path& path);

}  // namespace tandem::train

/// The batches of one epoch after the other, as Keras hands them out.
///
///   5 batches, steps of an epoch       epoch 0      epoch 1      epoch 2        epoch 3
///   none                               0 1 2 3 4    0 1 2 3 4    0 1 2 3 4      0 1 2 3 4
///   2                                  0 1          2 3          4, a warning   0 1
///   2, of a data set that repeats      0 1          2 3          4 0            1 2
///   5, of a generator                  0 1 2 3 4    a warning    0 1 2 3 4      a warning
///
/// A generator's end is only known once it is asked for one more batch.
#pragma once

#include <chrono>
#include <optional>

#include "tandem/data.h"
#include "tandem/distribute/distributed_dataset.h"

namespace tandem::keras {

class EpochBatches {
 public:
  /// Words for messages: who takes the batches, and the option that says how many.
  struct Words {
    const char* who;
    const char* option;
  };

  /// Makes the rows of each batch that replicas of this process have. Throws InvalidArgument for
  /// steps below 1 and for a data set that says it is empty.
  EpochBatches(const Words& words, const data::Dataset& batches, std::optional<int64_t> steps,
               const distribute::Strategy& strategy);

  /// The same for batches that are dealt already.
  EpochBatches(const Words& words, const distribute::DistributedDataset& batches,
               std::optional<int64_t> steps);

  /// The steps of an epoch, where that is known.
  std::optional<int64_t> steps() const;

  /// Begins an epoch. A way through the data set that begins with it gets the number `epoch`.
  void begin(int64_t epoch);

  /// The next epoch begins the data anew.
  void rewind() {
    iterator_.reset();
    dealt_iterator_.reset();
  }

  /// The next batch, dealt to the replicas; none at the end of the epoch.
  std::optional<distribute::PerReplicas> next();

  /// The batch at a place of an epoch, where epochs are counted from `first_epoch`. Quick where
  /// places come in order.
  std::optional<distribute::PerReplicas> find(int64_t first_epoch, int64_t epoch, int64_t batch);

  /// The rows of the last batch, those of other processes included.
  int64_t rows() const { return rows_; }

  /// See DistributedDataset::Iterator: processes with data of their own need not meet in next().
  int64_t next_rows() { return dealt_iterator_ ? dealt_iterator_->next_rows() : 0; }
  void hear_rows(const std::vector<int64_t>& of_all) {
    if (dealt_iterator_) dealt_iterator_->hear_rows(of_all);
  }

 private:
  using Clock = std::chrono::steady_clock;

  void check() const;
  bool is_begun() const { return iterator_ || dealt_iterator_; }
  int64_t cardinality() const;
  bool at_end() const;
  std::optional<distribute::PerReplicas> next_of_data();
  void warn_of_end();
  void warn_of_endlessness();

  const Words words_;
  const distribute::Strategy strategy_;
  // One of the two, and the way through it.
  const std::optional<data::Dataset> batches_;
  const std::optional<distribute::DistributedDataset> dealt_;
  const std::optional<int64_t> steps_;
  std::optional<data::Iterator> iterator_;
  std::optional<distribute::DistributedDataset::Iterator> dealt_iterator_;
  int64_t done_ = 0;              // The steps of the epoch that are done.
  std::optional<int64_t> epoch_;  // The epoch that was begun last.
  int64_t rows_ = 0;
  bool has_ended_ = false;  // The data have, in some epoch.
  bool has_warned_ = false;
  std::optional<Clock::time_point> start_;  // When the first epoch began.
};

/// How long an epoch of data that may never end takes before a warning says so: 60 s. For tests.
void set_endless_patience(std::chrono::nanoseconds patience);

}  // namespace tandem::keras

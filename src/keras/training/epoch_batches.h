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
#include "tandem/per_replica.h"

namespace tandem::keras {

class EpochBatches {
 public:
  /// Words for messages: who takes the batches, and the option that says how many.
  struct Words {
    const char* who;
    const char* option;
  };

  /// Of each batch the rows of the replicas in `span` are made. Throws InvalidArgument for steps
  /// below 1 and for a data set that says it is empty.
  EpochBatches(const Words& words, const data::Dataset& batches, std::optional<int64_t> steps,
               const distribute::ReplicaSpan& span);

  /// The steps of an epoch, where that is known.
  std::optional<int64_t> steps() const;

  /// Begins an epoch. A way through the data set that begins with it gets the number `epoch`.
  void begin(int64_t epoch);

  /// The next epoch begins the data anew.
  void rewind() { iterator_.reset(); }

  /// The next batch; none at the end of the epoch.
  std::optional<Tensors> next();

  /// The rows of the last batch, those of other processes included.
  int64_t rows() const { return rows_; }

 private:
  using Clock = std::chrono::steady_clock;

  bool at_end() const;
  void warn_of_end();
  void warn_of_endlessness();

  const Words words_;
  const data::Dataset batches_;
  const std::optional<int64_t> steps_;
  std::optional<data::Iterator> iterator_;
  int64_t done_ = 0;  // The steps of the epoch that are done.
  int64_t rows_ = 0;
  bool has_ended_ = false;  // The data have, in some epoch.
  bool has_warned_ = false;
  std::optional<Clock::time_point> start_;  // When the first epoch began.
};

/// How long an epoch of data that may never end takes before a warning says so: 60 s. For tests.
void set_endless_patience(std::chrono::nanoseconds patience);

}  // namespace tandem::keras

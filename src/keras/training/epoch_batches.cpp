#include "keras/training/epoch_batches.h"

#include <fmt/format.h>

#include <atomic>

#include "distribute/strategy_body.h"
#include "keras/training/trainer.h"
#include "tandem/error.h"
#include "tandem/log.h"

namespace tandem::keras {
namespace {

using namespace std::chrono_literals;

std::atomic<std::chrono::nanoseconds> endless_patience{60s};

data::Dataset share_of(const data::Dataset& batches, const distribute::ReplicaSpan& span) {
  if (span.own_shards() == span.shards()) return batches;
  return batches.share_of_replicas(span.shard_of(0), span.own_shards(), span.shards());
}

}  // namespace

void set_endless_patience(std::chrono::nanoseconds patience) { endless_patience = patience; }

EpochBatches::EpochBatches(const Words& words, const data::Dataset& batches,
                           std::optional<int64_t> steps, const distribute::Strategy& strategy)
    : words_(words),
      strategy_(strategy),
      batches_(share_of(batches, strategy.body().span()).within_deadline()),
      steps_(steps) {
  check();
}

EpochBatches::EpochBatches(const Words& words, const distribute::DistributedDataset& batches,
                           std::optional<int64_t> steps)
    : words_(words),
      strategy_(batches.strategy()),
      dealt_(batches.within_deadline()),
      steps_(steps) {
  check();
}

void EpochBatches::check() const {
  if (steps_ && *steps_ < 1) {
    throw InvalidArgument(
        fmt::format("{}: {} is {}, 1 or more is accepted", words_.who, words_.option, *steps_));
  }
  if (cardinality() == 0) {
    throw InvalidArgument(fmt::format("{}: the data set is empty", words_.who));
  }
}

int64_t EpochBatches::cardinality() const {
  return batches_ ? batches_->cardinality() : dealt_->cardinality();
}

std::optional<int64_t> EpochBatches::steps() const {
  if (steps_ || cardinality() < 0) return steps_;
  return cardinality();
}

bool EpochBatches::at_end() const {
  return (iterator_ ? iterator_->position() : dealt_iterator_->position()) == cardinality();
}

void EpochBatches::begin(int64_t epoch) {
  if (!is_begun() || !steps_ || at_end()) {
    if (batches_) iterator_ = batches_->iterator(epoch);
    if (dealt_) dealt_iterator_ = dealt_->iterator(epoch);
  }
  if (!start_) start_ = Clock::now();
  done_ = 0;
  epoch_ = epoch;
}

std::optional<distribute::PerReplicas> EpochBatches::find(int64_t first_epoch, int64_t epoch,
                                                          int64_t batch) {
  const bool is_behind = !epoch_ || *epoch_ > epoch || (*epoch_ == epoch && done_ > batch);
  if (is_behind) {
    rewind();
    begin(first_epoch);
  }
  // Where an epoch goes on where the last one ended, all are gone through.
  while (*epoch_ < epoch) {
    if (steps_) {
      while (next()) {
      }
    }
    begin(steps_ ? *epoch_ + 1 : epoch);
  }
  while (done_ < batch) {
    if (!next()) return std::nullopt;
  }
  return next();
}

std::optional<distribute::PerReplicas> EpochBatches::next() {
  if (!is_begun() || (steps_ && done_ == *steps_)) return std::nullopt;
  std::optional<distribute::PerReplicas> batch = next_of_data();
  if (batch) {
    ++done_;
    warn_of_endlessness();
  } else {
    rewind();
    has_ended_ = true;
    warn_of_end();
  }
  return batch;
}

std::optional<distribute::PerReplicas> EpochBatches::next_of_data() {
  if (dealt_iterator_) {
    std::optional<distribute::PerReplicas> step = dealt_iterator_->next();
    rows_ = dealt_iterator_->rows();
    return step;
  }
  const std::optional<Tensors> batch = iterator_->next();
  if (!batch) return std::nullopt;
  rows_ = iterator_->batch_rows();
  if (rows_ < 0)
    rows_ = batch->empty() || (*batch)[0].rank() == 0 ? 0 : (*batch)[0].shape().extent(0);
  return split_batch(strategy_, *batch, rows_);
}

/// Warns once: each epoch may end so.
void EpochBatches::warn_of_end() {
  if (!steps_ || has_warned_) return;
  has_warned_ = true;
  logging::write(logging::Level::warning,
                 fmt::format("{}: the data ended after {} of {} steps; make {} smaller, or the "
                             "data set longer, with repeat() for instance",
                             words_.who, done_, *steps_, words_.option));
}

void EpochBatches::warn_of_endlessness() {
  if (steps_ || has_ended_ || has_warned_ || cardinality() >= 0) return;
  const auto taken = Clock::now() - *start_;
  if (taken < endless_patience.load(std::memory_order_relaxed)) return;
  has_warned_ = true;
  logging::write(
      logging::Level::warning,
      fmt::format("{}: the first epoch has taken {:.0f} s and nothing says that its data end: {}. "
                  "If they do not, give {}",
                  words_.who, std::chrono::duration<double>(taken).count(),
                  batches_ ? batches_->str() : dealt_->str(), words_.option));
}

}  // namespace tandem::keras

#include "keras/training/epoch_batches.h"

#include <fmt/format.h>

#include <atomic>

#include "tandem/error.h"
#include "tandem/log.h"

namespace tandem::keras {
namespace {

using namespace std::chrono_literals;

std::atomic<std::chrono::nanoseconds> endless_patience{60s};

data::Dataset share_of(const data::Dataset& batches, const distribute::ReplicaSpan& span) {
  if (span.count == span.all) return batches;
  return batches.share_of_replicas(span.first, span.count, span.all);
}

}  // namespace

void set_endless_patience(std::chrono::nanoseconds patience) { endless_patience = patience; }

EpochBatches::EpochBatches(const Words& words, const data::Dataset& batches,
                           std::optional<int64_t> steps, const distribute::ReplicaSpan& span)
    : words_(words), batches_(share_of(batches, span).within_deadline()), steps_(steps) {
  if (steps_ && *steps_ < 1) {
    throw InvalidArgument(
        fmt::format("{}: {} is {}, 1 or more is accepted", words_.who, words_.option, *steps_));
  }
  if (batches_.cardinality() == 0) {
    throw InvalidArgument(fmt::format("{}: the data set is empty", words_.who));
  }
}

std::optional<int64_t> EpochBatches::steps() const {
  if (steps_ || batches_.cardinality() < 0) return steps_;
  return batches_.cardinality();
}

bool EpochBatches::at_end() const { return iterator_->position() == batches_.cardinality(); }

void EpochBatches::begin(int64_t epoch) {
  if (!iterator_ || !steps_ || at_end()) iterator_ = batches_.iterator(epoch);
  if (!start_) start_ = Clock::now();
  done_ = 0;
}

std::optional<Tensors> EpochBatches::next() {
  if (!iterator_ || (steps_ && done_ == *steps_)) return std::nullopt;
  std::optional<Tensors> batch = iterator_->next();
  if (batch) {
    ++done_;
    rows_ = iterator_->batch_rows();
    if (rows_ < 0)
      rows_ = batch->empty() || (*batch)[0].rank() == 0 ? 0 : (*batch)[0].shape().extent(0);
    warn_of_endlessness();
  } else {
    iterator_.reset();
    has_ended_ = true;
    warn_of_end();
  }
  return batch;
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
  if (steps_ || has_ended_ || has_warned_ || batches_.cardinality() >= 0) return;
  const auto taken = Clock::now() - *start_;
  if (taken < endless_patience.load(std::memory_order_relaxed)) return;
  has_warned_ = true;
  logging::write(
      logging::Level::warning,
      fmt::format("{}: the first epoch has taken {:.0f} s and nothing says that its data end: {}. "
                  "If they do not, give {}",
                  words_.who, std::chrono::duration<double>(taken).count(), batches_.str(),
                  words_.option));
}

}  // namespace tandem::keras

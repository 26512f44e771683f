/// One pass over data without training.
#pragma once

#include "keras/training/epoch_batches.h"
#include "keras/training/progress.h"
#include "keras/training/trainer.h"

namespace tandem::keras {

/// The loss and the metrics over an epoch of the batches, from the beginning of the data. Throws
/// InvalidArgument where there is none.
Logs evaluate(Trainer& trainer, EpochBatches& batches, int64_t epoch, Progress* progress = nullptr);

/// Throws InvalidArgument for batches that are dealt to another strategy's replicas.
void check_dealt(const char* who, const Trainer& trainer,
                 const distribute::DistributedDataset& batches);

}  // namespace tandem::keras

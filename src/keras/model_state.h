/// What a Model keeps besides its layers.
#pragma once

#include <mutex>

#include "keras/training/trainer.h"
#include "tandem/distribute.h"

namespace tandem::keras {

struct Model::State {
  /// The strategy in whose scope it was made.
  distribute::Strategy strategy = distribute::get_strategy();
  /// The number of tensors that the model takes.
  size_t inputs = 1;
  std::unique_ptr<Trainer> trainer{};             ///< Set once it is compiled.
  std::mutex mutex{};                             ///< Guards what follows.
  std::shared_ptr<const FlatFunction> predict{};  ///< Set once it was needed.
};

}  // namespace tandem::keras

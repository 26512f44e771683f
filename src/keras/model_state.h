/// What a Model keeps besides its layers.
#pragma once

#include <mutex>

#include "keras/training/trainer.h"
#include "tandem/distribute.h"

namespace tandem::keras {

struct Model::State {
  distribute::Strategy strategy = distribute::get_strategy();  ///< Whose scope it was made in.
  size_t inputs = 1;                                           ///< Tensors that the model takes.
  std::unique_ptr<Trainer> trainer{};                          ///< Once it is compiled.
  std::once_flag predict_made{};
  std::unique_ptr<FlatFunction> predict{};  ///< Once it was needed.
};

}  // namespace tandem::keras

/// A training that takes turns with TensorFlow's, checkpoint by checkpoint. checkpoints.py is the
/// other side.
#pragma once

#include <string>

namespace tandem::interop {

/// Restores the latest checkpoint of the folder, if there is one, trains and saves the next.
int take_turn(const std::string& folder, int steps);

/// Trains with the other processes that the environment names, each of which keeps a part of the
/// optimizer's slots. All save one checkpoint, of as many data files.
int train_together(const std::string& folder, int steps, const std::string& way);

}  // namespace tandem::interop

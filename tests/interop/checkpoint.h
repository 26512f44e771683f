/// A training that takes turns with TensorFlow's, checkpoint by checkpoint. checkpoints.py is the
/// other side.
#pragma once

#include <string>

namespace tandem::interop {

/// Restores the latest checkpoint of the folder, if there is one, trains and saves the next.
int take_turn(const std::string& folder, int steps);

}  // namespace tandem::interop

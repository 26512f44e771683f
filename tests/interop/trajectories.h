/// Trainings whose losses are compared with Keras's.
#pragma once

#include <string>

namespace tandem::interop {

/// Row n of the file `from` is made of n/row (the bytes of {"model": .., "optimizer": ..}), n/x and
/// n/y, whose leading axis is the steps, and n/weight0, n/weight1, .. to begin with. Writes to `to`
/// the losses of the steps, n/losses, or n/error, the bytes of a message.
int train_rows(const std::string& from, const std::string& to);

}  // namespace tandem::interop

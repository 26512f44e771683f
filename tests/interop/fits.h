/// What fit and evaluate make of data, weights and dtypes, to be compared with Keras.
#pragma once

#include <string>

namespace tandem::interop {

/// Row n of the file `from` is made of n/row (the bytes of the case that fits.py describes), n/x,
/// n/y and n/sample_weight, and n/weight0 and n/weight1 to begin with. Writes to `to` the history,
/// n/history/<name>, and what evaluate returns afterwards, n/evaluate/<name>; or n/error, the bytes
/// of a message.
int fit_rows(const std::string& from, const std::string& to);

}  // namespace tandem::interop

/// A variable's bytes as the host sees them.
#pragma once

#include <span>
#include <vector>

#include "tandem/variable.h"

namespace tandem::checkpoint {

/// The value for reading: the variable's own memory where the host can address it, else a copy.
class VariableImage {
 public:
  explicit VariableImage(const Variable& variable);

  std::span<const char> bytes() const { return bytes_; }

 private:
  std::vector<char> copy_;
  std::span<const char> bytes_;
};

/// The value for writing: `bytes()` of the variable's own memory where that is all there is to
/// write, else memory aside, which `finish` brings to each of its devices.
class VariableTarget {
 public:
  explicit VariableTarget(const Variable& variable);

  char* data() { return data_; }
  void finish();

 private:
  Variable variable_;
  std::vector<char> aside_;
  char* data_ = nullptr;
};

}  // namespace tandem::checkpoint

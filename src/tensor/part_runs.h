/// Where the bytes of a variable that is cut lie in its parts.
#pragma once

#include <algorithm>
#include <vector>

#include "tensor/store.h"

namespace tandem {

/// With the axes of a variable before the cut one and those from it on each as one, the whole is
/// [outer, parts, run] and a part [outer, run]. Of elements in their order a run is a whole part,
/// of which the last may go past the end.
class PartRuns {
 public:
  explicit PartRuns(const VariableBody& variable)
      : parts_(static_cast<size_t>(variable.cut.parts)),
        shape_(variable.cut.part_of(variable.shape)),
        whole_(bytes_of(variable.shape, variable.dtype)),
        part_(bytes_of(shape_, variable.dtype)),
        run_(size_of(variable.dtype)) {
    for (int i = std::max(variable.cut.axis, 0); i < shape_.rank(); ++i) {
      run_ *= static_cast<size_t>(shape_.extent(i));
    }
  }

  const Shape& part_shape() const { return shape_; }
  std::vector<char> new_whole() const { return std::vector<char>(whole_); }
  std::vector<char> new_part() const { return std::vector<char>(part_); }

  /// Calls visit(begin in the whole, begin in the part, bytes) for each run of a part.
  template <class Visit>
  void for_each(int part, const Visit& visit) const {
    for (size_t at = 0; at < part_; at += run_) {
      const size_t from = (at / run_ * parts_ + static_cast<size_t>(part)) * run_;
      if (from < whole_) visit(from, at, std::min(run_, whole_ - from));
    }
  }

 private:
  static size_t bytes_of(const Shape& shape, DType dtype) {
    return static_cast<size_t>(shape.total_extent()) * size_of(dtype);
  }

  const size_t parts_;
  const Shape shape_;
  const size_t whole_;
  const size_t part_;
  size_t run_;
};

}  // namespace tandem

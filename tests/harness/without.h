/// Programs made without a part of what makes them good, to compare with.
#pragma once

#include "graph/passes/passes.h"
#include "graph/program.h"

namespace tandem::harness {

/// While it lives, the part is off.
class Without {
 public:
  explicit Without(void (*part)(bool)) : part_(part) { part_(false); }
  ~Without() { part_(true); }
  Without(const Without&) = delete;
  Without& operator=(const Without&) = delete;

 private:
  void (*const part_)(bool);
};

inline Without without_fusion() { return Without(graph::set_fusion); }
inline Without without_memory_planning() { return Without(graph::set_memory_planning); }

}  // namespace tandem::harness

/// What is done to the rows of a product while they are in the cache: a bias is added, a function
/// of single elements applied, a companion met; see kernels/epilogue_inputs.h.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/epilogue_inputs.h"
#include "op/op_def.h"

namespace tandem::kernels::cpu {

/// A prepared epilogue. Any number of threads may use it at once, each with its own workspace of
/// workspace_bytes() bytes: open(), then apply() any number of times.
class Epilogue {
 public:
  virtual ~Epilogue() = default;

  /// Lays the bias out in the workspace; `bias` is not read where there is none.
  virtual void open(const void* bias, void* workspace) const = 0;

  /// Changes `count` rows, one after another in memory, in place. `companions` are the elements
  /// that belong to them; not read where there are none.
  virtual void apply(void* rows, const void* companions, int64_t count,
                     const void* workspace) const = 0;

  virtual size_t workspace_bytes() const = 0;
};

/// The epilogue for the result of the signature, in rows of its last axis.
std::unique_ptr<Epilogue> prepare_epilogue(const op::Signature& signature);

/// Functions of single elements and their companions, one after another. Any number of threads may
/// use it at once.
class ElementFunctions {
 public:
  virtual ~ElementFunctions() = default;

  /// Changes `count` elements, side by side in memory, in place. `companions` are not read where
  /// there are none.
  virtual void apply(void* elements, const void* companions, int64_t count) const = 0;
};

/// What is left of an epilogue for who adds the bias himself; null if nothing is.
std::unique_ptr<ElementFunctions> prepare_epilogue_after_bias(const op::Signature& signature);

}  // namespace tandem::kernels::cpu

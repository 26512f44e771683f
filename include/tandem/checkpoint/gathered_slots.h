/// Optimizers' slots for files of one's own. Processes that train together keep each element of a
/// slot once, most of them in another process; a Checkpoint knows that, other writers of files ask:
///
///   const train::GatheredSlots whole(optimizer.variables());
///   if (strategy.is_chief()) write(optimizer.variables());
#pragma once

#include <memory>

#include "tandem/variable.h"

namespace tandem::train {

/// While it lives, slots of which processes keep parts are whole in the chief. All processes create
/// one, of the same variables; where nothing is kept in parts nobody waits for the others.
class TANDEM_API GatheredSlots {
 public:
  explicit GatheredSlots(const Variables& variables);
  ~GatheredSlots();
  GatheredSlots(const GatheredSlots&) = delete;
  GatheredSlots& operator=(const GatheredSlots&) = delete;

  /// Whether any variable is kept in parts: others than the chief then have no whole values.
  bool has_parts() const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace tandem::train

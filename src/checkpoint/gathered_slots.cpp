#include "tandem/checkpoint/gathered_slots.h"

#include "checkpoint/process_files.h"

namespace tandem::train {

struct GatheredSlots::Body {
  checkpoint::GatheredParts parts;
};

GatheredSlots::GatheredSlots(const Variables& variables)
    : body_(new Body{checkpoint::GatheredParts(variables)}) {}

GatheredSlots::~GatheredSlots() = default;

bool GatheredSlots::has_parts() const { return body_->parts.has_parts(); }

}  // namespace tandem::train

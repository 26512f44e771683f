/// The part of model_checkpoints.py that Tandem plays.
#pragma once

#include <string>

namespace tandem::interop {

/// Case n of the file `cases` is n/case, the bytes of {"model", "optimizer", "form", "restore",
/// "steps", "save"}, with the rows n/x0, .. and n/y0, .. Its results are n/restored0, .., what the
/// model computes right after the restore, n/loss, and n/trained0, .. after the steps; or n/error.
int continue_models(const std::string& cases, const std::string& results);

}  // namespace tandem::interop

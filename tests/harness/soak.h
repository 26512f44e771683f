/// Whether the tests run as `make soak` runs them: longer than everybody wants to wait.
#pragma once

#include <cstdlib>

namespace tandem::harness {

inline bool soak() { return std::getenv("TANDEM_SOAK") != nullptr; }

}  // namespace tandem::harness

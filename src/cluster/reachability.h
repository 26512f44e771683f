/// Whether a machine answers at all, when a process on it is silent.
#pragma once

#include <chrono>
#include <string>

namespace tandem::cluster {

/// Tries to connect to "10.0.0.2:41234": an answer of any kind, a refusal too, comes from the
/// machine's system and needs no process to run.
bool machine_answers(const std::string& address, std::chrono::milliseconds patience);

}  // namespace tandem::cluster

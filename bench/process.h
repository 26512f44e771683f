/// Figures that only a fresh process can give.
#pragma once

namespace tandem::bench {

/// Starts this program anew with one option and waits for its end; it prints where this one prints.
/// Throws Unavailable when it fails.
void run_self(const char* option);

}  // namespace tandem::bench

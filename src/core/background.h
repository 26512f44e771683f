/// Threads that prepare what others will need, and should not be in the way of those that compute.
#pragma once

namespace tandem::core {

/// The calling thread is one of them from now on: the system prefers other threads to it, and ops
/// that it calls stay on it instead of taking a device's team.
void enter_background();

bool in_background();

}  // namespace tandem::core

/// What the launcher asks about hosts and ports before it starts anything.
#pragma once

#include <string>

namespace tandem::launcher {

/// This machine's address as `host` sees it. Throws NotFound for a host that is not known, and
/// Unavailable where there is no way to it.
std::string own_address_for(const std::string& host);

/// A port that nobody listens at, and that the system gives to no connection.
int free_port();

}  // namespace tandem::launcher

/// What the library has to say beside its results goes through one sink, by default standard error.
/// Any thread may log; the sink is called by one thread at a time.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "tandem/export.h"

namespace tandem::logging {

enum class Level { debug, info, warning, error };

using Sink = std::function<void(Level, std::string_view message)>;

/// Replaces the sink; an empty one restores standard error. Returns the former one.
TANDEM_API Sink set_sink(Sink sink);

/// Messages below `level` are dropped. The default is `info`.
TANDEM_API void set_level(Level level);

TANDEM_API void write(Level level, std::string_view message);

}  // namespace tandem::logging

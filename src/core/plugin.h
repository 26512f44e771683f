/// Parts of the library that lie in files of their own, because they need other libraries: they are
/// opened when they are first used. A plugin shares no code with the library but abstract classes,
/// and throws nothing across the border.
#pragma once

namespace tandem::core {

/// Opens libtandem_<name>.so, which lies beside the library, and returns its function `symbol`.
/// Throws NotFound, which names `package`, the Debian package with what the plugin needs, and
/// FailedPrecondition for a plugin of another version. Plugins stay open until the process ends.
void* plugin_function(const char* name, const char* symbol, const char* package);

}  // namespace tandem::core

/// Errors that say who had them.
#pragma once

#include <exception>
#include <string>

namespace tandem::core {

/// The exception that is being handled, with `name` put before its message if there is one.
std::exception_ptr named_error(const std::string& name);

/// The exception that is being handled as a text, for other processes: "InvalidArgument: why".
std::string current_error_text();

}  // namespace tandem::core

#include "core/named_error.h"

#include <fmt/format.h>

#include "tandem/error.h"
#include "tandem/foreign_exception.h"

namespace tandem::core {

std::exception_ptr named_error(const std::string& name) {
  std::exception_ptr result = std::current_exception();
  if (name.empty()) return result;
  try {
    try {
      std::rethrow_exception(result);
    } catch (const Error& error) {
      error.rethrow_within(name);
    } catch (const ForeignException&) {
      throw;
    } catch (const std::exception& error) {
      throw Unavailable(fmt::format("{}: {}", name, error.what()));
    }
  } catch (...) {
    result = std::current_exception();
  }
  return result;
}

std::string current_error_text() {
  try {
    throw;
  } catch (const Error& error) {
    return fmt::format("{}: {}", error.kind(), error.what());
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of an unknown kind";
  }
}

}  // namespace tandem::core

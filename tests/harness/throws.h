/// Checks of errors: the kind, and that the message says what it should.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

namespace tandem::harness {

/// Succeeds when `call` throws a `Kind` whose message contains each of `parts`.
template <class Kind, class Call>
testing::AssertionResult throws(const Call& call, std::initializer_list<std::string_view> parts) {
  try {
    call();
  } catch (const Kind& error) {
    const std::string message = error.what();
    for (std::string_view part : parts) {
      if (message.find(part) == std::string::npos) {
        return testing::AssertionFailure() << "'" << part << "' is not in '" << message << "'";
      }
    }
    return testing::AssertionSuccess();
  } catch (const std::exception& other) {
    return testing::AssertionFailure() << "not " << Kind::kName << " but: " << other.what();
  }
  return testing::AssertionFailure() << "no " << Kind::kName << " was thrown";
}

/// What a `Kind` says that `call` throws; what went wrong instead, where it throws none.
template <class Kind, class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Kind& error) {
    return error.what();
  }
  return std::string("no ") + Kind::kName + " was thrown";
}

}  // namespace tandem::harness

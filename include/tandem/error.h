/// Everything that Tandem throws. The message says what was wrong and what is accepted; the type
/// says whether a retry, another argument or another machine could help.
#pragma once

#include <stdexcept>
#include <string>

#include "tandem/export.h"

namespace tandem {

class TANDEM_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  ~Error() override;

  /// "InvalidArgument", "DeadlineExceeded", ...
  virtual const char* kind() const noexcept = 0;

  /// Throws an error of the same kind with `context` put before the message.
  [[noreturn]] virtual void rethrow_within(const std::string& context) const = 0;
};

namespace internal {
template <class Kind>
class ErrorOf : public Error {
 public:
  using Error::Error;
  const char* kind() const noexcept override { return Kind::kName; }
  [[noreturn]] void rethrow_within(const std::string& context) const override {
    throw Kind(context + ": " + what());
  }
};
}  // namespace internal

/// An argument that can never be right: shapes, names, options.
class TANDEM_API InvalidArgument : public internal::ErrorOf<InvalidArgument> {
 public:
  static constexpr const char* kName = "InvalidArgument";
  using ErrorOf::ErrorOf;
};

/// A device, kernel, variable or file that does not exist.
class TANDEM_API NotFound : public internal::ErrorOf<NotFound> {
 public:
  static constexpr const char* kName = "NotFound";
  using ErrorOf::ErrorOf;
};

/// A combination that has no implementation.
class TANDEM_API Unimplemented : public internal::ErrorOf<Unimplemented> {
 public:
  static constexpr const char* kName = "Unimplemented";
  using ErrorOf::ErrorOf;
};

/// A limit of memory was reached.
class TANDEM_API ResourceExhausted : public internal::ErrorOf<ResourceExhausted> {
 public:
  static constexpr const char* kName = "ResourceExhausted";
  using ErrorOf::ErrorOf;
};

/// Somebody did not arrive in time. The message names who.
class TANDEM_API DeadlineExceeded : public internal::ErrorOf<DeadlineExceeded> {
 public:
  static constexpr const char* kName = "DeadlineExceeded";
  using ErrorOf::ErrorOf;
};

/// Somebody is gone or broken; trying again may help.
class TANDEM_API Unavailable : public internal::ErrorOf<Unavailable> {
 public:
  static constexpr const char* kName = "Unavailable";
  using ErrorOf::ErrorOf;
};

/// Stored bytes are not what was written.
class TANDEM_API DataLoss : public internal::ErrorOf<DataLoss> {
 public:
  static constexpr const char* kName = "DataLoss";
  using ErrorOf::ErrorOf;
};

/// The call is fine, the moment is not: a spent tape, a device already in use.
class TANDEM_API FailedPrecondition : public internal::ErrorOf<FailedPrecondition> {
 public:
  static constexpr const char* kName = "FailedPrecondition";
  using ErrorOf::ErrorOf;
};

}  // namespace tandem

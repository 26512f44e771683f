/// How a group of processes ended: the first error that its coordinator heard of, which all ranks
/// then throw.
#pragma once

#include <exception>
#include <string>

namespace tandem::cluster {

struct Verdict {
  std::string
      kind;  ///< The error's: "Unavailable", "DeadlineExceeded", "Aborted", "FailedPrecondition".
  std::string text;
  int rank = -1;  ///< Who had it, where that is known.

  std::exception_ptr error() const;
};

}  // namespace tandem::cluster

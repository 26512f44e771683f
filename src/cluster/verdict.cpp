#include "cluster/verdict.h"

#include "tandem/cluster.h"

namespace tandem::cluster {

std::exception_ptr Verdict::error() const {
  if (kind == DeadlineExceeded::kName) return std::make_exception_ptr(DeadlineExceeded(text));
  if (kind == Aborted::kName) return std::make_exception_ptr(Aborted(text));
  if (kind == FailedPrecondition::kName) return std::make_exception_ptr(FailedPrecondition(text));
  return std::make_exception_ptr(Unavailable(text));
}

}  // namespace tandem::cluster

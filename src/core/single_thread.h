/// Keeps a provider that would start threads of its own (oneDNN's OpenMP build) on the calling
/// thread.
#pragma once

namespace tandem::core {

/// While it lives, OpenMP regions entered by this thread have one thread; then the caller's own
/// setting is back. Team threads hold one for life, the caller of a team while the team runs.
class SingleThreadScope {
 public:
  SingleThreadScope();
  ~SingleThreadScope();
  SingleThreadScope(const SingleThreadScope&) = delete;
  SingleThreadScope& operator=(const SingleThreadScope&) = delete;

 private:
  int former_;
};

}  // namespace tandem::core

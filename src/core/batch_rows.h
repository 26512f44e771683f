/// What a thread that traces a function knows of the rows of its batch, for those who read a size
/// that depends on them.
#pragma once

#include <cstdint>

namespace tandem::core {

class BatchRows {
 public:
  virtual ~BatchRows() = default;

  /// The present number of rows, for which alone the trace then holds. Throws FailedPrecondition
  /// when there is no such number.
  virtual int64_t fix() = 0;

  /// The object of this thread; null where nothing is traced.
  static BatchRows* current();

  /// While it lives, `rows` (which may be null) is this thread's.
  class Scope {
   public:
    explicit Scope(BatchRows* rows);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    BatchRows* former_;
  };
};

}  // namespace tandem::core

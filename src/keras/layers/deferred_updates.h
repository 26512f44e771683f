/// Weights that layers set themselves when they are called, such as moving statistics. While one of
/// these lives they are not set at once but by `commit`, together, so that a step can leave all
/// weights as they were.
#pragma once

#include <functional>

#include "tandem/variable.h"

namespace tandem::keras {

class DeferredUpdates {
 public:
  /// Holds the updates of this thread, until it is destroyed. They do not nest.
  DeferredUpdates();
  ~DeferredUpdates();
  DeferredUpdates(const DeferredUpdates&) = delete;
  DeferredUpdates& operator=(const DeferredUpdates&) = delete;

  using Next = std::function<Tensor(const Tensor& now)>;

  /// Sets `weight` to next(its value), now or when this thread's updates are committed. A later
  /// call sees the value of an earlier one.
  static void set(const Variable& weight, const Next& next);

  /// Sets the weights, where `condition`, a boolean scalar, is true.
  void commit(const Tensor& condition) const;

  /// While it lives, set() does nothing on this thread.
  class Ignored {
   public:
    Ignored();
    ~Ignored();
    Ignored(const Ignored&) = delete;
    Ignored& operator=(const Ignored&) = delete;
  };

 private:
  struct Update {
    Variable weight;
    Tensor value;
  };
  std::vector<Update> updates_;
};

}  // namespace tandem::keras

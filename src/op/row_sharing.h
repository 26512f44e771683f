/// Several replicas may have the same rows of the batch, each with its part of the model's weights.
/// Each of them then counts for a part of every row, so that sums over all replicas are right.
#pragma once

namespace tandem::op {

/// The number of replicas that have one row, in the trace of this thread; 1 elsewhere.
int replicas_of_a_row();

/// While it lives, replicas_of_a_row() of this thread is `replicas`.
class RowSharingScope {
 public:
  explicit RowSharingScope(int replicas);
  ~RowSharingScope();
  RowSharingScope(const RowSharingScope&) = delete;
  RowSharingScope& operator=(const RowSharingScope&) = delete;

 private:
  const int former_;
};

}  // namespace tandem::op

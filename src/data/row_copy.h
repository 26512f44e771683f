/// Rows of arrays, brought together from wherever they lie.
#pragma once

#include <span>
#include <vector>

#include "core/team.h"
#include "tensor/body.h"

namespace tandem::data {

/// Owns what it reads and writes, as a Job must.
class RowCopy final : public core::Job {
 public:
  explicit RowCopy(std::span<const int64_t> places) : places_(places.begin(), places.end()) {}

  /// Row i of `to` will be row `places[i]` of `from`. Both are on the host, with rows of one size.
  void add(BodyPtr from, std::shared_ptr<TensorBody> to);

  /// Copies all rows of `job`. The threads of the team that the calling thread used last take part
  /// if they are still awake, each with the rows that it is likely to compute with.
  static void run(const std::shared_ptr<RowCopy>& job);

  void play(core::TeamThread& thread) override;

 private:
  struct Column {
    BodyPtr from;
    std::shared_ptr<TensorBody> to;
    size_t row_bytes;
  };

  void copy(int part, int parts) const;

  const std::vector<int64_t> places_;
  std::vector<Column> columns_;
  size_t bytes_ = 0;
};

}  // namespace tandem::data

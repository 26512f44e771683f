// The transformation that leaves of each batch the rows of some replicas. Where it can it lets the
// transformation that makes the batches make no more than that; else it cuts whole batches. Either
// way the batches, and their order, are those of the whole data set.
#include "data/source.h"
#include "execution/run_arguments.h"

namespace tandem::data {
namespace {

/// Says nothing of itself in str(): positions hold for any share.
class RowsOfReplicas final : public Transformation {
 public:
  RowsOfReplicas(SourcePtr source, const BatchShare& share)
      : Transformation(std::move(source)), share_(share) {}

  std::string str() const override { return source()->str(); }
  const Table* table() const override { return nullptr; }
  SourcePtr over(SourcePtr source) const override {
    return std::make_shared<RowsOfReplicas>(std::move(source), share_);
  }

  CursorPtr open(uint64_t epoch) const override {
    return std::make_unique<Cut>(*source(), source()->open(epoch), share_);
  }

 private:
  class Cut final : public Cursor {
   public:
    Cut(const Source& transformation, CursorPtr source, const BatchShare& share)
        : transformation_(transformation), source_(std::move(source)), share_(share) {}

    bool next(Item& item) override {
      Item whole;
      if (!source_->next(whole)) return false;
      item.element.clear();
      for (const Tensor& tensor : element_of(transformation_, std::move(whole))) {
        if (tensor.rank() == 0) {
          item.element.push_back(tensor);
          continue;
        }
        item.batch_rows = tensor.shape().extent(0);
        const auto [begin, end] = share_.of(item.batch_rows);
        item.element.push_back(tensor.rows(begin, end));
      }
      return true;
    }

    int64_t skip(int64_t count) override { return source_->skip(count); }

   private:
    const Source& transformation_;
    const CursorPtr source_;
    const BatchShare share_;
  };

  const BatchShare share_;
};

}  // namespace

std::pair<int64_t, int64_t> BatchShare::of(int64_t rows) const {
  const auto last = graph::shard_of(rows, first + count - 1, all);
  return {graph::shard_of(rows, first, all).row_offset, last.row_offset + last.rows};
}

SourcePtr share(const SourcePtr& source, const BatchShare& share) {
  if (SourcePtr shared = source->shared(share)) return shared;
  return std::make_shared<RowsOfReplicas>(source, share);
}

}  // namespace tandem::data

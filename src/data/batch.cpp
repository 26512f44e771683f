// The transformation that makes batches of consecutive elements. There are two ways. Rows of arrays
// in memory come as numbers of rows, and all rows of a batch are gathered at once. Elements of
// other transformations come as tensors, and each is copied into the batch as it comes.
#include <fmt/format.h>

#include "data/source.h"
#include "data/table.h"
#include "tandem/error.h"
#include "tensor/body.h"

namespace tandem::data {
namespace {

/// Items of a table: their rows are gathered once all places are known.
class Gathered final : public Cursor {
 public:
  Gathered(const Table& table, CursorPtr source, int64_t size, bool drop_remainder)
      : table_(table), source_(std::move(source)), size_(size), drop_remainder_(drop_remainder) {}

  bool next(Item& item) override {
    places_.clear();
    Item row;
    while (static_cast<int64_t>(places_.size()) < size_ && source_->next(row)) {
      places_.push_back(row.place);
    }
    const bool whole = static_cast<int64_t>(places_.size()) == size_;
    if (places_.empty() || (drop_remainder_ && !whole)) return false;
    item.element = table_.gather(places_, memory_);
    return true;
  }

  int64_t skip(int64_t count) override {
    const int64_t rows = source_->skip(times(count, size_));
    const bool part = rows % size_ != 0 && !drop_remainder_;
    return rows / size_ + (part ? 1 : 0);
  }

 private:
  const Table& table_;
  const CursorPtr source_;
  const int64_t size_;
  const bool drop_remainder_;
  std::vector<int64_t> places_;
  BatchMemory memory_;
};

/// Elements of any origin: each is copied as it comes.
class Stacked final : public Cursor {
 public:
  Stacked(CursorPtr source, int64_t size, bool drop_remainder)
      : source_(std::move(source)), size_(size), drop_remainder_(drop_remainder) {}

  bool next(Item& item) override {
    Item one;
    int64_t rows = 0;
    std::vector<std::shared_ptr<TensorBody>> batch;
    for (; rows < size_ && source_->next(one); ++rows, ++number_) {
      if (rows == 0) batch = begun(one.element);
      copy(one.element, rows, batch);
    }
    if (rows == 0 || (drop_remainder_ && rows < size_)) return false;
    item.element.clear();
    for (const auto& body : batch) {
      const Tensor all(body);
      item.element.push_back(rows == size_ ? all : all.rows(0, rows));
    }
    return true;
  }

  int64_t skip(int64_t count) override {
    const int64_t rows = source_->skip(times(count, size_));
    number_ += rows;
    const bool part = rows % size_ != 0 && !drop_remainder_;
    return rows / size_ + (part ? 1 : 0);
  }

 private:
  std::vector<std::shared_ptr<TensorBody>> begun(const Element& first) {
    first_ = first;
    std::vector<std::shared_ptr<TensorBody>> batch;
    for (const Tensor& tensor : first) {
      if (tensor.rank() == Shape::kMaxRank) {
        throw InvalidArgument(
            fmt::format("batch: element {} is {}; there is no axis left for the "
                        "batch, a tensor has at most {}",
                        number_, describe(first), Shape::kMaxRank));
      }
      batch.push_back(
          memory_.take(batch.size(), tensor.dtype(), tensor.shape().inserted(0, size_)));
    }
    return batch;
  }

  void copy(const Element& element, int64_t row,
            const std::vector<std::shared_ptr<TensorBody>>& batch) const {
    check_same_type(element, row);
    for (size_t i = 0; i < element.size(); ++i) {
      const size_t bytes = batch[i]->bytes() / static_cast<size_t>(size_);
      element[i].copy_to_host(static_cast<char*>(batch[i]->data()) +
                              bytes * static_cast<size_t>(row));
    }
  }

  void check_same_type(const Element& element, int64_t row) const {
    bool same = element.size() == first_.size();
    for (size_t i = 0; same && i < element.size(); ++i) {
      same = element[i].dtype() == first_[i].dtype() && element[i].shape() == first_[i].shape();
    }
    if (same) return;
    throw InvalidArgument(fmt::format(
        "batch: element {} is {}, element {} is {}; the elements of a batch have the same shapes "
        "and dtypes",
        number_ - row, describe(first_), number_, describe(element)));
  }

  const CursorPtr source_;
  const int64_t size_;
  const bool drop_remainder_;
  int64_t number_ = 0;  // The number of the element that comes next.
  Element first_;       // The first element of the batch.
  BatchMemory memory_;
};

class Batch final : public Transformation {
 public:
  Batch(SourcePtr source, int64_t size, bool drop_remainder)
      : Transformation(std::move(source)), size_(size), drop_remainder_(drop_remainder) {}

  std::string str() const override {
    return fmt::format("{} | batch({}{})", source()->str(), size_,
                       drop_remainder_ ? ", drop_remainder" : "");
  }

  int64_t cardinality() const override {
    const int64_t rows = source()->cardinality();
    if (rows < 0) return rows;
    return rows / size_ + (rows % size_ != 0 && !drop_remainder_ ? 1 : 0);
  }

  const Table* table() const override { return nullptr; }

  CursorPtr open(uint64_t epoch) const override {
    CursorPtr rows = source()->open(epoch);
    if (const Table* table = source()->table()) {
      return std::make_unique<Gathered>(*table, std::move(rows), size_, drop_remainder_);
    }
    return std::make_unique<Stacked>(std::move(rows), size_, drop_remainder_);
  }

 private:
  const int64_t size_;
  const bool drop_remainder_;
};

}  // namespace

SourcePtr batch(SourcePtr source, int64_t size, bool drop_remainder) {
  return std::make_shared<Batch>(std::move(source), size, drop_remainder);
}

}  // namespace tandem::data

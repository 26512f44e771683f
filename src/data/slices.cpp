/// Sources that know each of their elements: the rows of arrays, and ranges of numbers.
#include <fmt/format.h>

#include "data/source.h"
#include "data/table.h"

namespace tandem::data {
namespace {

class Slices final : public Source {
 public:
  explicit Slices(const Tensors& tensors) : table_(tensors) {}

  std::string str() const override {
    const std::string types = describe(table_.columns());
    return fmt::format("from_tensor_slices{}", types);
  }
  int64_t cardinality() const override { return table_.rows(); }
  const Table* table() const override { return &table_; }
  bool is_cheap() const override { return true; }

  CursorPtr open(uint64_t) const override { return std::make_unique<Rows>(table_.rows()); }

 private:
  class Rows final : public Cursor {
   public:
    explicit Rows(int64_t rows) : rows_(rows) {}

    bool next(Item& item) override {
      if (at_ == rows_) return false;
      item.place = at_++;
      return true;
    }

    int64_t skip(int64_t count) override {
      const int64_t passed = std::min(count, rows_ - at_);
      at_ += passed;
      return passed;
    }

   private:
    const int64_t rows_;
    int64_t at_ = 0;
  };

  Table table_;
};

class Range final : public Source {
 public:
  Range(int64_t start, int64_t stop, int64_t step)
      : start_(start), stop_(stop), step_(step), count_(count_of(start, stop, step)) {}

  std::string str() const override {
    return fmt::format("range({}, {}, {})", start_, stop_, step_);
  }
  int64_t cardinality() const override { return count_; }
  bool is_cheap() const override { return true; }

  CursorPtr open(uint64_t) const override { return std::make_unique<Numbers>(*this); }

 private:
  class Numbers final : public Cursor {
   public:
    explicit Numbers(const Range& range) : range_(range) {}

    bool next(Item& item) override {
      if (at_ == range_.count_) return false;
      item.element.assign(1, Tensor(range_.start_ + at_++ * range_.step_));
      return true;
    }

    int64_t skip(int64_t count) override {
      const int64_t passed = std::min(count, range_.count_ - at_);
      at_ += passed;
      return passed;
    }

   private:
    const Range& range_;
    int64_t at_ = 0;
  };

  static int64_t count_of(int64_t start, int64_t stop, int64_t step) {
    if (step > 0) return stop > start ? (stop - start - 1) / step + 1 : 0;
    return stop < start ? (start - stop - 1) / -step + 1 : 0;
  }

  const int64_t start_;
  const int64_t stop_;
  const int64_t step_;
  const int64_t count_;
};

}  // namespace

SourcePtr slices(const Tensors& tensors) { return std::make_shared<Slices>(tensors); }

const Table* all_rows(const Source& source) {
  return dynamic_cast<const Slices*>(&source) != nullptr ? source.table() : nullptr;
}

SourcePtr range(int64_t start, int64_t stop, int64_t step) {
  return std::make_shared<Range>(start, stop, step);
}

}  // namespace tandem::data

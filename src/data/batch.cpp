// The transformation that makes batches of consecutive elements. There are two ways. Rows of arrays
// in memory come as numbers of rows, and all rows of a batch are gathered at once. Elements of
// other transformations come as tensors, and each is copied into the batch as it comes.
#include <fmt/format.h>

#include <limits>

#include "data/source.h"
#include "data/table.h"
#include "tandem/error.h"
#include "tensor/body.h"

namespace tandem::data {
namespace {

struct BatchSettings {
  int64_t size;
  bool drop_remainder;
  std::optional<BatchShare> share{};  ///< Nothing: whole batches are made.
};

/// Items of a table: their rows are gathered once all places are known.
class Gathered final : public Cursor {
 public:
  Gathered(const Table& table, CursorPtr source, const BatchSettings& settings)
      : table_(table),
        source_(std::move(source)),
        size_(settings.size),
        drop_remainder_(settings.drop_remainder),
        share_(settings.share) {}

  bool next(Item& item) override {
    places_.clear();
    Item row;
    while (static_cast<int64_t>(places_.size()) < size_ && source_->next(row)) {
      places_.push_back(row.place);
    }
    const bool whole = static_cast<int64_t>(places_.size()) == size_;
    if (places_.empty() || (drop_remainder_ && !whole)) return false;
    item.element = table_.gather(wanted(item), memory_);
    return true;
  }

  int64_t skip(int64_t count) override {
    const int64_t rows = source_->skip(times(count, size_));
    const bool part = rows % size_ != 0 && !drop_remainder_;
    return rows / size_ + (part ? 1 : 0);
  }

 private:
  /// The places whose rows are gathered.
  std::span<const int64_t> wanted(Item& item) const {
    const std::span<const int64_t> all = places_;
    if (!share_) return all;
    item.batch_rows = static_cast<int64_t>(all.size());
    const auto [begin, end] = share_->of(item.batch_rows);
    return all.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  }

  const Table& table_;
  const CursorPtr source_;
  const int64_t size_;
  const bool drop_remainder_;
  const std::optional<BatchShare> share_;
  std::vector<int64_t> places_;
  BatchMemory memory_;
};

/// Elements of any origin: each is copied as it comes. Of a share's batch the other elements are
/// passed over, so that nobody makes them.
class Stacked final : public Cursor {
 public:
  /// `elements` is how many the source has, negative where that is not known.
  Stacked(CursorPtr source, const BatchSettings& settings, int64_t elements)
      : source_(std::move(source)),
        size_(settings.size),
        drop_remainder_(settings.drop_remainder),
        share_(settings.share),
        elements_(elements) {}

  bool next(Item& item) override {
    if (share_) return elements_ < 0 ? next_of_unknown(item) : next_share(item);
    Item one;
    int64_t rows = 0;
    Bodies batch;
    for (; rows < size_ && source_->next(one); ++rows, ++number_) {
      if (rows == 0) batch = begun(one.element);
      copy(one.element, rows, batch);
    }
    if (rows == 0 || (drop_remainder_ && rows < size_)) return false;
    put(batch, rows, item);
    return true;
  }

  int64_t skip(int64_t count) override {
    const int64_t rows = source_->skip(times(count, size_));
    number_ += rows;
    const bool part = rows % size_ != 0 && !drop_remainder_;
    return rows / size_ + (part ? 1 : 0);
  }

 private:
  using Bodies = std::vector<std::shared_ptr<TensorBody>>;

  /// The share of a batch whose rows are known before its elements are made.
  bool next_share(Item& item) {
    const int64_t rows = std::min(size_, elements_ - number_);
    if (rows <= 0 || (drop_remainder_ && rows < size_)) return false;
    const auto [begin, end] = share_->of(rows);
    // One element is made in any case: it tells the types of a share without rows.
    const int64_t first = std::min(begin, rows - 1);
    const int64_t last = std::max(end, first + 1);
    number_ += source_->skip(first);
    Bodies batch;
    Item one;
    for (int64_t row = first; row < last && source_->next(one); ++row, ++number_) {
      if (row == first) batch = begun(one.element);
      if (row >= begin && row < end) copy(one.element, row - begin, batch);
    }
    number_ += source_->skip(rows - last);
    put(batch, end - begin, item);
    item.batch_rows = rows;
    return true;
  }

  /// The share of a batch whose rows are only known at its end.
  bool next_of_unknown(Item& item) {
    std::vector<Element> elements;
    Item one;
    while (static_cast<int64_t>(elements.size()) < size_ && source_->next(one)) {
      elements.push_back(std::move(one.element));
    }
    const auto rows = static_cast<int64_t>(elements.size());
    if (rows == 0 || (drop_remainder_ && rows < size_)) return false;
    const auto [begin, end] = share_->of(rows);
    const Bodies batch = begun(elements[0]);
    for (int64_t row = 0; row < rows; ++row, ++number_) {
      const Element& element = elements[static_cast<size_t>(row)];
      check_same_type(element, row);
      if (row >= begin && row < end) copy(element, row - begin, batch);
    }
    put(batch, end - begin, item);
    item.batch_rows = rows;
    return true;
  }

  void put(const Bodies& batch, int64_t rows, Item& item) const {
    item.element.clear();
    for (const auto& body : batch) {
      const Tensor all(body);
      item.element.push_back(rows == size_ ? all : all.rows(0, rows));
    }
  }

  Bodies begun(const Element& first) {
    first_ = first;
    Bodies batch;
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

  void copy(const Element& element, int64_t row, const Bodies& batch) const {
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
  const std::optional<BatchShare> share_;
  const int64_t elements_;
  int64_t number_ = 0;  // The number of the element that comes next.
  Element first_;       // The first element of the batch.
  BatchMemory memory_;
};

class Batch final : public Transformation {
 public:
  Batch(SourcePtr source, const BatchSettings& settings)
      : Transformation(std::move(source)),
        settings_(settings),
        size_(settings.size),
        drop_remainder_(settings.drop_remainder) {}

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
      return std::make_unique<Gathered>(*table, std::move(rows), settings_);
    }
    return std::make_unique<Stacked>(std::move(rows), settings_, elements());
  }

  SourcePtr shared(const BatchShare& share) const override {
    BatchSettings settings = settings_;
    settings.share = share;
    return std::make_shared<Batch>(source(), settings);
  }

  SourcePtr over(SourcePtr source) const override {
    return std::make_shared<Batch>(std::move(source), settings_);
  }

  /// The batches of a process are its share of those of all, and there are as many.
  SourcePtr of_files(const FileShare& share) const override {
    BatchSettings settings = settings_;
    if (share.rows) {
      if (size_ < share.rows->all) {
        throw InvalidArgument(
            fmt::format("batch: {} rows are fewer than the {} replicas that files are dealt to",
                        size_, share.rows->all));
      }
      const auto [begin, end] = share.rows->of(size_);
      settings.size = end - begin;
    }
    SourcePtr files = source()->of_files({share.first, share.step});
    return files ? std::make_shared<Batch>(std::move(files), settings) : nullptr;
  }

 private:
  int64_t elements() const {
    const int64_t all = source()->cardinality();
    return all == kInfinite ? std::numeric_limits<int64_t>::max() : all;
  }

  const BatchSettings settings_;
  const int64_t size_;
  const bool drop_remainder_;
};

}  // namespace

SourcePtr batch(SourcePtr source, int64_t size, bool drop_remainder) {
  return std::make_shared<Batch>(std::move(source), BatchSettings{size, drop_remainder});
}

}  // namespace tandem::data

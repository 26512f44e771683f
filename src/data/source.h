/// What a data set is made of. A Source gives items and never changes; a Transformation is a Source
/// that makes its items from those of another. A Cursor is a way through the items in one epoch.
#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include "tandem/data.h"

namespace tandem::data {

class Table;

/// An element on its way: its place where the transformation has a table, else its tensors.
struct Item {
  int64_t place = 0;
  Element element;
  int64_t batch_rows = -1;  ///< The rows of the whole batch, of which the element is a share.
};

/// Whose rows of each batch are wanted, where batches are dealt to `all` replicas: those of `count`
/// replicas from `first` on.
struct BatchShare {
  int first = 0;
  int count = 1;
  int all = 1;

  /// [begin, end) of a batch of so many rows.
  std::pair<int64_t, int64_t> of(int64_t rows) const;
};

/// Some of the files of a data set: those numbered `first`, `first + step`, ..
struct FileShare {
  int64_t first = 0;
  int64_t step = 1;
  /// Which share of the rows of its batches is made of them; nothing: the batches keep their size.
  std::optional<BatchShare> rows{};
};

/// Belongs to one thread at a time, and does not outlive its transformation.
class Cursor {
 public:
  virtual ~Cursor() = default;

  /// Puts the next item into `item`. False at the end, and then always.
  virtual bool next(Item& item) = 0;

  /// Passes over the next `count` items; returns how many there were. Makes no more of them than
  /// it must.
  virtual int64_t skip(int64_t count);
};

using CursorPtr = std::unique_ptr<Cursor>;

class Source {
 public:
  virtual ~Source() = default;

  /// The transformations up to this one, as far as they say what the elements are and in which
  /// order.
  virtual std::string str() const = 0;

  virtual int64_t cardinality() const = 0;
  virtual CursorPtr open(uint64_t epoch) const = 0;

  /// The arrays that the items are places in, or none.
  virtual const Table* table() const { return nullptr; }

  /// True where a cursor only moves memory, so that a thread would cost more than it saves.
  virtual bool is_cheap() const { return false; }

  /// How many shuffles there are up to this transformation. Each draws an order of its own.
  virtual int shuffles() const { return 0; }

  /// The same batches, of which only a share is made; null where the transformation cannot tell
  /// which rows of its source these are.
  virtual std::shared_ptr<const Source> shared(const BatchShare&) const { return nullptr; }

  /// How many files the items are read from; 0 where they do not come from files alone.
  virtual int64_t files() const { return 0; }

  /// The same made of some of the files; null where there are none. Throws InvalidArgument where
  /// there are no batches of which to make a share.
  virtual std::shared_ptr<const Source> of_files(const FileShare&) const { return nullptr; }
};

using SourcePtr = std::shared_ptr<const Source>;

/// A source after another, which passes on what it does not override.
class Transformation : public Source {
 public:
  explicit Transformation(SourcePtr source) : source_(std::move(source)) {}

  int64_t cardinality() const override { return source_->cardinality(); }
  const Table* table() const override { return source_->table(); }
  bool is_cheap() const override { return source_->is_cheap(); }
  int shuffles() const override { return source_->shuffles(); }
  int64_t files() const override { return source_->files(); }
  SourcePtr of_files(const FileShare& share) const override {
    SourcePtr files = source_->of_files(share);
    return files ? over(std::move(files)) : nullptr;
  }

  /// The same transformation of another source.
  virtual SourcePtr over(SourcePtr source) const = 0;

 protected:
  const SourcePtr& source() const { return source_; }

 private:
  SourcePtr source_;
};

/// a * b, neither negative, or a number too large to be one of items.
inline int64_t times(int64_t a, int64_t b) {
  constexpr int64_t kMost = int64_t{1} << 62;
  return b != 0 && a > kMost / b ? kMost : a * b;
}

/// The arrays of a transformation that is all their rows in order, or none.
const Table* all_rows(const Source& source);

/// The tensors of an item of `source`.
Element element_of(const Source& source, Item&& item);

/// "(float32[28,28], uint8[])"
std::string describe(const Element& element);

// The transformations, as data.h describes them. The arguments have been checked.

SourcePtr slices(const Tensors& tensors);
SourcePtr range(int64_t start, int64_t stop, int64_t step);
/// Errors have its name in them.
SourcePtr generator(std::function<internal::Generator(int64_t epoch)> start, const char* name);
SourcePtr files_source(std::vector<std::string> paths, internal::FileReader read);
SourcePtr zip(std::vector<SourcePtr> sources);
SourcePtr map(SourcePtr source, internal::ElementFn f, int parallel);
SourcePtr filter(SourcePtr source, internal::ElementTest f);
SourcePtr batch(SourcePtr source, int64_t size, bool drop_remainder);
SourcePtr shuffle(SourcePtr source, int64_t buffer, uint64_t seed, bool reshuffle);
SourcePtr in_order(SourcePtr source, std::vector<int64_t> order);
SourcePtr repeat(SourcePtr source, std::optional<int64_t> count);
SourcePtr take(SourcePtr source, int64_t count);
SourcePtr skip(SourcePtr source, int64_t count);
SourcePtr shard(SourcePtr source, int64_t shards, int64_t index);
SourcePtr cache(SourcePtr source);
SourcePtr prefetch(SourcePtr source, int64_t count);
SourcePtr within_deadline(SourcePtr source);
SourcePtr share(const SourcePtr& source, const BatchShare& share);

}  // namespace tandem::data

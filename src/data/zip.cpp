// The source whose elements are those of several data sets side by side. Where all of them are
// arrays in memory, so is the result, and rows are still just numbers to the transformations behind
// it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "data/source.h"
#include "data/table.h"

namespace tandem::data {
namespace {

class Zip final : public Source {
 public:
  explicit Zip(std::vector<SourcePtr> sources) : sources_(std::move(sources)) {}

  std::string str() const override {
    std::vector<std::string> texts;
    for (const auto& source : sources_) texts.push_back(source->str());
    return fmt::format("zip({})", fmt::join(texts, "; "));
  }

  int64_t cardinality() const override {
    int64_t least = kInfinite;
    for (const auto& source : sources_) {
      const int64_t count = source->cardinality();
      if (count == kUnknown) return kUnknown;
      if (count != kInfinite && (least == kInfinite || count < least)) least = count;
    }
    return least;
  }

  bool is_cheap() const override {
    return std::ranges::all_of(sources_, [](const auto& source) { return source->is_cheap(); });
  }

  int shuffles() const override {
    int most = 0;
    for (const auto& source : sources_) most = std::max(most, source->shuffles());
    return most;
  }

  CursorPtr open(uint64_t epoch) const override { return std::make_unique<Abreast>(*this, epoch); }

  int64_t files() const override {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const auto& source : sources_) least = std::min(least, source->files());
    return least;
  }

  SourcePtr of_files(const FileShare& share) const override {
    std::vector<SourcePtr> parts;
    for (const auto& source : sources_) {
      parts.push_back(source->of_files(share));
      if (parts.back() == nullptr) return nullptr;
    }
    return std::make_shared<Zip>(std::move(parts));
  }

 private:
  class Abreast final : public Cursor {
   public:
    Abreast(const Zip& transformation, uint64_t epoch) : transformation_(transformation) {
      for (const auto& source : transformation.sources_) cursors_.push_back(source->open(epoch));
    }

    bool next(Item& item) override {
      if (ended_) return false;
      Element element;
      for (size_t i = 0; i < cursors_.size(); ++i) {
        Item part;
        if (!cursors_[i]->next(part)) {
          ended_ = true;
          return false;
        }
        const Element tensors = element_of(*transformation_.sources_[i], std::move(part));
        element.insert(element.end(), tensors.begin(), tensors.end());
      }
      item.element = std::move(element);
      return true;
    }

    int64_t skip(int64_t count) override {
      if (ended_) return 0;
      int64_t passed = count;
      for (const auto& cursor : cursors_) passed = std::min(passed, cursor->skip(passed));
      ended_ = passed < count;
      return passed;
    }

   private:
    const Zip& transformation_;
    std::vector<CursorPtr> cursors_;
    bool ended_ = false;
  };

  const std::vector<SourcePtr> sources_;
};

/// Arrays side by side are arrays.
SourcePtr zip_tables(const std::vector<SourcePtr>& sources) {
  int64_t rows = std::numeric_limits<int64_t>::max();
  for (const auto& source : sources) rows = std::min(rows, all_rows(*source)->rows());
  Tensors columns;
  for (const auto& source : sources) {
    for (const Tensor& column : all_rows(*source)->columns())
      columns.push_back(column.rows(0, rows));
  }
  return slices(columns);
}

}  // namespace

SourcePtr zip(std::vector<SourcePtr> sources) {
  if (std::ranges::all_of(sources, [](const auto& source) { return all_rows(*source); })) {
    return zip_tables(sources);
  }
  return std::make_shared<Zip>(std::move(sources));
}

}  // namespace tandem::data

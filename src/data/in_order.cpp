// The transformation that gives elements in an order that somebody else has drawn.
#include <fmt/format.h>

#include <cstring>
#include <numeric>

#include "core/interruptible.h"
#include "data/draws.h"
#include "data/source.h"
#include "tandem/error.h"

namespace tandem::data {
namespace {

using Numbers = std::vector<int64_t>;

class InOrder final : public Transformation {
 public:
  InOrder(SourcePtr source, Numbers order)
      : Transformation(std::move(source)), order_(std::move(order)) {}

  /// A checksum stands for the order.
  std::string str() const override {
    const uint64_t sum = std::accumulate(
        order_.begin(), order_.end(), uint64_t{0},
        [](uint64_t all, int64_t each) { return mixed(all + 1) + static_cast<uint64_t>(each); });
    return fmt::format("{} | in_order({} numbers, {:08x})", source()->str(), order_.size(),
                       static_cast<uint32_t>(mixed(sum)));
  }
  int64_t cardinality() const override { return static_cast<int64_t>(order_.size()); }
  /// The numbers are those of all elements, not of some files'.
  int64_t files() const override { return 0; }
  SourcePtr of_files(const FileShare&) const override { return nullptr; }
  SourcePtr over(SourcePtr source) const override {
    return std::make_shared<InOrder>(std::move(source), order_);
  }

  CursorPtr open(uint64_t epoch) const override {
    return std::make_unique<Ordered>(*this, source()->open(epoch));
  }

 private:
  class Ordered final : public Cursor {
   public:
    Ordered(const InOrder& transformation, CursorPtr source)
        : order_(transformation.order_), source_(std::move(source)) {}

    bool next(Item& item) override {
      if (at_ == order_.size()) return false;
      if (!filled_) fill();
      const auto number = static_cast<size_t>(order_[at_]);
      if (number >= items_.size()) {
        throw InvalidArgument(
            fmt::format("in_order: there is no element {}; there are {}, numbered from 0", number,
                        items_.size()));
      }
      item = items_[number];
      ++at_;
      return true;
    }

    int64_t skip(int64_t count) override {
      const auto passed = std::min(static_cast<size_t>(count), order_.size() - at_);
      at_ += passed;
      return static_cast<int64_t>(passed);
    }

   private:
    void fill() {
      constexpr size_t kItemsPerLook = 256;
      core::PacedLook interruption;
      filled_ = true;
      for (Item item; source_->next(item);) {
        items_.push_back(std::move(item));
        if (items_.size() % kItemsPerLook == 0) interruption.look();
      }
    }

    const Numbers& order_;
    const CursorPtr source_;
    std::vector<Item> items_;  // All elements: of arrays their places.
    bool filled_ = false;
    size_t at_ = 0;
  };

  const Numbers order_;
};

}  // namespace

SourcePtr in_order(SourcePtr source, std::vector<int64_t> order) {
  return std::make_shared<InOrder>(std::move(source), std::move(order));
}

}  // namespace tandem::data

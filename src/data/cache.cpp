// The transformation that keeps the elements once a cursor has come to their end, and gives them
// again in later epochs.
#include <fmt/format.h>

#include <mutex>

#include "data/source.h"

namespace tandem::data {
namespace {

/// Keeps items, so that of arrays in memory it keeps places only. What is kept is that of epoch 0,
/// whichever epoch fills it first.
class Cache final : public Transformation {
 public:
  using Transformation::Transformation;

  std::string str() const override { return fmt::format("{} | cache", source()->str()); }
  bool is_cheap() const override { return source()->is_cheap() || kept() != nullptr; }
  SourcePtr over(SourcePtr source) const override {
    return std::make_shared<Cache>(std::move(source));
  }

  CursorPtr open(uint64_t) const override {
    if (auto all = kept()) return std::make_unique<Reading>(std::move(all));
    return std::make_unique<Filling>(*this);
  }

 private:
  using Items = std::vector<Item>;

  std::shared_ptr<const Items> kept() const {
    const std::lock_guard lock(mutex_);
    return kept_;
  }

  class Reading final : public Cursor {
   public:
    explicit Reading(std::shared_ptr<const Items> items) : items_(std::move(items)) {}

    bool next(Item& item) override {
      if (at_ == items_->size()) return false;
      item = (*items_)[at_++];
      return true;
    }

    int64_t skip(int64_t count) override {
      const size_t passed = std::min(static_cast<size_t>(count), items_->size() - at_);
      at_ += passed;
      return static_cast<int64_t>(passed);
    }

   private:
    const std::shared_ptr<const Items> items_;
    size_t at_ = 0;
  };

  class Filling final : public Cursor {
   public:
    explicit Filling(const Cache& transformation)
        : transformation_(transformation), source_(transformation.source()->open(0)) {}

    bool next(Item& item) override {
      if (!seen_) return false;
      if (source_->next(item)) {
        seen_->push_back(item);
        return true;
      }
      const std::lock_guard lock(transformation_.mutex_);
      if (!transformation_.kept_) transformation_.kept_ = std::move(seen_);
      seen_.reset();
      return false;
    }

   private:
    const Cache& transformation_;
    const CursorPtr source_;
    std::shared_ptr<Items> seen_ = std::make_shared<Items>();
  };

  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Items> kept_;
};

}  // namespace

SourcePtr cache(SourcePtr source) { return std::make_shared<Cache>(std::move(source)); }

}  // namespace tandem::data

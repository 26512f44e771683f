/// Stages that go through their source more than once: repeat and cache.
#include <fmt/format.h>

#include <limits>
#include <mutex>

#include "data/stage.h"

namespace tandem::data {
namespace {

class Repeat final : public Following {
 public:
  Repeat(StagePtr source, std::optional<int64_t> count)
      : Following(std::move(source)), count_(count) {}

  std::string str() const override {
    if (!count_) return fmt::format("{} | repeat()", source()->str());
    return fmt::format("{} | repeat({})", source()->str(), *count_);
  }

  int64_t cardinality() const override {
    const int64_t once = source()->cardinality();
    if (once == 0 || count_ == 0) return 0;
    if (!count_) return kInfinite;
    if (once < 0) return once;
    return once > std::numeric_limits<int64_t>::max() / *count_ ? kInfinite : once * *count_;
  }

  CursorPtr open(uint64_t epoch) const override { return std::make_unique<Rounds>(*this, epoch); }

 private:
  class Rounds final : public Cursor {
   public:
    Rounds(const Repeat& stage, uint64_t epoch) : stage_(stage), epoch_(epoch) {}

    bool next(Item& item) override {
      while (open()) {
        if (current_->next(item)) {
          empty_ = false;
          return true;
        }
        close();
      }
      return false;
    }

    int64_t skip(int64_t count) override {
      int64_t passed = 0;
      const int64_t once = stage_.source()->cardinality();
      while (passed < count) {
        if (!current_ && once > 0) passed += skip_rounds(count - passed, once) * once;
        if (passed == count || !open()) break;
        const int64_t more = current_->skip(count - passed);
        if (more > 0) empty_ = false;
        passed += more;
        if (passed < count) close();
      }
      return passed;
    }

   private:
    /// Passes over whole rounds of `once` items each; returns how many.
    int64_t skip_rounds(int64_t count, int64_t once) {
      int64_t rounds = count / once;
      if (stage_.count_) rounds = std::min(rounds, *stage_.count_ - round_);
      round_ += rounds;
      return rounds;
    }

    /// False after the last round.
    bool open() {
      if (current_) return true;
      if (ended_ || (stage_.count_ && round_ == *stage_.count_)) return false;
      // Where there is no last round, the rounds of two epochs lie far apart.
      constexpr int kFar = 32;
      const auto round = static_cast<uint64_t>(round_);
      const uint64_t first =
          stage_.count_ ? epoch_ * static_cast<uint64_t>(*stage_.count_) : epoch_ << kFar;
      current_ = stage_.source()->open(first + round);
      empty_ = true;
      return true;
    }

    /// Ends a round. One without an item, of rounds without end, is the last.
    void close() {
      current_.reset();
      ++round_;
      ended_ = empty_ && !stage_.count_;
    }

    const Repeat& stage_;
    const uint64_t epoch_;
    int64_t round_ = 0;
    CursorPtr current_;  // Of round `round_`, once it has begun.
    bool empty_ = true;  // The round has had no item so far.
    bool ended_ = false;
  };

  const std::optional<int64_t> count_;
};

class Cache final : public Following {
 public:
  using Following::Following;

  std::string str() const override { return fmt::format("{} | cache", source()->str()); }
  bool is_cheap() const override { return source()->is_cheap() || kept() != nullptr; }

  CursorPtr open(uint64_t) const override {
    if (auto all = kept()) return std::make_unique<Reading>(std::move(all));
    return std::make_unique<Recording>(*this);
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

  class Recording final : public Cursor {
   public:
    explicit Recording(const Cache& stage) : stage_(stage), source_(stage.source()->open(0)) {}

    bool next(Item& item) override {
      if (!seen_) return false;
      if (source_->next(item)) {
        seen_->push_back(item);
        return true;
      }
      const std::lock_guard lock(stage_.mutex_);
      if (!stage_.kept_) stage_.kept_ = std::move(seen_);
      seen_.reset();
      return false;
    }

   private:
    const Cache& stage_;
    const CursorPtr source_;
    std::shared_ptr<Items> seen_ = std::make_shared<Items>();
  };

  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Items> kept_;
};

}  // namespace

StagePtr repeat(StagePtr source, std::optional<int64_t> count) {
  return std::make_shared<Repeat>(std::move(source), count);
}

StagePtr cache(StagePtr source) { return std::make_shared<Cache>(std::move(source)); }

}  // namespace tandem::data

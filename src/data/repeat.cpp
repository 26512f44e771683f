// The transformation that goes through its source again and again. Each round is an epoch of the
// source, so that a shuffle before it has another order in each round.
#include <fmt/format.h>

#include <limits>

#include "data/source.h"

namespace tandem::data {
namespace {

class Repeat final : public Transformation {
 public:
  Repeat(SourcePtr source, std::optional<int64_t> count)
      : Transformation(std::move(source)), count_(count) {}

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

  SourcePtr shared(const BatchShare& share) const override {
    SourcePtr inner = source()->shared(share);
    return inner ? over(std::move(inner)) : nullptr;
  }
  SourcePtr over(SourcePtr source) const override {
    return std::make_shared<Repeat>(std::move(source), count_);
  }

 private:
  class Rounds final : public Cursor {
   public:
    Rounds(const Repeat& transformation, uint64_t epoch)
        : transformation_(transformation), epoch_(epoch) {}

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
      const int64_t once = transformation_.source()->cardinality();
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
      if (transformation_.count_) rounds = std::min(rounds, *transformation_.count_ - round_);
      round_ += rounds;
      return rounds;
    }

    /// False after the last round.
    bool open() {
      if (current_) return true;
      if (ended_ || (transformation_.count_ && round_ == *transformation_.count_)) return false;
      // Where there is no last round, the rounds of two epochs lie far apart.
      constexpr int kFar = 32;
      const auto round = static_cast<uint64_t>(round_);
      const uint64_t first = transformation_.count_
                                 ? epoch_ * static_cast<uint64_t>(*transformation_.count_)
                                 : epoch_ << kFar;
      current_ = transformation_.source()->open(first + round);
      empty_ = true;
      return true;
    }

    /// Ends a round. One without an item, of rounds without end, is the last.
    void close() {
      current_.reset();
      ++round_;
      ended_ = empty_ && !transformation_.count_;
    }

    const Repeat& transformation_;
    const uint64_t epoch_;
    int64_t round_ = 0;
    CursorPtr current_;  // The cursor of round `round_`, once it has begun.
    bool empty_ = true;  // The round has had no item so far.
    bool ended_ = false;
  };

  const std::optional<int64_t> count_;
};

}  // namespace

SourcePtr repeat(SourcePtr source, std::optional<int64_t> count) {
  return std::make_shared<Repeat>(std::move(source), count);
}

}  // namespace tandem::data

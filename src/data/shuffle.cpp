// The transformation that gives elements in a random order, which depends on the seed and the epoch
// alone. It keeps a reservoir of elements, draws one of them, and lets the next element take its
// place.
//
// Where elements are costly, skipping draws with their numbers instead, so that only those that are
// left in the reservoir are ever made.
#include <fmt/format.h>

#include <limits>
#include <numeric>

#include "core/interruptible.h"
#include "data/draws.h"
#include "data/source.h"

namespace tandem::data {
namespace {

/// Items to draw from. Each that is drawn makes room for the next that comes.
template <class T>
class Reservoir {
 public:
  std::vector<T>& kept() { return kept_; }

  /// Puts one of them into `drawn`; `refill` puts the next into its place, or returns false.
  template <class Refill>
  void draw(Draws& draws, T& drawn, const Refill& refill) {
    const size_t at = draws.below(kept_.size());
    std::swap(drawn, kept_[at]);
    if (refill(kept_[at])) return;
    if (at + 1 < kept_.size()) kept_[at] = std::move(kept_.back());
    kept_.pop_back();
  }

 private:
  std::vector<T> kept_;
};

class Shuffle final : public Transformation {
 public:
  Shuffle(SourcePtr source, int64_t buffer, uint64_t seed, bool reshuffle)
      : Transformation(std::move(source)), buffer_(buffer), seed_(seed), reshuffle_(reshuffle) {}

  std::string str() const override {
    return fmt::format("{} | shuffle({}, seed {}{})", source()->str(), buffer_, seed_,
                       reshuffle_ ? "" : ", the same in each epoch");
  }
  int shuffles() const override { return source()->shuffles() + 1; }
  SourcePtr over(SourcePtr source) const override {
    return std::make_shared<Shuffle>(std::move(source), buffer_, seed_, reshuffle_);
  }

  CursorPtr open(uint64_t epoch) const override {
    return std::make_unique<Shuffled>(*this, source()->open(epoch), reshuffle_ ? epoch : 0);
  }

 private:
  class Shuffled final : public Cursor {
   public:
    Shuffled(const Shuffle& transformation, CursorPtr source, uint64_t epoch)
        : transformation_(transformation),
          source_(std::move(source)),
          draws_(transformation.seed_, epoch, transformation.shuffles()) {}

    bool next(Item& item) override {
      if (!filled_) fill();
      if (reservoir_.kept().empty()) return false;
      reservoir_.draw(draws_, item, [&](Item& place) { return refill(place); });
      return true;
    }

    int64_t skip(int64_t count) override {
      const bool by_number = !filled_ && count > 0 && transformation_.table() == nullptr &&
                             transformation_.cardinality() != kUnknown;
      return by_number ? skip_by_number(count) : Cursor::skip(count);
    }

   private:
    bool refill(Item& item) {
      if (!ended_) ended_ = !source_->next(item);
      return !ended_;
    }

    /// Filling a large reservoir takes long, so it can be interrupted.
    void fill() {
      constexpr size_t kItemsPerLook = 256;
      core::PacedLook interruption;
      auto& kept = reservoir_.kept();
      const int64_t all = transformation_.cardinality();
      if (all >= 0) kept.reserve(static_cast<size_t>(std::min(all, transformation_.buffer_)));
      Item item;
      while (static_cast<int64_t>(kept.size()) < transformation_.buffer_ && refill(item)) {
        kept.push_back(std::move(item));
        if (kept.size() % kItemsPerLook == 0) interruption.look();
      }
      filled_ = true;
    }

    /// Draws with the items' numbers in place of the items, and then makes those that are left in
    /// the reservoir: the items drawn are never made.
    int64_t skip_by_number(int64_t count) {
      const int64_t known = transformation_.cardinality();
      const int64_t all = known == kInfinite ? std::numeric_limits<int64_t>::max() : known;
      int64_t coming = std::min(all, transformation_.buffer_);
      Reservoir<int64_t> numbers;
      numbers.kept().resize(static_cast<size_t>(coming));
      std::iota(numbers.kept().begin(), numbers.kept().end(), 0);
      int64_t passed = 0;
      int64_t drawn = 0;
      for (; passed < count && !numbers.kept().empty(); ++passed) {
        numbers.draw(draws_, drawn, [&](int64_t& number) {
          if (coming == all) return false;
          number = coming++;
          return true;
        });
      }
      make(numbers.kept(), coming);
      return passed;
    }

    /// Fills the reservoir with the items of these numbers, and passes over those up to `coming`.
    void make(const std::vector<int64_t>& numbers, int64_t coming) {
      filled_ = true;
      std::vector<size_t> order(numbers.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::ranges::sort(order, {}, [&](size_t i) { return numbers[i]; });
      reservoir_.kept().resize(numbers.size());
      int64_t at = 0;
      for (const size_t i : order) {
        source_->skip(numbers[i] - at);
        source_->next(reservoir_.kept()[i]);
        at = numbers[i] + 1;
      }
      source_->skip(coming - at);
    }

    const Shuffle& transformation_;
    const CursorPtr source_;
    Draws draws_;
    Reservoir<Item> reservoir_;
    bool filled_ = false;
    bool ended_ = false;
  };

  const int64_t buffer_;
  const uint64_t seed_;
  const bool reshuffle_;
};

}  // namespace

SourcePtr shuffle(SourcePtr source, int64_t buffer, uint64_t seed, bool reshuffle) {
  return std::make_shared<Shuffle>(std::move(source), buffer, seed, reshuffle);
}

}  // namespace tandem::data

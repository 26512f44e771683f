/// Transformations that pass on some of the items: take, skip, shard, filter.
#include "data/user_code.h"

namespace tandem::data {
namespace {

class Take final : public Transformation {
 public:
  Take(SourcePtr source, int64_t count) : Transformation(std::move(source)), count_(count) {}

  std::string str() const override { return fmt::format("{} | take({})", source()->str(), count_); }

  int64_t cardinality() const override {
    const int64_t all = source()->cardinality();
    if (count_ == 0 || all == kInfinite) return count_;
    return all == kUnknown ? kUnknown : std::min(all, count_);
  }

  CursorPtr open(uint64_t epoch) const override {
    return std::make_unique<First>(source()->open(epoch), count_);
  }

  SourcePtr shared(const BatchShare& share) const override {
    SourcePtr inner = source()->shared(share);
    return inner ? over(std::move(inner)) : nullptr;
  }
  SourcePtr over(SourcePtr source) const override {
    return std::make_shared<Take>(std::move(source), count_);
  }

 private:
  class First final : public Cursor {
   public:
    First(CursorPtr source, int64_t count) : source_(std::move(source)), left_(count) {}

    bool next(Item& item) override {
      if (left_ == 0 || !source_->next(item)) return false;
      --left_;
      return true;
    }

    int64_t skip(int64_t count) override {
      const int64_t passed = source_->skip(std::min(count, left_));
      left_ -= passed;
      return passed;
    }

   private:
    const CursorPtr source_;
    int64_t left_;
  };

  const int64_t count_;
};

/// The item after `first` others, and then each that is `step` further.
class EveryNth final : public Cursor {
 public:
  EveryNth(CursorPtr source, int64_t first, int64_t step)
      : source_(std::move(source)), step_(step), gap_(first) {}

  bool next(Item& item) override {
    if (gap_ > 0 && source_->skip(gap_) < gap_) return false;
    gap_ = step_ - 1;
    return source_->next(item);
  }

  int64_t skip(int64_t count) override {
    if (count == 0) return 0;
    const int64_t passed = source_->skip(gap_ + times(count - 1, step_) + 1);
    const int64_t mine = passed > gap_ ? (passed - gap_ - 1) / step_ + 1 : 0;
    gap_ = step_ - 1;
    return mine;
  }

 private:
  const CursorPtr source_;
  const int64_t step_;
  int64_t gap_;  // Items to pass over before the next.
};

class Skip final : public Transformation {
 public:
  Skip(SourcePtr source, int64_t count) : Transformation(std::move(source)), count_(count) {}

  std::string str() const override { return fmt::format("{} | skip({})", source()->str(), count_); }

  int64_t cardinality() const override {
    const int64_t all = source()->cardinality();
    return all < 0 ? all : std::max<int64_t>(all - count_, 0);
  }

  CursorPtr open(uint64_t epoch) const override {
    return std::make_unique<EveryNth>(source()->open(epoch), count_, 1);
  }

  SourcePtr shared(const BatchShare& share) const override {
    SourcePtr inner = source()->shared(share);
    return inner ? over(std::move(inner)) : nullptr;
  }
  SourcePtr over(SourcePtr source) const override {
    return std::make_shared<Skip>(std::move(source), count_);
  }

 private:
  const int64_t count_;
};

class ShardOfElements final : public Transformation {
 public:
  ShardOfElements(SourcePtr source, int64_t shards, int64_t index)
      : Transformation(std::move(source)), shards_(shards), index_(index) {}

  std::string str() const override {
    return fmt::format("{} | shard({}, {})", source()->str(), shards_, index_);
  }

  int64_t cardinality() const override {
    const int64_t all = source()->cardinality();
    return all < 0 ? all : (all - index_ + shards_ - 1) / shards_;
  }

  CursorPtr open(uint64_t epoch) const override {
    return std::make_unique<EveryNth>(source()->open(epoch), index_, shards_);
  }

  SourcePtr shared(const BatchShare& share) const override {
    SourcePtr inner = source()->shared(share);
    return inner ? over(std::move(inner)) : nullptr;
  }
  SourcePtr over(SourcePtr source) const override {
    return std::make_shared<ShardOfElements>(std::move(source), shards_, index_);
  }

 private:
  const int64_t shards_;
  const int64_t index_;
};

class Filter final : public Transformation {
 public:
  Filter(SourcePtr source, internal::ElementTest test)
      : Transformation(std::move(source)), test_(std::move(test)) {}

  std::string str() const override { return fmt::format("{} | filter", source()->str()); }
  int64_t cardinality() const override { return kUnknown; }
  bool is_cheap() const override { return false; }
  SourcePtr over(SourcePtr source) const override {
    return std::make_shared<Filter>(std::move(source), test_);
  }
  CursorPtr open(uint64_t epoch) const override {
    return std::make_unique<Passing>(*source(), source()->open(epoch), test_);
  }

 private:
  class Passing final : public Cursor {
   public:
    Passing(const Source& transformation, CursorPtr source, const internal::ElementTest& test)
        : transformation_(transformation), source_(std::move(source)), test_(test) {}

    bool next(Item& item) override {
      while (source_->next(item)) {
        const Element element = element_of(transformation_, Item(item));
        if (call_user("filter", number_++, [&] { return test_(element); })) return true;
      }
      return false;
    }

   private:
    const Source& transformation_;
    const CursorPtr source_;
    const internal::ElementTest& test_;
    int64_t number_ = 0;
  };

  const internal::ElementTest test_;
};

}  // namespace

SourcePtr take(SourcePtr source, int64_t count) {
  return std::make_shared<Take>(std::move(source), count);
}

SourcePtr skip(SourcePtr source, int64_t count) {
  return std::make_shared<Skip>(std::move(source), count);
}

SourcePtr shard(SourcePtr source, int64_t shards, int64_t index) {
  return std::make_shared<ShardOfElements>(std::move(source), shards, index);
}

SourcePtr filter(SourcePtr source, internal::ElementTest test) {
  return std::make_shared<Filter>(std::move(source), std::move(test));
}

}  // namespace tandem::data

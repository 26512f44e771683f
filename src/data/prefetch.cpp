// The transformation that has a thread make elements before they are asked for. `within_deadline`
// is the same transformation for another end: since the caller itself makes no element, an input
// that hangs becomes an error there and does not hold the caller for ever.
#include "data/ahead.h"

namespace tandem::data {
namespace {

/// Says nothing of itself in str(): it changes neither the elements nor their order.
class Prefetch final : public Transformation {
 public:
  Prefetch(SourcePtr source, const AheadOptions& options)
      : Transformation(std::move(source)), options_(options) {}

  std::string str() const override { return source()->str(); }

  CursorPtr open(uint64_t epoch) const override {
    if (source()->is_cheap()) return source()->open(epoch);
    return run_ahead(source(), epoch, {}, options_);
  }

  SourcePtr shared(const BatchShare& share) const override {
    SourcePtr inner = source()->shared(share);
    return inner ? over(std::move(inner)) : nullptr;
  }
  SourcePtr over(SourcePtr source) const override {
    return std::make_shared<Prefetch>(std::move(source), options_);
  }

 private:
  const AheadOptions options_;
};

}  // namespace

SourcePtr prefetch(SourcePtr source, int64_t count) {
  const AheadOptions options{.name = "prefetch", .threads = 1, .capacity = count};
  return std::make_shared<Prefetch>(std::move(source), options);
}

SourcePtr within_deadline(SourcePtr source) {
  const AheadOptions options{.name = "input", .threads = 1, .capacity = 2, .caller_works = false};
  return std::make_shared<Prefetch>(std::move(source), options);
}

}  // namespace tandem::data

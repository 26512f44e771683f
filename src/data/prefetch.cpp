#include "data/ahead.h"

namespace tandem::data {
namespace {

/// Says nothing of itself in str(): it changes neither the elements nor their order.
class Prefetch final : public Following {
 public:
  Prefetch(StagePtr source, int64_t count) : Following(std::move(source)), count_(count) {}

  std::string str() const override { return source()->str(); }

  CursorPtr open(uint64_t epoch) const override {
    if (source()->is_cheap()) return source()->open(epoch);
    return run_ahead(source(), epoch, {}, {.name = "prefetch", .threads = 1, .capacity = count_});
  }

 private:
  const int64_t count_;
};

}  // namespace

StagePtr prefetch(StagePtr source, int64_t count) {
  return std::make_shared<Prefetch>(std::move(source), count);
}

}  // namespace tandem::data

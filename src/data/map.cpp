// The transformation that calls a function of the user's with each element: on the thread that asks
// for the element, or on several threads ahead of it (data/ahead.h).
#include "data/ahead.h"
#include "data/user_code.h"

namespace tandem::data {
namespace {

class Map final : public Transformation {
 public:
  Map(SourcePtr source, internal::ElementFn f, int parallel)
      : Transformation(std::move(source)), f_(std::move(f)), parallel_(parallel) {}

  std::string str() const override { return fmt::format("{} | map", source()->str()); }
  const Table* table() const override { return nullptr; }
  bool is_cheap() const override { return false; }
  SourcePtr over(SourcePtr source) const override {
    return std::make_shared<Map>(std::move(source), f_, parallel_);
  }

  CursorPtr open(uint64_t epoch) const override {
    // A thread that outlives its deadline may outlive this transformation too, so the function is
    // its own.
    auto work = [f = f_, source = source()](Item& item, int64_t number) {
      const int64_t place = item.place;
      const Element element = element_of(*source, std::move(item));
      const auto mapped = [&] {
        Element result = f(element);
        check_element(result);
        return result;
      };
      item = {.place = place, .element = call_user("map", number, mapped)};
    };
    if (parallel_ == 1) return std::make_unique<Mapped>(source()->open(epoch), std::move(work));
    return run_ahead(source(), epoch, std::move(work),
                     {.name = "map", .threads = parallel_ - 1, .capacity = int64_t{2} * parallel_});
  }

 private:
  class Mapped final : public Cursor {
   public:
    Mapped(CursorPtr source, std::function<void(Item&, int64_t)> work)
        : source_(std::move(source)), work_(std::move(work)) {}

    bool next(Item& item) override {
      if (!source_->next(item)) return false;
      work_(item, number_++);
      return true;
    }

    int64_t skip(int64_t count) override {
      const int64_t passed = source_->skip(count);
      number_ += passed;
      return passed;
    }

   private:
    const CursorPtr source_;
    const std::function<void(Item&, int64_t)> work_;
    int64_t number_ = 0;
  };

  const internal::ElementFn f_;
  const int parallel_;
};

}  // namespace

SourcePtr map(SourcePtr source, internal::ElementFn f, int parallel) {
  return std::make_shared<Map>(std::move(source), std::move(f), parallel);
}

}  // namespace tandem::data

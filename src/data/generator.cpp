// The source whose elements a function of the user's makes one by one, afresh in each epoch.
#include "data/user_code.h"

namespace tandem::data {
namespace {

class GeneratorSource final : public Source {
 public:
  using Start = std::function<internal::Generator(int64_t epoch)>;
  GeneratorSource(Start start, const char* name) : start_(std::move(start)), name_(name) {}

  std::string str() const override { return name_; }
  int64_t cardinality() const override { return kUnknown; }
  CursorPtr open(uint64_t epoch) const override {
    return std::make_unique<Calls>(start_, name_, epoch);
  }

 private:
  class Calls final : public Cursor {
   public:
    Calls(const Start& start, const char* name, uint64_t epoch)
        : start_(start), name_(name), epoch_(epoch) {}

    bool next(Item& item) override {
      if (ended_) return false;
      const bool got = call_user(name_, number_, [&] { return call(item); });
      ended_ = !got;
      ++number_;
      return got;
    }

   private:
    bool call(Item& item) {
      if (!generator_) generator_ = start_(static_cast<int64_t>(epoch_));
      std::optional<Element> element = generator_();
      if (!element) return false;
      check_element(*element);
      check_type(*element);
      item.element = std::move(*element);
      return true;
    }

    void check_type(const Element& element) {
      bool same = element.size() == dtypes_.size();
      for (size_t i = 0; same && i < element.size(); ++i) same = element[i].dtype() == dtypes_[i];
      if (same) return;
      if (number_ > 0) {
        throw InvalidArgument(
            fmt::format("it is {}, element 0 was {}; the number of tensors and "
                        "their dtypes stay the same",
                        describe(element), first_));
      }
      for (const Tensor& tensor : element) dtypes_.push_back(tensor.dtype());
      first_ = describe(element);
    }

    const Start& start_;
    const char* const name_;
    const uint64_t epoch_;
    internal::Generator generator_;
    int64_t number_ = 0;
    bool ended_ = false;
    std::vector<DType> dtypes_;
    std::string first_;
  };

  const Start start_;
  const char* const name_;
};

}  // namespace

SourcePtr generator(std::function<internal::Generator(int64_t epoch)> start, const char* name) {
  return std::make_shared<GeneratorSource>(std::move(start), name);
}

}  // namespace tandem::data

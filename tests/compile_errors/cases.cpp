// What a compiler must refuse, each statement with one error that says what is accepted: see
// run.py.
#include <tandem/tandem.h>

#include <memory>
#include <set>

namespace td = tandem;
using td::Tensor;

struct TwoOverloads {
  Tensor operator()(const Tensor& x) const { return x; }
  Tensor operator()(const Tensor& x, const Tensor& y) const { return x + y; }
};

void functions(const Tensor& x) {
  // error: accepted is a callable with one signature
  auto generic = td::function([](auto y) { return y; });
  Tensor a = generic(x) * 2;
  generic.trace(x);

  // error: accepted is a callable with one signature
  auto overloaded = td::function(TwoOverloads());
  a += overloaded(x, x);

  // error: be copied
  auto owner = td::function([p = std::make_unique<int>(1)](const Tensor& y) { return y * *p; });
  a += owner(x);

  // error: arguments are Tensor, numbers
  auto set = td::function([](const std::set<int>&, const Tensor& y) { return y; });
  a += set(std::set<int>(), x);

  // error: arguments are Tensor, numbers
  auto pointer = td::function([](const Tensor* y) { return *y; });
  a += pointer(&x);

  // error: arguments are Tensor, numbers
  auto bits = td::function([](const std::vector<bool>&) { return 1; });
  bits(std::vector<bool>());

  // error: by value or const reference
  auto reference = td::function([](Tensor& y) { return y; });
  a += reference(x);

  // error: the result is void, Tensor
  auto shape = td::function([](const Tensor& y) { return y.shape(); });
  td::Shape b = shape(x);
}

void structures(const Tensor& x) {
  // error: map and filter accept
  td::data::Dataset::range(3).map([](auto y) { return y; }).batch(2);
  // error: map and filter accept
  td::data::Dataset::range(3).filter([](const auto& y) { return y > 1; });
  // error: accepted are Tensor, numbers
  td::data::Dataset::from_tensor_slices(std::set<int>());
  // error: accepted are Tensor, numbers
  td::cond(
      x > 0, [&] { return x.shape(); }, [&] { return x.shape(); });
}

void types() {
  // error: float, double, bool and the integers of cstdint have a DType
  const Tensor x = Tensor::of({1.0L, 2.0L});
}

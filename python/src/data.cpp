// Data sets over flat lists of tensors; the structures that elements come in are Python's.
#include <set>

#include "binding.h"

namespace tandem::python {
namespace {

using data::Dataset;
using data::Element;

/// An iterator whose threads may call Python: it is made, used and ended without the interpreter's
/// lock.
class PyIterator final : public Closable {
 public:
  explicit PyIterator(data::Iterator iterator)
      : iterator_(std::make_unique<data::Iterator>(std::move(iterator))) {}
  ~PyIterator() override { close(); }
  void close() override {
    const nb::gil_scoped_release released;
    iterator_.reset();
  }
  nb::object next() {
    if (!iterator_) return nb::none();
    const std::optional<Element> element = unlocked([&] { return iterator_->next(); });
    return element ? nb::object(from_tensors(*element)) : nb::none();
  }
  nb::bytes save() const {
    if (!iterator_) throw FailedPrecondition("the iterator is closed");
    const std::string position = iterator_->save();
    return nb::bytes(position.data(), position.size());
  }

 private:
  std::unique_ptr<data::Iterator> iterator_;
};

Element call_on(const Callable& callable, const Element& element) {
  return callable.call([&](const nb::object& f) { return to_tensors(f(from_tensors(element))); });
}

std::set<Closable*>& open_iterators() {
  static auto* open = new std::set<Closable*>();
  return *open;
}

}  // namespace

Closable::Closable() { open_iterators().insert(this); }
Closable::~Closable() { open_iterators().erase(this); }

void bind_data(nb::module_& m) {
  m.def("close_iterators", [] {
    for (Closable* each : std::set<Closable*>(open_iterators())) each->close();
  });
  nb::class_<PyIterator>(m, "DatasetIterator")
      .def("next", &PyIterator::next)
      .def("save", &PyIterator::save);
  nb::class_<Dataset>(m, "Dataset")
      .def_static("from_tensor_slices",
                  [](nb::handle list) { return Dataset::from_tensor_slices(to_tensors(list)); })
      .def_static("range", [](int64_t start, int64_t stop,
                              int64_t step) { return Dataset::range(start, stop, step); })
      .def_static("zip", [](const std::vector<Dataset>& sets) { return Dataset::zip(sets); })
      // `start()` returns a function that returns the next element as a list, or None at the end.
      .def_static("from_generator",
                  [](nb::object start) {
                    return Dataset::from_generator([start = Callable(std::move(start))] {
                      const auto begun = std::make_shared<Callable>(
                          start.call([](const nb::object& f) { return nb::object(f()); }));
                      return [begun]() -> std::optional<Element> {
                        return begun->call([](const nb::object& next) -> std::optional<Element> {
                          const nb::object element = next();
                          if (element.is_none()) return std::nullopt;
                          return to_tensors(element);
                        });
                      };
                    });
                  })
      .def("map",
           [](const Dataset& self, nb::object f, int parallel) {
             const Callable callable(std::move(f));
             const auto call = [callable](const Element& element) {
               return call_on(callable, element);
             };
             return self.map(std::function<Element(const Element&)>(call), {.parallel = parallel});
           })
      .def("filter",
           [](const Dataset& self, nb::object f) {
             const Callable callable(std::move(f));
             return self.filter(
                 std::function<bool(const Element&)>([callable](const Element& element) {
                   return callable.call([&](const nb::object& test) {
                     return nb::cast<bool>(test(from_tensors(element)));
                   });
                 }));
           })
      .def("batch", [](const Dataset& self, int64_t size,
                       bool drop_remainder) { return self.batch(size, {drop_remainder}); })
      .def(
          "shuffle",
          [](const Dataset& self, int64_t buffer, std::optional<uint64_t> seed, bool reshuffle) {
            return self.shuffle(buffer, {seed, reshuffle});
          },
          "buffer"_a, "seed"_a.none(), "reshuffle"_a)
      .def("in_order", &Dataset::in_order)
      .def(
          "repeat",
          [](const Dataset& self, std::optional<int64_t> count) {
            return count ? self.repeat(*count) : self.repeat();
          },
          "count"_a.none())
      .def("take", &Dataset::take)
      .def("skip", &Dataset::skip)
      .def("shard", &Dataset::shard)
      .def("cache", &Dataset::cache)
      .def("prefetch", &Dataset::prefetch)
      .def("cardinality", &Dataset::cardinality)
      .def(
          "iterator",
          [](const Dataset& self) {
            return new PyIterator(unlocked([&] { return self.iterator(); }));
          },
          nb::rv_policy::take_ownership)
      .def(
          "iterator_of_epoch",
          [](const Dataset& self, int64_t epoch) {
            return new PyIterator(unlocked([&] { return self.iterator(epoch); }));
          },
          nb::rv_policy::take_ownership)
      .def(
          "restore",
          [](const Dataset& self, const nb::bytes& position) {
            const std::string bytes(position.c_str(), position.size());
            return new PyIterator(unlocked([&] { return self.restore(bytes); }));
          },
          nb::rv_policy::take_ownership)
      .def("__str__", &Dataset::str);
}

}  // namespace tandem::python

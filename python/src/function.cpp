// Functions that are traced, branches and loops within them.
#include "binding.h"

namespace tandem::python {
namespace {

/// A Python exception that stands behind an InvalidArgument: tracing tries again with the present
/// number of rows, and where that fails too Python's own exception is what users see.
thread_local std::optional<PythonException> behind_error;

nb::object& shape_errors() {
  static auto* type = new nb::object();
  return *type;
}

/// Calls a Python function of a list of tensors that returns a list of tensors and the structure
/// they came in.
struct TracedCall {
  Callable callable;

  std::pair<Tensors, std::shared_ptr<const void>> operator()(const Tensors& arguments) const {
    const nb::gil_scoped_acquire acquired;
    try {
      return callable.call([&](const nb::object& f) {
        const nb::object result = f(from_tensors(arguments));
        auto structure = std::make_shared<Callable>(nb::object(result[1]));
        return std::pair<Tensors, std::shared_ptr<const void>>(to_tensors(result[0]),
                                                               std::move(structure));
      });
    } catch (const PythonException& error) {
      error.restore();
      nb::python_error python;
      const bool retry = shape_errors().is_valid() && python.matches(shape_errors().ptr());
      const std::string text = retry ? python.what() : "";
      PythonException carried(std::move(python));
      if (!retry) throw carried;
      behind_error = carried;
      throw InvalidArgument(text);
    }
  }
};

/// `f()`, in which an InvalidArgument that Python threw first is Python's again.
template <class F>
auto with_python_errors(F&& f) {
  behind_error.reset();
  try {
    return unlocked(f);
  } catch (const InvalidArgument&) {
    if (!behind_error) throw;
    const PythonException error = *behind_error;
    behind_error.reset();
    throw error;
  }
}

class PyFunction : public FlatFunction {
 public:
  PyFunction(Callable f, FunctionOptions options)
      : FlatFunction(
            StructuredFn([call = TracedCall{std::move(f)}](const Tensors& arguments, const void*) {
              auto [results, structure] = call(arguments);
              return Traced{std::move(results), std::move(structure)};
            }),
            std::move(options)) {}

  /// The results and the structure they came in when the function was traced.
  nb::tuple run(nb::handle arguments) const {
    structure::Flat flat{to_tensors(arguments), {}};
    const Traced traced = with_python_errors([&] { return call(flat, nullptr); });
    const auto* structure = static_cast<const Callable*>(traced.structure.get());
    return nb::make_tuple(
        from_tensors(traced.results),
        structure == nullptr ? nb::none() : structure->call([](const nb::object& o) { return o; }));
  }

  void trace(nb::handle arguments) const {
    structure::Flat flat{to_tensors(arguments), {}};
    with_python_errors([&] { trace_flat(flat, nullptr); });
  }
};

std::vector<TensorSpec> to_specs(nb::handle list) {
  std::vector<TensorSpec> specs;
  for (nb::handle each : nb::borrow<nb::object>(list)) {
    specs.push_back({to_dtype(nb::cast<int>(each[0])), to_shape(each[1])});
  }
  return specs;
}

/// A context manager of Python: a step inside of it is finished, whatever is asked for.
class Step {
 public:
  void enter() { step_.emplace(); }
  void exit() { step_.reset(); }

 private:
  std::optional<interruption::WholeStep> step_;
};

class Init {
 public:
  void enter() { scope_ = std::make_unique<InitScope>(); }
  void exit() { scope_.reset(); }

 private:
  std::unique_ptr<InitScope> scope_;
};

structure::Flat flat_of(const Callable& callable, const Tensors* arguments) {
  return callable.call([&](const nb::object& f) {
    const nb::object result = arguments == nullptr ? f() : f(from_tensors(*arguments));
    return structure::Flat{to_tensors(result), {}};
  });
}

}  // namespace

void bind_function(nb::module_& m) {
  m.def("set_shape_errors", [](nb::object type) { shape_errors() = std::move(type); });
  nb::class_<FlatFunction>(m, "FlatFunction")
      .def_prop_ro("trace_count", &FlatFunction::trace_count)
      .def("explain", &FlatFunction::explain)
      .def("memory_plan", [](const FlatFunction& f, int64_t rows) {
        nb::dict bytes;
        for (const auto& device : f.memory_plan(rows).devices) {
          bytes[device.name.c_str()] = device.bytes();
        }
        return bytes;
      });
  nb::class_<PyFunction, FlatFunction>(m, "Function")
      .def(
          "__init__",
          [](PyFunction* self, nb::object f, const std::string& name, nb::handle signature) {
            FunctionOptions options{.name = name, .input_signature = to_specs(signature)};
            new (self) PyFunction(Callable(std::move(f)), std::move(options));
          },
          "f"_a, "name"_a = "function", "signature"_a = nb::make_tuple())
      .def("run", &PyFunction::run)
      .def("trace", &PyFunction::trace);
  nb::class_<Step>(m, "WholeStep")
      .def(nb::init<>())
      .def("__enter__", &Step::enter)
      .def("__exit__", [](Step& self, const nb::args&) { self.exit(); });
  nb::class_<Init>(m, "InitScope")
      .def(nb::init<>())
      .def("__enter__", &Init::enter)
      .def("__exit__", [](Init& self, const nb::args&) { self.exit(); });

  m.def("cond", [](const Tensor& predicate, nb::object then, nb::object otherwise) {
    const Callable taken(std::move(then));
    const Callable other(std::move(otherwise));
    return from_tensors(with_python_errors([&] {
      return flow::cond(
          predicate, [&] { return flat_of(taken, nullptr); },
          [&] { return flat_of(other, nullptr); });
    }));
  });
  m.def("while_loop",
        [](nb::object condition, nb::object body, nb::handle variables, int64_t maximum) {
          const Callable test(std::move(condition));
          const Callable step(std::move(body));
          const structure::Flat start{to_tensors(variables), {}};
          return from_tensors(with_python_errors([&] {
            return flow::while_loop(
                [&](const Tensors& now) { return flat_of(test, &now).tensors.at(0); },
                [&](const Tensors& now) { return flat_of(step, &now); }, start, maximum);
          }));
        });
}

}  // namespace tandem::python

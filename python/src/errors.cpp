// Errors of the library become exceptions of tandem.errors, and exceptions of Python that went
// through the library come out as themselves. Those of signals, such as KeyboardInterrupt, end what
// the library is waiting for.
#include "errors.h"

#include <nanobind/stl/map.h>

#include <atomic>

namespace tandem::python {
namespace {

/// The classes of tandem.errors by the library's names, which Python gives when the package is
/// imported.
nb::object& classes() {
  static auto* dict = new nb::object();
  return *dict;
}

PyObject* class_of(const char* kind) {
  if (!classes().is_valid()) return PyExc_RuntimeError;
  PyObject* found = PyDict_GetItemString(classes().ptr(), kind);
  return found == nullptr ? PyExc_RuntimeError : found;
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const PythonException& error) {
    error.restore();
  } catch (const Error& error) {
    PyErr_SetString(class_of(error.kind()), error.what());
  }
}

std::atomic<bool> is_ending{false};

/// Python handles signals on its main thread, when it is asked to.
void handle_signals() {
  if (interpreter_ends()) return;
  const nb::gil_scoped_acquire acquired;
  if (PyErr_CheckSignals() != 0) throw PythonException(nb::python_error());
}

}  // namespace

/// The stable ABI of Python 3.12 does not tell, so that the package says it when it hears of it.
bool interpreter_ends() { return is_ending.load() || Py_IsInitialized() == 0; }

void set_error(const std::exception_ptr& thrown, PyObject* otherwise) {
  try {
    translate(thrown, nullptr);
  } catch (const std::exception& error) {
    PyErr_SetString(otherwise, error.what());
  }
}

Callable::Callable(nb::object f)
    : object_(new nb::object(std::move(f)), [](nb::object* object) {
        if (interpreter_ends()) return;  // The interpreter has taken everything down already.
        const nb::gil_scoped_acquire acquired;
        delete object;
      }) {}

void bind_errors(nb::module_& m) {
  nb::register_exception_translator(translate);
  m.def("set_error_classes", [](const nb::dict& given) { classes() = given; });
  interruption::set_question(handle_signals);
  m.def("interpreter_ends", [] {
    is_ending = true;
    interruption::set_question({});
  });
}

}  // namespace tandem::python

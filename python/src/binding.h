/// What the files of the extension share: how Python's values become the library's and the other
/// way round, and how the interpreter's lock is let go and taken. Everything that has a name for
/// users is made of this in Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <utility>

#include "tandem/foreign_exception.h"
#include "tandem/tandem.h"

namespace tandem::python {

namespace nb = nanobind;
using namespace nb::literals;

// ---- The interpreter's lock ----

/// `f()` without the interpreter's lock.
template <class F>
decltype(auto) unlocked(F&& f) {
  const nb::gil_scoped_release released;
  return std::forward<F>(f)();
}

/// The interpreter is about to end, or has ended: nobody calls it or gives objects back to it.
bool interpreter_ends();

/// A Python exception on its way through the library.
class PythonException : public ForeignException {
 public:
  explicit PythonException(nb::python_error error)
      : error_(std::make_shared<nb::python_error>(std::move(error))) {}
  const char* what() const noexcept override { return "an exception of Python"; }
  /// Gives the exception back to the interpreter. The lock is held.
  void restore() const { nb::python_error(*error_).restore(); }

 private:
  std::shared_ptr<nb::python_error> error_;
};

/// A Python function that the library holds: copied and destroyed on any thread.
class Callable {
 public:
  explicit Callable(nb::object f);

  /// Calls it under the lock. What Python throws is a PythonException here.
  template <class F>
  auto call(F&& use) const {
    const nb::gil_scoped_acquire acquired;
    try {
      return use(*object_);
    } catch (nb::python_error& error) {
      throw PythonException(std::move(error));
    }
  }

 private:
  std::shared_ptr<nb::object> object_;
};

// ---- Values ----

/// Types of elements go over the border as numbers.
inline DType to_dtype(int code) { return static_cast<DType>(code); }
inline int from_dtype(DType dtype) { return static_cast<int>(dtype); }

/// The Python object of a dtype: tf.float32.
nb::object dtype_object(DType dtype);

bool is_tensor(nb::handle value);
bool is_variable(nb::handle value);

/// A tensor of what stands where one is wanted: a tensor or variable, a number, an array, a list.
/// With `dtype` that is what it becomes; else numbers, lists and arrays take the dtype of `beside`
/// where they can, as in TensorFlow.
Tensor to_tensor(nb::handle value, std::optional<DType> dtype = {},
                 std::optional<DType> beside = {});

/// The same for lists of them.
Tensors to_tensors(nb::handle list);
Variables to_variables(nb::handle list);

/// A tensor for Python; None for one that is undefined.
nb::object from_tensor(const Tensor& tensor);
nb::list from_tensors(const Tensors& tensors);

/// A shape of what stands where one is wanted: a number, a sequence of numbers, None and sizes, a
/// vector of integers.
Shape to_shape(nb::handle value);
nb::tuple from_shape(const Shape& shape);
std::vector<int64_t> to_numbers(nb::handle sequence);
std::vector<int> to_axes(nb::handle sequence);

/// A value of replicas of what stands where one is wanted: one, or what becomes a tensor.
distribute::PerReplica to_per_replica(nb::handle value);
distribute::PerReplicas to_per_replicas(nb::handle list);

/// The memory of an object with the buffer protocol, if it is row-major and of a dtype that tensors
/// have.
std::optional<Tensor> of_buffer(nb::handle value, bool copy);

/// Operands of one op, each taking the other's dtype where it is only a number.
std::pair<Tensor, Tensor> operands(nb::handle a, nb::handle b);

// ---- What ends before the interpreter does ----

/// An iterator whose threads may call Python. All that are still open are closed when the
/// interpreter is about to end. Made, closed and destroyed under the lock.
class Closable {
 public:
  Closable();
  virtual ~Closable();
  Closable(const Closable&) = delete;
  Closable& operator=(const Closable&) = delete;
  virtual void close() = 0;
};

// ---- The parts of the module ----

void bind_errors(nb::module_& m);
void bind_tensor(nb::module_& m);
void bind_ops(nb::module_& m);
void bind_variable(nb::module_& m);
void bind_gradients(nb::module_& m);
void bind_function(nb::module_& m);
void bind_data(nb::module_& m);
void bind_distribute(nb::module_& m);
void bind_mesh(nb::module_& m);
void bind_servers(nb::module_& m);
void bind_optimizers(nb::module_& m);
void bind_config(nb::module_& m);
void bind_checkpoint(nb::module_& m);

}  // namespace tandem::python

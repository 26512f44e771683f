/// How functions that the interpreter calls itself, without nanobind between, say what went wrong.
#pragma once

#include <exception>

#include "binding.h"

namespace tandem::python {

/// Sets Python's error to what was thrown: an exception of Python's own, one of tandem.errors, or
/// else `otherwise` with its text.
void set_error(const std::exception_ptr& thrown, PyObject* otherwise);

}  // namespace tandem::python

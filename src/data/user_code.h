/// How a transformation calls a function of the user's.
#pragma once

#include <fmt/format.h>

#include "data/source.h"
#include "runtime/random_calls.h"
#include "tandem/device.h"
#include "tandem/error.h"
#include "tandem/foreign_exception.h"
#include "tandem/function.h"

namespace tandem::data {

/// `f()` with the host as its device, at once and unrecorded. What it throws gets the
/// transformation's name and the element's number before it, unless it is of another language.
template <class F>
auto call_user(const char* transformation, int64_t number, F&& f) {
  const InitScope unrecorded;
  const runtime::RandomPurposeScope draws(runtime::RandomPurpose::steps);
  const auto host = device("/device:CPU:0");
  try {
    return f();
  } catch (const Error& error) {
    error.rethrow_within(fmt::format("{}: element {}", transformation, number));
    throw;
  } catch (const ForeignException&) {
    throw;
  } catch (const std::exception& error) {
    throw Unavailable(fmt::format("{}: element {}: {}", transformation, number, error.what()));
  }
}

/// Throws InvalidArgument for an element without tensors or with an empty one.
inline void check_element(const Element& element) {
  if (element.empty()) throw InvalidArgument("an element has at least one tensor, this has none");
  for (size_t i = 0; i < element.size(); ++i) {
    if (!element[i].defined()) {
      throw InvalidArgument(fmt::format("tensor {} of {} is empty", i, element.size()));
    }
  }
}

}  // namespace tandem::data

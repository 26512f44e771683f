// The penalties l1 and l2 on weights, and their names.
#include <fmt/format.h>

#include <string_view>

#include "tandem/error.h"
#include "tandem/keras/layer.h"
#include "tandem/ops.h"

namespace tandem::keras {
namespace {

Regularizer named(std::string_view name) {
  if (name == "l1") return regularizers::l1();
  if (name == "l2") return regularizers::l2();
  if (name == "l1_l2") return regularizers::l1_l2();
  throw InvalidArgument(
      fmt::format("regularizer '{}' is not known; there are l1, l2, l1_l2", name));
}

double checked(const char* name, double factor) {
  if (factor >= 0) return factor;
  throw InvalidArgument(
      fmt::format("regularizers: {} is {}, a number from 0 on is needed", name, factor));
}

}  // namespace

Regularizer::Regularizer(const char* name) : Regularizer(named(name)) {}

namespace regularizers {

Regularizer l1(double factor) {
  checked("l1", factor);
  return Regularizer([factor](const Tensor& weight) { return reduce_sum(abs(weight)) * factor; });
}

Regularizer l2(double factor) {
  checked("l2", factor);
  return Regularizer(
      [factor](const Tensor& weight) { return reduce_sum(square(weight)) * factor; });
}

Regularizer l1_l2(double l1, double l2) {
  return Regularizer([first = regularizers::l1(l1), second = regularizers::l2(l2)](
                         const Tensor& weight) { return first(weight) + second(weight); });
}

}  // namespace regularizers
}  // namespace tandem::keras

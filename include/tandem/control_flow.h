/// Branches and loops that depend on values, as tf.cond and tf.while_loop. Inside a function they
/// become part of its program, which decides anew at each run; elsewhere the predicate is read and
/// the C++ functions are called.
///
///   Tensor y = tandem::cond(x > 0, [&] { return sqrt(x); }, [&] { return exp(x); });
///
/// Branches and bodies use tensors and variables from around them. A tensor made inside one leaves
/// it only as a result. Collectives cannot stand inside (replicas may decide differently):
/// FailedPrecondition when the function is traced.
#pragma once

#include <functional>
#include <limits>
#include <tuple>
#include <type_traits>

#include "tandem/structure.h"
#include "tandem/tensor.h"

namespace tandem {

namespace flow {

/// What a branch returned: its tensors, and a description of the rest.
using Branch = std::function<structure::Flat()>;

TANDEM_API Tensors cond(const Tensor& predicate, const Branch& then, const Branch& otherwise);

using Condition = std::function<Tensor(const Tensors&)>;
using Body = std::function<structure::Flat(const Tensors&)>;

TANDEM_API Tensors while_loop(const Condition& condition, const Body& body,
                              const structure::Flat& variables, int64_t maximum_iterations);

}  // namespace flow

/// The result of `then()` where the predicate, a bool scalar, is true, else that of `otherwise()`.
/// Both return structures of the same kind (structure.h), or nothing; tensors at the same place
/// have the same dtype and shape, else InvalidArgument. Gradients pass through the branch that was
/// taken. A branch may assign variables; then there is no gradient (Unimplemented), and replicas of
/// a strategy cannot run it.
template <class Then, class Otherwise>
auto cond(const Tensor& predicate, Then then, Otherwise otherwise) {
  using Result = std::invoke_result_t<Then>;
  static_assert(std::is_same_v<Result, std::invoke_result_t<Otherwise>>,
                "cond: both branches return the same type");
  if constexpr (std::is_void_v<Result>) {
    const auto silent = [](const auto& branch) {
      return [&branch] {
        branch();
        return structure::Flat();
      };
    };
    flow::cond(predicate, silent(then), silent(otherwise));
  } else {
    Result like{};
    const auto flat = [&like](const auto& branch) {
      return [&branch, &like] { return structure::flattened(like = branch()); };
    };
    const Tensors results = flow::cond(predicate, flat(then), flat(otherwise));
    return structure::rebuilt(like, results);
  }
}

struct WhileOptions {
  int64_t maximum_iterations = std::numeric_limits<int64_t>::max();
};

/// Calls `variables = body(variables)` while `condition(variables)`, a bool scalar, is true, and
/// returns them. Their dtypes and shapes stay the same from one iteration to the next, else
/// InvalidArgument. Gradients pass through its iterations, of which a function keeps as many as fit
/// into some memory and computes those between them again; a loop that assigns variables has none,
/// and in a function there is no second derivative (Unimplemented when a tape needs it).
template <class Variables, class Condition, class Body>
Variables while_loop(Condition condition, Body body, const Variables& variables,
                     const WhileOptions& options = {}) {
  const auto at = [&](const Tensors& tensors) { return structure::rebuilt(variables, tensors); };
  const Tensors results =
      flow::while_loop([&](const Tensors& now) -> Tensor { return condition(at(now)); },
                       [&](const Tensors& now) {
                         return structure::flattened(static_cast<Variables>(body(at(now))));
                       },
                       structure::flattened(variables), options.maximum_iterations);
  return at(results);
}

}  // namespace tandem

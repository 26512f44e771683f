/// How an optimizer changes variables, once their gradients are summed: on the replicas themselves,
/// or on parameter servers, each of which has some elements of them.
#pragma once

#include <memory>
#include <vector>

#include "distribute/range/gradient_sink.h"
#include "keras/optimizers/optimizer_body.h"

namespace tandem::keras::optimizers {

/// Variables of one dtype in one memory space, which one call updates, with their gradients and
/// slots; the first slot of each is its accumulator, where gradients accumulate. Variables that are
/// cut are not among whole ones: each replica updates its parts.
struct UpdateSet {
  Tensors gradients;
  Variables variables;
  std::vector<Variables> slots;

  bool takes(const Variable& variable) const;
  /// Into how many parts the variables are cut.
  int parts() const;
};

std::vector<UpdateSet> grouped(const Tensors& gradients, const Variables& variables,
                               const std::vector<Variables>& slots);

/// The same with the gradients of a replica summed over all, of variables whose slots are cut the
/// replica's part.
std::vector<UpdateSet> summed(const OptimizerDescription& described, Tensors gradients,
                              Variables variables, const std::vector<Variables>& slots);

struct UpdateScalars {
  Tensor rate;       ///< A float64 scalar.
  Tensor step;       ///< An int64 scalar: the number of steps before this one.
  Tensor condition;  ///< A boolean scalar: whether anything is to change.
};

/// Takes the mean with the gradients of former steps, clips, and calls the update op of the rule.
void update(const OptimizerDescription& described, const std::vector<UpdateSet>& sets,
            const Clipping& clipping, const UpdateScalars& scalars);

/// Brings variables to what their constraints make of them, where the condition holds.
void apply_constraints(const Variables& variables, const Tensor& condition);

/// Leaves the gradients to parameter servers: clipped by their norms where the worker has a batch
/// of its own; where workers share batches the servers clip the sums. Throws Unimplemented for
/// rules that need whole variables, and for norms of gradients that accumulate.
void push(const std::shared_ptr<OptimizerBody>& optimizer, const Tensors& gradients,
          const Variables& variables, const Tensor& condition, distribute::GradientSink& sink);

}  // namespace tandem::keras::optimizers

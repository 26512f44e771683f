#include "tandem/optimizers.h"

#include <fmt/format.h>

#include "collective/collective.h"
#include "ops/optimizer.h"
#include "tandem/error.h"

namespace tandem::keras::optimizers {
namespace {

void check(const Tensors& gradients, const Variables& variables) {
  if (gradients.size() != variables.size()) {
    throw InvalidArgument(fmt::format("apply_gradients: {} gradients for {} variables",
                                      gradients.size(), variables.size()));
  }
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) {
      throw InvalidArgument(
          fmt::format("apply_gradients: variable '{}' has no gradient; the loss does not depend on "
                      "it, leave it out",
                      variables[i].name()));
    }
    if (gradients[i].shape() != variables[i].shape() ||
        gradients[i].dtype() != variables[i].dtype()) {
      throw InvalidArgument(fmt::format("apply_gradients: variable '{}' is {}{}, its gradient {}{}",
                                        variables[i].name(), name_of(variables[i].dtype()),
                                        variables[i].shape().str(), name_of(gradients[i].dtype()),
                                        gradients[i].shape().str()));
    }
  }
}

}  // namespace

Adam::Adam(double learning_rate, const AdamOptions& options)
    : options_(options),
      iterations_(Tensor(int64_t{0}), {.name = "adam/iterations",
                                       .trainable = false,
                                       .aggregation = VariableAggregation::only_first_replica}),
      learning_rate_(Tensor(learning_rate), {.name = "adam/learning_rate", .trainable = false}) {}

void Adam::apply_gradients(const Tensors& gradients, const Variables& variables) const {
  check(gradients, variables);
  ops::adam_update(collective::all_reduce(gradients), variables, iterations_, learning_rate_,
                   {options_.beta_1, options_.beta_2, options_.epsilon});
  iterations_.assign_add(Tensor(int64_t{1}));
}

}  // namespace tandem::keras::optimizers

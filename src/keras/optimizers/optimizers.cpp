#include "tandem/keras/optimizers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "keras/optimizers/optimizer_body.h"
#include "tandem/error.h"

namespace tandem::keras::optimizers {
namespace {

using Groups = TrackedSlots::Groups;
using Slot = TrackedSlots::Slot;

const Slot kMomentum = {"momentum", "_momentums"};
const Slot kVelocity = {"velocity", "_velocities"};

template <class Options>
int64_t steps_together(const Options& options, const char* name) {
  const int64_t steps = options.gradient_accumulation_steps.value_or(2);
  if (steps < 2) {
    throw InvalidArgument(
        fmt::format("{}: gradient_accumulation_steps is {}, must be >= 2", name, steps));
  }
  return options.gradient_accumulation_steps ? steps : 1;
}

/// The attributes of `op` are its own and what all have.
template <class Options>
OptimizerDescription described(const char* name, const char* op, const op::Attrs& own,
                               std::optional<double> weight_decay, Groups slots,
                               const Options& options) {
  const Clipping clipping{options.clipnorm, options.clipvalue, options.global_clipnorm};
  check(clipping, name);
  const int64_t every = steps_together(options, name);
  const op::Attrs attrs = own.with("weight_decay", weight_decay.value_or(0.0)).with("every", every);
  return {.name = name,
          .rule = {op, attrs},
          .slots = std::move(slots),
          .clipping = clipping,
          .every = every};
}

void check_momentum(const char* name, double momentum) {
  if (momentum >= 0 && momentum <= 1) return;
  throw InvalidArgument(fmt::format("{}: momentum is {}, must be in [0, 1]", name, momentum));
}

OptimizerDescription sgd(const SGDOptions& o) {
  check_momentum("sgd", o.momentum);
  Groups slots;
  if (o.momentum != 0) slots.push_back({Slot{"momentum", "momentums"}});
  return described("sgd", "sgd_update", {{"momentum", o.momentum}, {"nesterov", o.nesterov}},
                   o.weight_decay, std::move(slots), o);
}

OptimizerDescription rmsprop(const RMSpropOptions& o) {
  check_momentum("rmsprop", o.momentum);
  Groups slots = {{kVelocity}};
  if (o.momentum != 0) slots.push_back({kMomentum});
  if (o.centered) slots.push_back({Slot{"average_gradient", "_average_gradients"}});
  return described(
      "rmsprop", "rmsprop_update",
      {{"rho", o.rho}, {"momentum", o.momentum}, {"epsilon", o.epsilon}, {"centered", o.centered}},
      o.weight_decay, std::move(slots), o);
}

OptimizerDescription adagrad(const AdagradOptions& o) {
  return described("adagrad", "adagrad_update", {{"epsilon", o.epsilon}}, o.weight_decay,
                   {{Slot{"accumulator", "_accumulators", o.initial_accumulator_value}}}, o);
}

template <class Options>
OptimizerDescription adam(const char* name, const Options& o) {
  Groups slots = {{kMomentum, kVelocity}};
  if (o.amsgrad) slots.push_back({Slot{"velocity_hat", "_velocity_hats"}});
  return described(
      name, "adam_update",
      {{"beta_1", o.beta_1}, {"beta_2", o.beta_2}, {"epsilon", o.epsilon}, {"amsgrad", o.amsgrad}},
      o.weight_decay, std::move(slots), o);
}

OptimizerDescription composed(const OptimizerRule& rule, const CustomOptions& o) {
  if (rule.update == nullptr) {
    throw InvalidArgument(fmt::format("{}: an optimizer's rule needs an update", rule.name));
  }
  const Clipping clipping{o.clipnorm, o.clipvalue, o.global_clipnorm};
  check(clipping, rule.name.c_str());
  std::vector<Slot> slots;
  for (const OptimizerSlot& slot : rule.slots) {
    slots.push_back({slot.name, fmt::format("_{}s", slot.name), slot.initial});
  }
  return {.name = rule.name,
          .rule = {},
          .slots = slots.empty() ? Groups() : Groups{slots},
          .clipping = clipping,
          .every = steps_together(o, rule.name.c_str()),
          .composed = rule.update,
          .weight_decay = o.weight_decay.value_or(0.0)};
}

Optimizer named(const std::string& identifier) {
  static const std::map<std::string, Optimizer (*)()> makers = {
      {"adagrad", []() -> Optimizer { return Adagrad(); }},
      {"adam", []() -> Optimizer { return Adam(); }},
      {"adamw", []() -> Optimizer { return AdamW(); }},
      {"rmsprop", []() -> Optimizer { return RMSprop(); }},
      {"sgd", []() -> Optimizer { return SGD(); }}};
  std::string lower = identifier;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (const auto maker = makers.find(lower); maker != makers.end()) return maker->second();
  std::vector<std::string> names;
  names.reserve(makers.size());
  for (const auto& [name, maker] : makers) names.push_back(name);
  throw InvalidArgument(
      fmt::format("optimizer: '{}' is unknown; there are {}", identifier, fmt::join(names, ", ")));
}

}  // namespace

Optimizer::Optimizer(const std::string& identifier) : Optimizer(named(identifier)) {}
Optimizer::Optimizer(const char* identifier) : Optimizer(std::string(identifier)) {}

SGD::SGD(const LearningRate& learning_rate, const SGDOptions& options)
    : Optimizer(learning_rate, sgd(options)) {}

RMSprop::RMSprop(const LearningRate& learning_rate, const RMSpropOptions& options)
    : Optimizer(learning_rate, rmsprop(options)) {}

Adagrad::Adagrad(const LearningRate& learning_rate, const AdagradOptions& options)
    : Optimizer(learning_rate, adagrad(options)) {}

Adam::Adam(const LearningRate& learning_rate, const AdamOptions& options)
    : Optimizer(learning_rate, adam("adam", options)) {}

AdamW::AdamW(const LearningRate& learning_rate, const AdamWOptions& options)
    : Optimizer(learning_rate, adam("adamw", options)) {}

Custom::Custom(const LearningRate& learning_rate, const OptimizerRule& rule,
               const CustomOptions& options)
    : Optimizer(learning_rate, composed(rule, options)) {}

}  // namespace tandem::keras::optimizers

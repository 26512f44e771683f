#include "kernels/update_rules.h"

#include <fmt/format.h>

#include "tandem/error.h"

namespace tandem::kernels {
namespace {

Algorithm sgd_of(const op::Attrs& attrs) {
  const auto momentum = attrs.get<double>("momentum");
  const Rule moving = attrs.get<bool>("nesterov") ? Rule::nesterov : Rule::momentum;
  return {.rule = momentum == 0 ? Rule::sgd : moving,
          .weight_decay = attrs.get<double>("weight_decay"),
          .constants = {.momentum = momentum}};
}

Algorithm rmsprop_of(const op::Attrs& attrs) {
  const auto rho = attrs.get<double>("rho");
  const auto momentum = attrs.get<double>("momentum");
  const Rule plain = momentum == 0 ? Rule::rmsprop : Rule::rmsprop_momentum;
  const Rule centered = momentum == 0 ? Rule::rmsprop_centered : Rule::rmsprop_centered_momentum;
  return {.rule = attrs.get<bool>("centered") ? centered : plain,
          .weight_decay = attrs.get<double>("weight_decay"),
          .constants = {.momentum = momentum,
                        .to_g = 1 - rho,
                        .to_g2 = 1 - rho,
                        .epsilon = attrs.get<double>("epsilon")}};
}

Algorithm adagrad_of(const op::Attrs& attrs) {
  return {.rule = Rule::adagrad,
          .weight_decay = attrs.get<double>("weight_decay"),
          .constants = {.epsilon = attrs.get<double>("epsilon")}};
}

Algorithm adam_of(const op::Attrs& attrs) {
  const auto beta_1 = attrs.get<double>("beta_1");
  const auto beta_2 = attrs.get<double>("beta_2");
  return {.rule = attrs.get<bool>("amsgrad") ? Rule::amsgrad : Rule::adam,
          .weight_decay = attrs.get<double>("weight_decay"),
          .constants = {.to_g = 1 - beta_1,
                        .to_g2 = 1 - beta_2,
                        .epsilon = attrs.get<double>("epsilon")},
          .corrects_bias = true,
          .beta_1 = beta_1,
          .beta_2 = beta_2};
}

}  // namespace

UpdateScalars Algorithm::scalars(double rate, double t) const {
  UpdateScalars scalars = constants;
  scalars.rate = corrects_bias ? adam_rate(1.0, rate, t, beta_1, beta_2) : rate;
  scalars.decay = rate * weight_decay;
  return scalars;
}

Algorithm algorithm_of(std::string_view op, const op::Attrs& attrs) {
  if (op == "sgd_update") return sgd_of(attrs);
  if (op == "rmsprop_update") return rmsprop_of(attrs);
  if (op == "adagrad_update") return adagrad_of(attrs);
  if (op == "adam_update") return adam_of(attrs);
  if (op == "accumulate_update") return {.rule = Rule::clear, .adds_meanwhile = true};
  throw NotFound(fmt::format("{}: no such update", op));
}

}  // namespace tandem::kernels

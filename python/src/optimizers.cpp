// The library's optimizers, whose updates are one fused kernel over all variables.
#include "binding.h"

namespace tandem::python {
namespace {

using namespace keras::optimizers;

/// A number, or a function of the step that Python wrote.
LearningRate to_rate(nb::handle rate) {
  if (PyCallable_Check(rate.ptr()) == 0) return nb::cast<double>(nb::float_(rate));
  const Callable callable(nb::borrow<nb::object>(rate));
  return schedules::LearningRateSchedule([callable](const Tensor& step) {
    return callable.call([&](const nb::object& f) { return to_tensor(f(from_tensor(step))); });
  });
}

/// Fills in what all optimizers have.
template <class Options>
Options common(const nb::dict& given) {
  Options options;
  const auto take = [&](const char* name, auto& field) {
    if (!given.contains(name) || given[name].is_none()) return;
    field = nb::cast<typename std::remove_cvref_t<decltype(field)>::value_type>(
        nb::object(given[name]));
  };
  if constexpr (std::is_same_v<decltype(options.weight_decay), std::optional<double>>) {
    take("weight_decay", options.weight_decay);
  }
  take("clipnorm", options.clipnorm);
  take("clipvalue", options.clipvalue);
  take("global_clipnorm", options.global_clipnorm);
  take("gradient_accumulation_steps", options.gradient_accumulation_steps);
  return options;
}

}  // namespace

void bind_optimizers(nb::module_& m) {
  nb::class_<Optimizer, Trackable>(m, "Optimizer")
      .def(
          "apply_gradients",
          [](const Optimizer& self, nb::handle gradients, nb::handle variables,
             nb::handle condition) {
            const Tensors g = to_tensors(gradients);
            const Variables v = to_variables(variables);
            const Tensor when = condition.is_none() ? Tensor() : to_tensor(condition);
            unlocked([&] { self.apply_gradients(g, v, when); });
          },
          "gradients"_a, "variables"_a, "condition"_a.none() = nb::none())
      .def("build",
           [](const Optimizer& self, nb::handle variables) {
             const Variables v = to_variables(variables);
             unlocked([&] { self.build(v); });
           })
      .def_prop_ro("iterations", &Optimizer::iterations)
      .def_prop_ro("learning_rate", &Optimizer::learning_rate)
      .def("current_learning_rate",
           [](const Optimizer& self) {
             return unlocked([&] { return self.current_learning_rate(); });
           })
      .def("variables", &Optimizer::variables);
  m.def("sgd", [](nb::handle rate, double momentum, bool nesterov, const nb::dict& others) {
    auto options = common<SGDOptions>(others);
    options.momentum = momentum;
    options.nesterov = nesterov;
    return Optimizer(SGD(to_rate(rate), options));
  });
  m.def("rmsprop", [](nb::handle rate, double rho, double momentum, double epsilon, bool centered,
                      const nb::dict& others) {
    auto options = common<RMSpropOptions>(others);
    options.rho = rho;
    options.momentum = momentum;
    options.epsilon = epsilon;
    options.centered = centered;
    return Optimizer(RMSprop(to_rate(rate), options));
  });
  m.def("adagrad", [](nb::handle rate, double initial, double epsilon, const nb::dict& others) {
    auto options = common<AdagradOptions>(others);
    options.initial_accumulator_value = initial;
    options.epsilon = epsilon;
    return Optimizer(Adagrad(to_rate(rate), options));
  });
  m.def("adam", [](nb::handle rate, double beta_1, double beta_2, double epsilon, bool amsgrad,
                   const nb::dict& others) {
    auto options = common<AdamOptions>(others);
    options.beta_1 = beta_1;
    options.beta_2 = beta_2;
    options.epsilon = epsilon;
    options.amsgrad = amsgrad;
    return Optimizer(Adam(to_rate(rate), options));
  });
  m.def("adamw", [](nb::handle rate, double decay, double beta_1, double beta_2, double epsilon,
                    bool amsgrad, const nb::dict& others) {
    auto options = common<AdamWOptions>(others);
    options.weight_decay = decay;
    options.beta_1 = beta_1;
    options.beta_2 = beta_2;
    options.epsilon = epsilon;
    options.amsgrad = amsgrad;
    return Optimizer(AdamW(to_rate(rate), options));
  });
}

}  // namespace tandem::python

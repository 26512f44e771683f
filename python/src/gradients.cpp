// Gradient tapes, and functions with a gradient of their own.
#include "binding.h"

namespace tandem::python {
namespace {

/// A tape that records inside of a `with` block only, as TensorFlow's.
class Tape {
 public:
  explicit Tape(bool persistent, bool watch_accessed_variables)
      : tape_(
            GradientTapeOptions{persistent, watch_accessed_variables, /*records_gradients=*/true}) {
    pause();
  }
  ~Tape() {
    // Where the tape is let go on another thread than its own it is no longer in that thread's
    // list.
    pause_.reset();
  }

  void resume() { pause_.reset(); }
  void pause() { pause_.reset(new Holder(tape_)); }
  bool is_recording() const { return pause_ == nullptr; }
  GradientTape& tape() { return tape_; }

 private:
  struct Holder {
    explicit Holder(GradientTape& tape) : pause(tape.stop_recording()) {}
    GradientTape::Pause pause;
  };
  GradientTape tape_;
  std::unique_ptr<Holder> pause_;
};

GradientOptions options_of(bool zero, nb::handle output_gradients) {
  GradientOptions options;
  options.unconnected = zero ? UnconnectedGradients::zero : UnconnectedGradients::none;
  if (output_gradients.is_none()) return options;
  for (nb::handle each : nb::borrow<nb::object>(output_gradients)) {
    options.output_gradients.push_back(each.is_none() ? Tensor() : to_tensor(each));
  }
  return options;
}

}  // namespace

void bind_gradients(nb::module_& m) {
  nb::class_<Tape>(m, "Tape")
      .def(nb::init<bool, bool>(), "persistent"_a = false, "watch_accessed_variables"_a = true)
      .def("resume", &Tape::resume)
      .def("pause", &Tape::pause)
      .def_prop_ro("is_recording", &Tape::is_recording)
      .def("watch",
           [](Tape& self, nb::handle value) {
             if (is_variable(value)) {
               self.tape().watch(*nb::inst_ptr<Variable>(value));
             } else {
               self.tape().watch(to_tensor(value));
             }
           })
      .def("reset", [](Tape& self) { self.tape().reset(); })
      .def("watched_variables", [](Tape& self) { return self.tape().watched_variables(); })
      .def(
          "gradient_of_variables",
          [](Tape& self, nb::handle targets, nb::handle sources, bool zero, nb::handle outputs) {
            const Tensors from = to_tensors(targets);
            const Variables to = to_variables(sources);
            const GradientOptions options = options_of(zero, outputs);
            return from_tensors(unlocked([&] { return self.tape().gradient(from, to, options); }));
          },
          "targets"_a, "sources"_a, "zero"_a, "output_gradients"_a.none())
      .def(
          "gradient_of_tensors",
          [](Tape& self, nb::handle targets, nb::handle sources, bool zero, nb::handle outputs) {
            const Tensors from = to_tensors(targets);
            const Tensors to = to_tensors(sources);
            const GradientOptions options = options_of(zero, outputs);
            return from_tensors(unlocked([&] { return self.tape().gradient(from, to, options); }));
          },
          "targets"_a, "sources"_a, "zero"_a, "output_gradients"_a.none());

  // `f(inputs)` returns the values and a function from their gradients to those of the inputs.
  m.def("call_with_gradient", [](nb::object f, nb::handle inputs) {
    const Callable callable(std::move(f));
    const auto custom = [callable](const Tensors& given) {
      return callable.call([&](const nb::object& function) {
        const nb::object result = function(from_tensors(given));
        const Callable backward{nb::object(result[1])};
        return CustomGradients{
            to_tensors(result[0]), [backward](const Tensors& output_gradients) {
              return backward.call([&](const nb::object& gradient) {
                Tensors gradients;
                const nb::object list = gradient(from_tensors(output_gradients));
                for (nb::handle each : list) {
                  gradients.push_back(each.is_none() ? Tensor() : to_tensor(each));
                }
                return gradients;
              });
            }};
      });
    };
    const Tensors given = to_tensors(inputs);
    return from_tensors(unlocked([&] { return call_with_gradient(custom, given); }));
  });
}

}  // namespace tandem::python

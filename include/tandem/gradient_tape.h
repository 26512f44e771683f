/// A GradientTape records the operations of its thread from its construction until gradient() is
/// called, and gives the derivatives of what they computed. It works alike in eager code and inside
/// traced functions, and tapes nest: an inner tape's gradients are recorded by the outer ones.
///
///   GradientTape tape;
///   Tensor loss = ...;
///   Tensors gradients = tape.gradient(loss, variables);
#pragma once

#include <functional>
#include <memory>

#include "tandem/tensor.h"
#include "tandem/variable.h"

namespace tandem {

struct GradientTapeOptions {
  bool persistent = false;  ///< gradient() may be called more than once.
  bool watch_accessed_variables = true;
  /// What gradient() computes while a persistent tape records is recorded, so that the tape gives
  /// derivatives of it, too.
  bool records_gradients = false;
};

/// What the gradient by a source is that the target does not depend on.
enum class UnconnectedGradients {
  none,  ///< An undefined Tensor.
  zero,
};

struct GradientOptions {
  UnconnectedGradients unconnected = UnconnectedGradients::none;
  Tensors
      output_gradients{};  ///< One for each target, of its shape; ones where undefined or left out.
};

/// A tape is used and destroyed on the thread that made it.
class TANDEM_API GradientTape {
 public:
  explicit GradientTape(const GradientTapeOptions& options = {});
  ~GradientTape();
  GradientTape(const GradientTape&) = delete;
  GradientTape& operator=(const GradientTape&) = delete;

  /// Treats `tensor` as an input whose derivative will be asked for. Trainable variables need no
  /// watching.
  void watch(const Tensor& tensor);
  void watch(const Variable& variable);

  /// The derivative of the sum of `target` by each source, in the order of the sources. A tape that
  /// is not persistent is spent afterwards: a second call is FailedPrecondition. Throws
  /// InvalidArgument for dtypes that have no derivatives and for output gradients that do not fit
  /// the targets.
  Tensors gradient(const Tensor& target, const Variables& sources,
                   const GradientOptions& options = {});
  Tensors gradient(const Tensor& target, const Tensors& sources,
                   const GradientOptions& options = {});
  Tensor gradient(const Tensor& target, const Variable& source,
                  const GradientOptions& options = {});
  Tensor gradient(const Tensor& target, const Tensor& source, const GradientOptions& options = {});

  /// The derivatives of the sum of all targets.
  Tensors gradient(const Tensors& targets, const Variables& sources,
                   const GradientOptions& options = {});
  Tensors gradient(const Tensors& targets, const Tensors& sources,
                   const GradientOptions& options = {});

  /// While the returned object lives, the tape does not record.
  class TANDEM_API Pause {
   public:
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    friend class GradientTape;
    explicit Pause(GradientTape& tape);
    GradientTape& tape_;
  };
  [[nodiscard]] Pause stop_recording();

  /// Forgets everything recorded and watched; the tape records from here on.
  void reset();

  /// Variables that were watched or read while recording, each once.
  Variables watched_variables() const;

 private:
  class Body;
  std::unique_ptr<Body> body_;
};

// ---- Functions with a gradient of their own ----

/// Values, and the gradients of the inputs as a function of the values' gradients.
struct CustomGradients {
  Tensors values;
  std::function<Tensors(const Tensors& output_gradients)> gradient;
  /// Takes the place of `gradient` where the function has read trainable variables: the gradients
  /// of the inputs, then those of these variables.
  std::function<Tensors(const Tensors& output_gradients, const Variables& variables)>
      gradient_with_variables = {};
};

/// Calls `f` and makes tapes use its gradient instead of what `f` did. The gradient function
/// is called when a tape goes backward and is itself recorded by outer tapes; it returns one tensor
/// for each input, undefined ones for zero. A trainable variable read inside `f` under a tape is
/// InvalidArgument without gradient_with_variables, since its gradient would be lost: pass its
/// value as an input.
TANDEM_API Tensors call_with_gradient(const std::function<CustomGradients(const Tensors&)>& f,
                                      const Tensors& inputs);

/// The same for one value.
struct CustomGradient {
  Tensor value;
  std::function<Tensors(const Tensor& output_gradient)> gradient;
};

/// A function of tensors with a gradient of its own, as tf.custom_gradient:
///
///   auto log1pexp = tandem::custom_gradient([](const Tensor& x) {
///     const Tensor e = exp(x);
///     return CustomGradient{log(e + 1), [e](const Tensor& g) { return Tensors{g * (1 - 1 / (e +
///     1))}; }};
///   });
template <class F>
auto custom_gradient(F f) {
  return [f = std::move(f)]<class... Args>(const Args&... args) -> Tensor {
    const auto flat = [&f](const Tensors& inputs) {
      return [&]<size_t... I>(std::index_sequence<I...>) {
        CustomGradient one = f(inputs[I]...);
        return CustomGradients{
            {std::move(one.value)},
            [gradient = std::move(one.gradient)](const Tensors& g) { return gradient(g[0]); }};
      }
      (std::index_sequence_for<Args...>());
    };
    return call_with_gradient(flat, {Tensor(args)...})[0];
  };
}

}  // namespace tandem

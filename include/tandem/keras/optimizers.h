/// Optimizers change variables along gradients. Create them where the variables are created (the
/// same device or strategy scope): their own state lives beside the variables, and checkpoints hold
/// it under Keras's names. Names, defaults and arithmetic are Keras's.
///
///   keras::optimizers::SGD sgd(0.1, {.momentum = 0.9, .nesterov = true, .clipnorm = 1.0});
///   sgd.apply_gradients(tape.gradient(loss, variables), variables);
///
/// Applying gradients to the same variables from several threads at once is the caller's to order.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tandem/keras/schedules.h"
#include "tandem/trackable.h"
#include "tandem/variable.h"

namespace tandem::keras::optimizers {

/// A number, or a schedule.
class LearningRate {
 public:
  LearningRate(double rate) : rate_(rate) {}              // NOLINT(google-explicit-constructor)
  LearningRate(schedules::LearningRateSchedule schedule)  // NOLINT(google-explicit-constructor)
      : rate_(std::move(schedule)) {}

  const std::variant<double, schedules::LearningRateSchedule>& value() const { return rate_; }

 private:
  std::variant<double, schedules::LearningRateSchedule> rate_;
};

struct OptimizerBody;
struct OptimizerDescription;

/// The handle is cheap, and copies are the same optimizer.
class TANDEM_API Optimizer : public Trackable {
 public:
  /// `identifier` is Keras's name, in any case, with its defaults: "adagrad", "adam", "adamw",
  /// "rmsprop", "sgd". Throws InvalidArgument for another, listing these.
  Optimizer(const std::string& identifier);  // NOLINT(google-explicit-constructor)
  Optimizer(const char* identifier);         // NOLINT(google-explicit-constructor)

  /// One step. Inside `strategy.run` the gradients are summed over the replicas first, so that all
  /// replicas apply the gradient of the sum of their losses; then they are accumulated, clipped and
  /// applied. No gradients for no variables are no step. With a `condition`, a boolean scalar that
  /// is the same on all replicas, nothing changes where it is false, iterations() included. Throws
  /// InvalidArgument when the lists differ in length, a variable is there twice, a gradient is
  /// undefined, or its shape is not its variable's.
  void apply_gradients(const Tensors& gradients, const Variables& variables,
                       const Tensor& condition = {}) const;

  /// Makes the state of these variables now, which their first step does otherwise: so that a
  /// checkpoint which is restored has an object for each of its values.
  void build(const Variables& variables) const;

  /// What the optimizer is called: "adam".
  const std::string& name() const;
  /// Steps taken, int64. While gradients accumulate each call is a step, and schedules see it.
  const Variable& iterations() const;
  /// The rate, a float64; assign to it to change the rate. Throws FailedPrecondition where a
  /// schedule sets it.
  const Variable& learning_rate() const;
  /// What the next step takes: the variable's value or the schedule's, a float64 scalar.
  Tensor current_learning_rate() const;
  /// The state: iterations, the rate unless it has a schedule, and the slots of the variables seen
  /// so far, as Keras orders them.
  Variables variables() const;

 protected:
  Optimizer(const LearningRate& learning_rate, const OptimizerDescription& description);

 private:
  std::shared_ptr<OptimizerBody> body_;
};

/// All optimizers have in common:
///   weight_decay      each weight loses rate * weight_decay of itself before the update
///   clipnorm          each gradient is shortened to this norm
///   clipvalue         each element is limited to [-clipvalue, clipvalue]
///   global_clipnorm   all gradients are scaled alike, so that their joint norm is at most this
///   gradient_accumulation_steps   the mean of so many calls' gradients is applied with the last
/// Throws InvalidArgument for several clips at once, a clip that is not positive, or fewer than 2
/// steps to accumulate.

struct SGDOptions {
  double momentum = 0;
  bool nesterov = false;
  std::optional<double> weight_decay{};
  std::optional<double> clipnorm{};
  std::optional<double> clipvalue{};
  std::optional<double> global_clipnorm{};
  std::optional<int64_t> gradient_accumulation_steps{};
};

/// Gradient descent, with momentum where it is not 0.
class TANDEM_API SGD : public Optimizer {
 public:
  explicit SGD(const LearningRate& learning_rate = 0.01, const SGDOptions& options = {});
};

struct RMSpropOptions {
  double rho = 0.9;
  double momentum = 0;
  double epsilon = 1e-7;
  bool centered = false;
  std::optional<double> weight_decay{};
  std::optional<double> clipnorm{};
  std::optional<double> clipvalue{};
  std::optional<double> global_clipnorm{};
  std::optional<int64_t> gradient_accumulation_steps{};
};

/// RMSprop (Hinton, 2012).
class TANDEM_API RMSprop : public Optimizer {
 public:
  explicit RMSprop(const LearningRate& learning_rate = 0.001, const RMSpropOptions& options = {});
};

struct AdagradOptions {
  double initial_accumulator_value = 0.1;
  double epsilon = 1e-7;
  std::optional<double> weight_decay{};
  std::optional<double> clipnorm{};
  std::optional<double> clipvalue{};
  std::optional<double> global_clipnorm{};
  std::optional<int64_t> gradient_accumulation_steps{};
};

/// Adagrad (Duchi, Hazan and Singer, 2011).
class TANDEM_API Adagrad : public Optimizer {
 public:
  explicit Adagrad(const LearningRate& learning_rate = 0.001, const AdagradOptions& options = {});
};

struct AdamOptions {
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
  std::optional<double> weight_decay{};
  std::optional<double> clipnorm{};
  std::optional<double> clipvalue{};
  std::optional<double> global_clipnorm{};
  std::optional<int64_t> gradient_accumulation_steps{};
};

/// Adam (Kingma and Ba, 2014).
class TANDEM_API Adam : public Optimizer {
 public:
  explicit Adam(const LearningRate& learning_rate = 0.001, const AdamOptions& options = {});
};

struct AdamWOptions {
  double weight_decay = 0.004;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
  std::optional<double> clipnorm{};
  std::optional<double> clipvalue{};
  std::optional<double> global_clipnorm{};
  std::optional<int64_t> gradient_accumulation_steps{};
};

/// Adam with decoupled weight decay (Loshchilov and Hutter, 2017).
class TANDEM_API AdamW : public Optimizer {
 public:
  explicit AdamW(const LearningRate& learning_rate = 0.001, const AdamWOptions& options = {});
};

// ---- Optimizers of one's own ----

/// A variable in one step of an optimizer. The scalars have the variable's dtype.
struct VariableStep {
  Tensor value;     ///< The variable now, less its decay.
  Tensor gradient;  ///< Summed over the replicas, and clipped.
  Tensors slots;    ///< Its slots now, in the order of the rule.
  Tensor rate;      ///< The learning rate.
  Tensor number;    ///< The number of this update, from 1 on.
};

/// What they become: tensors of the same shapes and dtypes.
struct VariableUpdate {
  Tensor value;
  Tensors slots{};
};

/// A value that an optimizer keeps for each variable, of the variable's shape.
struct OptimizerSlot {
  std::string name;    ///< "momentum". Checkpoints have a list of them, "_momentums".
  double initial = 0;  ///< The first value of each element.
};

/// What an optimizer does to one variable, written with ops: no value may be read in it.
struct OptimizerRule {
  std::string name = "optimizer";
  std::vector<OptimizerSlot> slots{};
  std::function<VariableUpdate(const VariableStep&)> update{};
};

struct CustomOptions {
  std::optional<double> weight_decay{};
  std::optional<double> clipnorm{};
  std::optional<double> clipvalue{};
  std::optional<double> global_clipnorm{};
  std::optional<int64_t> gradient_accumulation_steps{};
};

/// An optimizer of one's own: its rule is composed of ops where the others above have a fused
/// kernel, and it has all else that they have.
///
///   const optimizers::Custom sign(0.01, {.name = "sign", .update = [](const auto& at) {
///     return optimizers::VariableUpdate{at.value - at.rate * tandem::sign(at.gradient)};
///   }});
///
/// Throws InvalidArgument for a rule without an update; a step throws it for an update that does
/// not fit. Under a ParameterServerStrategy, whose servers have parts of variables, a step is
/// Unimplemented.
class TANDEM_API Custom : public Optimizer {
 public:
  Custom(const LearningRate& learning_rate, const OptimizerRule& rule,
         const CustomOptions& options = {});
};

}  // namespace tandem::keras::optimizers

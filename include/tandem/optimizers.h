/// Optimizers change variables along gradients. Create them where the variables are created (the
/// same device or strategy scope): their own state lives beside the variables, and checkpoints hold
/// it under Keras's names.
#pragma once

#include <memory>
#include <string>

#include "tandem/trackable.h"
#include "tandem/variable.h"

namespace tandem::keras::optimizers {

class TrackedSlots;

struct AdamOptions {
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
};

struct AdamWOptions {
  double weight_decay = 0.004;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
};

/// Adam (Kingma and Ba, 2014), with Keras's defaults and arithmetic.
class TANDEM_API Adam : public Trackable {
 public:
  explicit Adam(double learning_rate = 0.001, const AdamOptions& options = {});

  /// One step. Inside `strategy.run` the gradients are summed over the replicas first, so that all
  /// replicas apply the gradient of the sum of their losses. Throws InvalidArgument when the lists
  /// differ in length, a gradient is undefined, or its shape is not its variable's.
  void apply_gradients(const Tensors& gradients, const Variables& variables) const;

  /// Steps taken, int64.
  const Variable& iterations() const { return iterations_; }
  /// float64; assign to it to change the rate.
  const Variable& learning_rate() const { return learning_rate_; }

 protected:
  /// With weights that also shrink by `learning_rate * weight_decay` of their size in each step.
  Adam(const std::string& name, double learning_rate, const AdamOptions& options,
       double weight_decay);

 private:
  AdamOptions options_;
  double weight_decay_;
  Variable iterations_;
  Variable learning_rate_;
  std::shared_ptr<TrackedSlots> slots_;
};

/// Adam with decoupled weight decay (Loshchilov and Hutter, 2017), with Keras's defaults and
/// arithmetic: each weight loses `learning_rate * weight_decay` of its size before the update.
class TANDEM_API AdamW : public Adam {
 public:
  explicit AdamW(double learning_rate = 0.001, const AdamWOptions& options = {});
};

}  // namespace tandem::keras::optimizers

/// Where an optimizer's gradients go while a step for parameter servers is traced: not to an
/// update, but out of the step, since servers make the update. What the servers need for it, the
/// optimizer leaves here.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tandem/variable.h"

namespace tandem::distribute {

/// What an optimizer does with gradients, on a server that has some elements of the variables. It
/// is traced once for each server.
class ServerUpdate {
 public:
  virtual ~ServerUpdate();

  struct Operands {
    Tensors gradients{};    ///< They have one axis: the elements that the server has.
    Variables variables{};  ///< For each gradient the whole variable,
    /// and `count` elements of it, or of a slot of it, that the gradient is for.
    std::function<Variable(size_t gradient, const Variable& whole, int64_t count)> elements{};
    Tensor step{};        ///< An int64 scalar: how many updates were made before.
    Tensor scale{};       ///< A float64 scalar that the rate is multiplied with.
    Tensor condition{};   ///< A boolean scalar: whether anything is to change.
    bool counts = false;  ///< Whether this server counts the optimizer's iterations.
  };
  virtual void apply(const Operands& operands) const = 0;

  /// Whether gradients of several steps are added up before one update.
  virtual bool accumulates() const = 0;

  /// How many updates the optimizer has counted so far.
  virtual int64_t steps() const = 0;
};

/// The norms that gradients are clipped to once those of all workers are summed. No server has all
/// of them: each tells the squares of its own, and hears those of all.
struct NormLimits {
  std::optional<double> each{};  ///< The limit of each gradient.
  std::optional<double> all{};   ///< The limit of all together.

  bool is_any() const { return each || all; }
};

/// The gradients of one call of apply_gradients.
struct PushedGradients {
  std::shared_ptr<const ServerUpdate> update;
  Tensors gradients;  ///< Whole, or the rows of a variable that have one:
  Tensors rows;       ///< then their numbers, [n], which may repeat; else undefined.
  Variables variables;
  Tensor condition;  ///< A boolean scalar.
  NormLimits limits{};
};

class GradientSink {
 public:
  /// `shares` workers share each batch.
  explicit GradientSink(int shares) : shares_(shares) {}

  /// The sink of the step that this thread traces, or null.
  static GradientSink* current();

  int shares() const { return shares_; }
  void take(PushedGradients pushed) { pushed_.push_back(std::move(pushed)); }
  const std::vector<PushedGradients>& pushed() const { return pushed_; }

  /// While it lives, the sink is this thread's.
  class Scope {
   public:
    explicit Scope(GradientSink& sink);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    GradientSink* const former_;
  };

 private:
  const int shares_;
  std::vector<PushedGradients> pushed_;
};

/// `count` elements of a variable from `begin` on, as a variable of one axis in the same memory.
Variable elements_of(const Variable& variable, int64_t begin, int64_t count);

}  // namespace tandem::distribute

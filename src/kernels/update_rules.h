/// What the update ops do, apart from how a device does it; see ops/optimizer.h for the formulas.
/// Rules are functions of vectors in kernels/cpu/optimizer.cpp, which also prints them.
#pragma once

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/text.h"
#include "op/attrs.h"

namespace tandem::kernels {

/// What is done to one element.
enum class Rule {
  sgd,
  momentum,
  nesterov,
  rmsprop,
  rmsprop_momentum,
  rmsprop_centered,
  rmsprop_centered_momentum,
  adagrad,
  adam,
  amsgrad,
  add,
  clear,
};

/// The numbers of one step.
struct UpdateScalars {
  double rate = 0;      ///< Adam's alpha.
  double decay = 0;     ///< The part of itself that a weight loses.
  double momentum = 0;  ///< The part of the last change that is made again.
  double to_g = 0;      ///< The part of the way that averages of g go towards it,
  double to_g2 = 0;     ///< and those of its square.
  double epsilon = 0;
};

/// An update op: what it does in each `every`-th step and in the others, if anything.
struct Algorithm {
  Rule rule;
  bool adds_meanwhile = false;
  double weight_decay = 0;
  UpdateScalars constants{};   ///< All but rate and decay.
  bool corrects_bias = false;  ///< The rate is adam_rate().
  double beta_1 = 0;
  double beta_2 = 0;

  /// From the rate and the number of the update, from 1 on.
  UpdateScalars scalars(double rate, double t) const;
};

/// The rule of an op with OpDef::is_update.
Algorithm algorithm_of(std::string_view op, const op::Attrs& attrs);

// So that one formula serves numbers and Texts.
namespace update_numbers {
inline double Sub(double a, double b) { return a - b; }
inline double Mul(double a, double b) { return a * b; }
inline double Div(double a, double b) { return a / b; }
inline double Sqrt(double x) { return std::sqrt(x); }
inline double Pow(double a, double b) { return std::pow(a, b); }
inline text::Text Pow(const text::Text& a, const text::Text& b) { return text::call("pow", a, b); }
}  // namespace update_numbers

/// Adam's alpha at update t: averages that began at zero are too small by what is taken out here.
template <class Number>
Number adam_rate(const Number& one, const Number& rate, const Number& t, const Number& beta_1,
                 const Number& beta_2) {
  using namespace update_numbers;
  return Div(Mul(rate, Sqrt(Sub(one, Pow(beta_2, t)))), Sub(one, Pow(beta_1, t)));
}

/// A rule written down (kernels/text.h), for elements of float or double. The statements find the
/// gradient as g, the weight as w, the slots as s0, s1, .., and rate, decay, momentum, to_g, to_g2
/// and epsilon as q0 to q5.
struct RuleText {
  std::string statements;
  std::string w;                   ///< The new weight.
  std::vector<std::string> slots;  ///< And the new slots.
};
template <class T>
RuleText print_rule(Rule rule);

}  // namespace tandem::kernels

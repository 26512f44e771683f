/// `tandem::function(f)` turns a callable over tensors into a traced program, as tf.function does:
/// `f` runs once per kind of arguments to record what it does; later calls replay that. The number
/// of rows of the batch (the leading axis of the first argument, and of every argument with the
/// same leading size) may change from call to call without a new trace.
///
///   auto step = tandem::function([&](const Tensor& x, const Tensor& y) { ...; return loss; });
///   Tensor loss = step(x, y);
///
/// `f` may read and assign variables, use gradient tapes and call other functions; reading a
/// tensor's value inside is FailedPrecondition. Called under an open gradient tape it runs op by
/// op, so that the tape can differentiate it: for speed, put the tape inside. Calls from several
/// threads take turns.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "tandem/tensor.h"

namespace tandem {

namespace graph {
class FunctionBody;
}

/// The untyped core: flat lists of tensors in and out.
class TANDEM_API FlatFunction {
 public:
  using TensorFn = std::function<Tensors(const Tensors&)>;
  explicit FlatFunction(TensorFn f);

  Tensors operator()(std::span<const Tensor> arguments) const;

  /// The only result, without a list around it. Throws InvalidArgument when there is not exactly
  /// one.
  Tensor single(std::span<const Tensor> arguments) const;

  /// How many times `f` itself was called to record it.
  int trace_count() const;

  /// The programs made so far, an instruction a line.
  std::string explain() const;

  const std::shared_ptr<graph::FunctionBody>& body() const { return body_; }

 private:
  std::shared_ptr<graph::FunctionBody> body_;
};

/// A function of `Args`, each a Tensor, that returns Tensor, Tensors or nothing.
template <class Result, class... Args>
class Function : public FlatFunction {
  static_assert((std::is_same_v<std::remove_cvref_t<Args>, Tensor> && ...),
                "a function takes tensors");

 public:
  using ResultType = Result;
  static constexpr size_t kArguments = sizeof...(Args);

  explicit Function(std::function<Result(Args...)> f) : FlatFunction(flattened(std::move(f))) {}

  Result operator()(const std::remove_cvref_t<Args>&... args) const {
    const Tensor list[] = {args..., Tensor()};
    const std::span<const Tensor> arguments(list, kArguments);
    if constexpr (std::is_same_v<Result, Tensor>) {
      return single(arguments);
    } else {
      return static_cast<Result>(FlatFunction::operator()(arguments));
    }
  }

 private:
  static TensorFn flattened(std::function<Result(Args...)> f) {
    return [f = std::move(f)](const Tensors& arguments) {
      return [&]<size_t... I>(std::index_sequence<I...>)->Tensors {
        if constexpr (std::is_void_v<Result>) {
          f(arguments[I]...);
          return {};
        } else if constexpr (std::is_same_v<Result, Tensor>) {
          return {f(arguments[I]...)};
        } else {
          return f(arguments[I]...);
        }
      }
      (std::index_sequence_for<Args...>());
    };
  }
};

template <class Result, class... Args>
Function(std::function<Result(Args...)>) -> Function<Result, Args...>;

template <class F>
auto function(F f) {
  return Function(std::function(std::move(f)));
}

}  // namespace tandem

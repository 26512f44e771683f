/// `tandem::function(f)` turns a callable over tensors into a traced program, as tf.function does:
/// `f` runs once per kind of arguments to record what it does; later calls replay that. The number
/// of rows of the batch (the leading axis of the first argument, and of every argument with the
/// same leading size) may change from call to call without a new trace.
///
///   auto step = tandem::function([&](const Tensor& x, const Tensor& y) { ...; return loss; });
///   Tensor loss = step(x, y);
///
/// Arguments and results are tensors or structures of tensors (structure.h); numbers and flags
/// among the arguments are part of the kind, as in `step(x, y, true)`. `f` may read and assign
/// variables, use gradient tapes and call other functions; it may create variables on the first
/// call only (see init_scope), and reading a tensor's value inside is FailedPrecondition. Called
/// under an open gradient tape it runs op by op, so that the tape can differentiate it: for speed,
/// put the tape inside.
///
/// Any thread may call. Calls that only read variables run side by side; one that assigns some runs
/// alone on its devices, so that others there see all of it or nothing. A call that is too small to
/// share stays on the caller's thread, and so does one that finds the device's threads busy.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "tandem/structure.h"
#include "tandem/tensor.h"

namespace tandem {

namespace graph {
class FunctionBody;
}

/// What a function may be called with at one place. A leading size of -1 is any number of rows; -1
/// further on is any size too, and each is traced on its own.
struct TensorSpec {
  DType dtype = DType::float32;
  Shape shape;

  TANDEM_API std::string str() const;  ///< "float32[None,784]"
  bool operator==(const TensorSpec&) const = default;
};

struct FunctionOptions {
  std::string name = "function";  ///< What errors and warnings call it.

  /// The type of each flat argument. If given, the function is traced for it alone, and other
  /// arguments are InvalidArgument wherever it is called.
  std::vector<TensorSpec> input_signature{};
};

/// The memory that a run allocates on each device, results included; arguments are the caller's,
/// and so are the copies of those that lie in another memory space.
struct MemoryPlan {
  struct Device {
    std::string name;
    size_t arena_bytes = 0;
    size_t result_bytes = 0;
    size_t copy_bytes =
        0;  ///< Copies of constants and of values that cross from one memory space to another.
    size_t bytes() const { return arena_bytes + result_bytes + copy_bytes; }
  };
  std::vector<Device> devices;
};

/// The untyped core: flat lists of tensors in and out.
class TANDEM_API FlatFunction {
 public:
  using TensorFn = std::function<Tensors(const Tensors&)>;
  explicit FlatFunction(TensorFn f, FunctionOptions options = {});

  Tensors operator()(std::span<const Tensor> arguments) const;

  /// The only result, without a list around it. Throws InvalidArgument when there is not exactly
  /// one.
  Tensor single(std::span<const Tensor> arguments) const;

  /// How many times `f` itself was called to record it.
  int trace_count() const;

  /// The programs made so far for people: for each instruction its outputs and attributes, what was
  /// fused into it, how it is split, who computes it, its operations and bytes, and where the
  /// threads wait for each other.
  std::string explain() const;

  /// What a run of the latest trace with so many rows, on each replica if there are several, will
  /// allocate, known before the first; each further thread that calls at the same time takes as
  /// much. Throws FailedPrecondition when nothing was traced yet: see trace(); InvalidArgument for
  /// a number below 0 or above 2^40.
  MemoryPlan memory_plan(int64_t rows) const;

  /// A table of numbers of rows against the memory that a run takes on each device, for people.
  /// Throws as memory_plan does.
  std::string memory_table(const std::vector<int64_t>& rows) const;

  const std::shared_ptr<graph::FunctionBody>& body() const { return body_; }

 protected:
  /// What `f` returned, and the structure that it came in.
  struct Traced {
    Tensors results;
    std::shared_ptr<const void> structure{};
  };
  /// `structure` is that of the arguments; it lives as long as the call.
  using StructuredFn = std::function<Traced(const Tensors& arguments, const void* structure)>;
  FlatFunction(StructuredFn f, FunctionOptions options);

  Traced call(const structure::Flat& arguments, const void* structure) const;
  void trace_flat(const structure::Flat& arguments, const void* structure) const;

 private:
  friend class graph::FunctionBody;
  std::shared_ptr<graph::FunctionBody> body_;
};

template <class Result, class... Args>
class Function : public FlatFunction {
 public:
  using ResultType = Result;
  static constexpr size_t kArguments = sizeof...(Args);

  explicit Function(std::function<Result(Args...)> f, FunctionOptions options = {})
      : FlatFunction(StructuredFn(Call{std::move(f)}), std::move(options)) {}

  Result operator()(const std::remove_cvref_t<Args>&... args) const {
    if constexpr (kTensors && std::is_same_v<Result, Tensor>) {
      const Tensor list[] = {args..., Tensor()};
      return single(std::span<const Tensor>(list, kArguments));
    } else {
      const Arguments values(args...);
      const Traced traced = call(structure::flattened(values), &values);
      if constexpr (!std::is_void_v<Result>) {
        return structure::rebuilt(*static_cast<const Result*>(traced.structure.get()),
                                  traced.results);
      }
    }
  }

  /// Records `f` for arguments of this kind without running it.
  void trace(const std::remove_cvref_t<Args>&... args) const {
    const Arguments values(args...);
    trace_flat(structure::flattened(values), &values);
  }

 private:
  using Arguments = std::tuple<std::remove_cvref_t<Args>...>;
  static constexpr bool kTensors = (std::is_same_v<std::remove_cvref_t<Args>, Tensor> && ...);

  /// `f` from flat tensors to flat tensors. Where all arguments are tensors no structure is given.
  struct Call {
    std::function<Result(Args...)> f;

    Traced operator()(const Tensors& flat, const void* structure) const {
      const Arguments values = [&] {
        if constexpr (kTensors) {
          return structure::rebuilt(Arguments(), flat);
        } else {
          return structure::rebuilt(*static_cast<const Arguments*>(structure), flat);
        }
      }();
      if constexpr (std::is_void_v<Result>) {
        std::apply(f, values);
        return {};
      } else {
        auto result = std::make_shared<const Result>(std::apply(f, values));
        return {structure::flattened(*result).tensors, result};
      }
    }
  };
};

template <class Result, class... Args>
Function(std::function<Result(Args...)>, FunctionOptions = {}) -> Function<Result, Args...>;

namespace internal {

/// What a callable that is not accepted becomes, so that its use causes no further errors.
template <class Result>
struct NoFunction : FlatFunction {
  NoFunction() : FlatFunction(TensorFn()) {}
  template <class... Args>
  Result operator()(const Args&...) const;
  template <class... Args>
  void trace(const Args&...) const;
};

template <class Result, class... Args>
auto checked_function(std::function<Result(Args...)> f, FunctionOptions options) {
  constexpr bool kArguments = (structure::Structure<std::remove_cvref_t<Args>> && ...);
  constexpr bool kPassed = (std::convertible_to<const std::remove_cvref_t<Args>&, Args> && ...);
  constexpr bool kResult = std::is_void_v<Result> || structure::Structure<Result>;
  static_assert(kArguments,
                "tandem::function: arguments are Tensor, numbers, enumerations and std::string; "
                "std::vector, array, pair, tuple and map of those (but no vector<bool>); and types "
                "with a member tie()");
  static_assert(kPassed, "tandem::function: arguments are taken by value or const reference");
  static_assert(kResult,
                "tandem::function: the result is void, Tensor, a number, enumeration or "
                "std::string; std::vector, array, pair, tuple or map of those (but no "
                "vector<bool>); or a type with a member tie(); and no reference");
  if constexpr (kArguments && kPassed && kResult) {
    return Function(std::move(f), std::move(options));
  } else {
    return NoFunction<Result>();
  }
}

}  // namespace internal

/// `f` is copyable and has one signature: no `auto` parameters and no overloads.
template <class F>
auto function(F f, FunctionOptions options = {}) {
  constexpr bool kOneSignature = structure::HasOneSignature<F>;
  constexpr bool kCopyable = std::copy_constructible<F>;
  static_assert(kOneSignature,
                "tandem::function: accepted is a callable with one signature; write the types of "
                "its parameters, as in [](const Tensor& x), where it has `auto`");
  static_assert(kCopyable, "tandem::function: accepted is a callable that can be copied");
  if constexpr (kOneSignature && kCopyable) {
    return internal::checked_function(std::function(std::move(f)), std::move(options));
  } else {
    return internal::NoFunction<Tensor>();
  }
}

/// While it lives, operations of this thread run at once and unrecorded, also inside a function
/// that is being traced: for the initial values of variables that `f` creates on its first call.
class TANDEM_API InitScope {
 public:
  InitScope();
  ~InitScope();
  InitScope(const InitScope&) = delete;
  InitScope& operator=(const InitScope&) = delete;

 private:
  struct Held;
  std::unique_ptr<Held> held_;
};
[[nodiscard]] inline InitScope init_scope() { return {}; }

}  // namespace tandem

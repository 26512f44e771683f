/// A traced function over flat lists whose caller says what its plain arguments are: for languages
/// and programs that keep structures of their own. It is traced once for each key and kind of
/// tensors, and replayed from then on; `tandem::function` makes such keys of C++ types by itself.
///
///   const KeyedFunction step([&](const Tensors& in, const std::string& key) {
///     return Tensors{model(in[0], {.training = key == "train"})};
///   });
///   Tensors out = step({x}, "train");
///
/// What holds for functions holds here, too (function.h): the rows may change from call to call,
/// and any thread may call.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "tandem/function.h"

namespace tandem {

class TANDEM_API KeyedFunction : public FlatFunction {
 public:
  /// `f` is called to record what it does for tensors of a kind and for a key: two calls whose
  /// plain arguments lead to different programs have different keys.
  using KeyedFn = std::function<Tensors(const Tensors& arguments, const std::string& key)>;
  explicit KeyedFunction(KeyedFn f, FunctionOptions options = {});

  Tensors operator()(std::span<const Tensor> arguments, const std::string& key) const;
  Tensors operator()(std::initializer_list<Tensor> arguments, const std::string& key) const;

  /// Records `f` for such arguments and this key without running it.
  void trace(std::span<const Tensor> arguments, const std::string& key) const;
};

}  // namespace tandem

// A key is what stands for the structure of the arguments: it is part of their kind, and `f` gets
// it where a typed function gets its values.
#include "tandem/function/keyed_function.h"

namespace tandem {

KeyedFunction::KeyedFunction(KeyedFn f, FunctionOptions options)
    : FlatFunction(
          StructuredFn([f = std::move(f)](const Tensors& arguments, const void* key) {
            static const std::string kNone;
            return Traced{
                f(arguments, key == nullptr ? kNone : *static_cast<const std::string*>(key))};
          }),
          std::move(options)) {}

Tensors KeyedFunction::operator()(std::span<const Tensor> arguments, const std::string& key) const {
  return call({{arguments.begin(), arguments.end()}, key}, &key).results;
}

Tensors KeyedFunction::operator()(std::initializer_list<Tensor> arguments,
                                  const std::string& key) const {
  return (*this)(std::span<const Tensor>(arguments.begin(), arguments.size()), key);
}

void KeyedFunction::trace(std::span<const Tensor> arguments, const std::string& key) const {
  trace_flat({{arguments.begin(), arguments.end()}, key}, &key);
}

}  // namespace tandem

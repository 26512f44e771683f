/// The ops that are compared with TensorFlow, by name, called through the public API. run.py has
/// the other side of the table.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tandem/tandem.h"

namespace tandem::interop {

using Json = nlohmann::json;
using OpFn = std::function<Tensor(const Tensors& inputs, const Json& attributes)>;

const std::map<std::string, OpFn>& ops();

}  // namespace tandem::interop

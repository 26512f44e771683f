/// Loops over several axes in a kernel's text: the number of axes is part of the text, their sizes
/// are arguments.
#pragma once

#include <fmt/format.h>

#include <string>

#include "kernels/gpu/gpu_kernel.h"
#include "kernels/nest.h"

namespace tandem::kernels::gpu {

/// Gives `words` NAME_PARAMETERS, which end the kernel's parameters, and NAME_AT(i), the distance
/// of the nest's point i from its first.
inline void add_nest(Words& words, const std::string& name, const Nest<1>& nest) {
  std::string parameters, at;
  std::string index = "(i)";
  for (size_t axis = nest.rank(); axis-- > 0;) {
    const std::string size = fmt::format("{}_size{}", name, axis);
    const std::string stride = fmt::format("{}_stride{}", name, axis);
    parameters = fmt::format(", i64 {}, i64 {}", size, stride) + parameters;
    const std::string own = axis == 0 ? index : fmt::format("{} % {}", index, size);
    at += fmt::format("{}{} * {}", at.empty() ? "" : " + ", own, stride);
    index += " / " + size;
  }
  words.emplace_back(name + "_PARAMETERS", parameters);
  words.emplace_back(name + "_AT(i)", at.empty() ? "0" : fmt::format("({})", at));
}

inline void pass_nest(Call& call, const Nest<1>& nest) {
  for (size_t axis = 0; axis < nest.rank(); ++axis) {
    call.whole(nest[axis].size).whole(nest[axis].strides[0]);
  }
}

}  // namespace tandem::kernels::gpu

#include "kernels/gpu/axes.h"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::kernels::gpu {

void add_axes(Words& words, size_t rank, const std::vector<std::string_view>& lists) {
  std::string parameters;
  std::string declarations;
  for (const std::string_view list : lists) {
    std::string names;
    for (size_t axis = 0; axis < rank; ++axis) {
      parameters += fmt::format("{}i64 {}_{}", parameters.empty() ? "" : ", ", list, axis);
      names += fmt::format("{}{}_{}", axis == 0 ? "" : ", ", list, axis);
    }
    declarations += fmt::format("const i64 {}[{}] = {{{}}}; ", list, rank, names);
  }
  words.emplace_back("RANK", std::to_string(rank));
  words.emplace_back("AXES", parameters);
  words.emplace_back("LISTS", declarations);
}

size_t text_rank(size_t rank) {
  constexpr size_t kOwnText = 3;
  return rank <= kOwnText ? std::max<size_t>(rank, 1) : Shape::kMaxRank;
}

}  // namespace tandem::kernels::gpu

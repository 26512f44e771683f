#include "op/attrs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "op/expression.h"
#include "op/hash.h"
#include "tandem/error.h"

namespace tandem::op {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

}  // namespace

const AttrValue& Attrs::find(std::string_view name) const {
  for (const auto& [key, value] : values_) {
    if (key == name) return value;
  }
  throw NotFound(fmt::format("attribute '{}' is not set", name));
}

Attrs Attrs::with(std::string_view name, AttrValue value) const {
  Attrs result = *this;
  const auto found = std::ranges::find(result.values_, name, &decltype(values_)::value_type::first);
  if (found == result.values_.end()) {
    result.values_.emplace_back(name, std::move(value));
  } else {
    found->second = std::move(value);
  }
  return result;
}

Attrs Attrs::resolved(int64_t rows) const {
  Attrs result = *this;
  for (auto& [key, value] : result.values_) {
    if (auto* shape = std::get_if<Shape>(&value)) *shape = shape->resolved(rows);
  }
  return result;
}

bool Attrs::operator==(const Attrs& other) const {
  const auto same = [](const auto& a, const auto& b) {
    const auto* x = std::get_if<double>(&a.second);
    const auto* y = std::get_if<double>(&b.second);
    if (x != nullptr && y != nullptr) {
      return a.first == b.first && std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y);
    }
    return a == b;
  };
  return std::ranges::equal(values_, other.values_, same);
}

size_t Attrs::hash() const {
  size_t seed = values_.size();
  for (const auto& [key, value] : values_) {
    seed = mixed(seed, value.index());
    std::visit(Overloaded{[&](const Shape& s) { seed = mixed(seed, hash_of(s)); },
                          [&](const std::vector<int64_t>& list) {
                            for (int64_t item : list) seed = mixed(seed, static_cast<size_t>(item));
                          },
                          [&](DType dtype) { seed = mixed(seed, static_cast<size_t>(dtype)); },
                          [&](const auto& number) {
                            seed = mixed(seed, std::hash<std::decay_t<decltype(number)>>{}(number));
                          }},
               value);
  }
  return seed;
}

std::string Attrs::str() const {
  std::string text;
  for (const auto& [key, value] : values_) {
    const std::string shown =
        std::visit(Overloaded{[](const Shape& s) { return s.str(); },
                              [](const std::vector<int64_t>& list) {
                                return fmt::format("[{}]", fmt::join(list, ","));
                              },
                              [](DType dtype) { return std::string(name_of(dtype)); },
                              [](const ExpressionPtr& expression) { return expression->str(); },
                              [](const auto& number) { return fmt::format("{}", number); }},
                   value);
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", key, shown);
  }
  return text;
}

}  // namespace tandem::op

/// Structures of tensors: Tensor itself, and vectors, arrays, pairs, tuples and maps of structures,
/// and types with a member `auto tie() { return std::tie(a, b); }`. Numbers, enumerations and
/// strings may stand among them: they are part of the structure, not of its tensors.
#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tandem/tensor.h"

namespace tandem::structure {

template <class T>
concept Tied = requires(T& value) {
  value.tie();
};

/// A plain value: what a function does may depend on it, so each value is traced on its own.
template <class T>
concept Plain = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::same_as<T, std::string>;

template <class Visitor>
void visit(Tensor& tensor, Visitor& visitor) {
  visitor.tensor(tensor);
}
/// The value as text that no other value of its type has, wherever it stands.
template <Plain T>
std::string text_of(const T& value) {
  if constexpr (std::same_as<T, std::string>) {
    return std::to_string(value.size()).append(":").append(value);
  } else if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<std::underlying_type_t<T>>(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_floating_point_v<T>) {
    char text[64];  // The shortest that is read back as the same value.
    return {text, std::to_chars(text, text + sizeof text, value).ptr};
  } else {
    return std::to_string(value);
  }
}

template <Plain T, class Visitor>
void visit(T& value, Visitor& visitor) {
  visitor.plain(text_of(value));
}
template <class T, class Visitor>
void visit(std::vector<T>& list, Visitor& visitor);
template <class T, size_t N, class Visitor>
void visit(std::array<T, N>& list, Visitor& visitor);
template <class K, class T, class Visitor>
void visit(std::map<K, T>& map, Visitor& visitor);
template <class A, class B, class Visitor>
void visit(std::pair<A, B>& pair, Visitor& visitor);
template <class... T, class Visitor>
void visit(std::tuple<T...>& tuple, Visitor& visitor);

template <Tied T, class Visitor>
void visit(T& value, Visitor& visitor) {
  std::apply([&](auto&... members) { (visit(members, visitor), ...); }, value.tie());
}
template <class T, class Visitor>
void visit(std::vector<T>& list, Visitor& visitor) {
  visitor.plain(std::to_string(list.size()));
  for (T& element : list) visit(element, visitor);
}
template <class T, size_t N, class Visitor>
void visit(std::array<T, N>& list, Visitor& visitor) {
  for (T& element : list) visit(element, visitor);
}
template <class K, class T, class Visitor>
void visit(std::map<K, T>& map, Visitor& visitor) {
  visitor.plain(std::to_string(map.size()));
  for (auto& [key, element] : map) {
    K copy = key;
    visit(copy, visitor);
    visit(element, visitor);
  }
}
template <class A, class B, class Visitor>
void visit(std::pair<A, B>& pair, Visitor& visitor) {
  visit(pair.first, visitor);
  visit(pair.second, visitor);
}
template <class... T, class Visitor>
void visit(std::tuple<T...>& tuple, Visitor& visitor) {
  std::apply([&](auto&... members) { (visit(members, visitor), ...); }, tuple);
}

/// The tensors of a structure in order, and a description of the rest of it.
struct Flat {
  Tensors tensors;
  std::string rest;

  void tensor(const Tensor& value) { tensors.push_back(value); }
  void plain(const std::string& value) { rest.append(value).push_back(';'); }
};

template <class T>
Flat flattened(T value) {
  Flat flat;
  visit(value, flat);
  return flat;
}

/// The structure `like` with other tensors in it, taken in order.
template <class T>
T rebuilt(T like, const Tensors& tensors) {
  struct Refill {
    const Tensors& tensors;
    size_t next = 0;
    void tensor(Tensor& value) { value = tensors[next++]; }
    void plain(const std::string&) {}
  } refill{tensors};
  visit(like, refill);
  return like;
}

}  // namespace tandem::structure

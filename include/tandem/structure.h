/// Structures of tensors: Tensor itself, and vectors, arrays, pairs, tuples and maps of structures,
/// and types with a member `auto tie() { return std::tie(a, b); }`. Numbers, enumerations and
/// strings may stand among them: they are part of the structure, not of its tensors.
#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <functional>
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

namespace internal {

template <class T>
struct IsStructure : std::bool_constant<Plain<T> || std::same_as<T, Tensor>> {};
template <Tied T>
struct IsStructure<T> : IsStructure<decltype(std::declval<T&>().tie())> {};
template <class T>
struct IsStructure<std::vector<T>> : IsStructure<T> {};
template <>
struct IsStructure<std::vector<bool>> : std::false_type {};  // It has no elements to refer to.
template <class T, size_t N>
struct IsStructure<std::array<T, N>> : IsStructure<T> {};
template <class K, class T>
struct IsStructure<std::map<K, T>> : std::conjunction<IsStructure<K>, IsStructure<T>> {};
template <class A, class B>
struct IsStructure<std::pair<A, B>> : std::conjunction<IsStructure<A>, IsStructure<B>> {};
template <class... T>
struct IsStructure<std::tuple<T...>>
    : std::conjunction<IsStructure<std::remove_reference_t<T>>...> {};

}  // namespace internal

template <class T>
concept Structure = internal::IsStructure<T>::value;

/// A callable whose argument types can be known: one operator() that is no template.
template <class F>
concept HasOneSignature = requires(F f) {
  std::function(std::move(f));
};

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
  constexpr bool kAccepted = Structure<T>;
  static_assert(kAccepted,
                "tandem: accepted are Tensor, numbers, enumerations and std::string; std::vector, "
                "array, pair, tuple and map of those (but no vector<bool>); and types with a "
                "member tie()");
  Flat flat;
  if constexpr (kAccepted) visit(value, flat);
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
  if constexpr (Structure<T>) visit(like, refill);  // Else flattened() says what is wrong.
  return like;
}

}  // namespace tandem::structure

/// A table of measured choices among the providers of matrix products, by class of shapes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "kernels/cpu/gemm/gemm.h"

namespace tandem::kernels::cpu {

/// Shapes that are alike to a provider: sizes to the nearest power of two, the transposes, and
/// whether rows lie a large power of two apart, which some providers mind.
struct GemmClass {
  DType dtype = DType::float32;
  bool transpose_a = false, transpose_b = false;
  bool collides = false;
  int m = 0, n = 0, k = 0;  ///< Exponents of two.

  // clang-tidy takes the 0 that <=> of members is compared with for a pointer.
  auto operator<=>(const GemmClass&) const = default;  // NOLINT(modernize-use-nullptr)
};

GemmClass class_of(const GemmShape& shape);

/// A shape of this class, as it is measured.
GemmShape typical_shape(const GemmClass& of);

class ProviderTable {
 public:
  /// Throws NotFound and DataLoss. Warns of a table that was measured on another CPU.
  static ProviderTable read(const std::string& path);

  /// Writes the file beside its place and renames it. Throws Unavailable.
  void write(const std::string& path) const;

  /// Throws Unavailable where write() would, and leaves a table that is there alone.
  static void check_writable(const std::string& path);

  void set(const GemmClass& shapes, std::string provider) {
    choices_[shapes] = std::move(provider);
  }

  /// The measured provider; null where nothing was measured.
  const std::string* find(const GemmShape& shape) const;

  size_t size() const { return choices_.size(); }
  uint64_t hash() const;

 private:
  static std::string beside(const std::string& path);

  std::map<GemmClass, std::string> choices_;
};

/// The choice of the table in use, if it has one for this shape.
std::optional<std::string> measured_provider(const GemmShape& shape);

}  // namespace tandem::kernels::cpu

/// First values that nobody has made yet. Tasks of parameter servers have large variables of which
/// they never read most elements, since a server has them. An initializer then says how elements
/// are made instead of making them, and they are made when somebody reads them:
///
///   initializer -> a tensor without values -> a variable whose elements are unmade
///                                             |  read: all of it is made
///                                             |  a server: its own elements are made
///                                             v  written: what is written needs not be made
///
/// Only variables in devices::MappedMemory may be like this: what is unmade of them takes neither
/// memory nor disk. Any thread may call these functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "tensor/store.h"

namespace tandem {

/// Writes `count` elements of a value, from element `begin` on. It writes the same whenever it is
/// called.
using MakeElements = std::function<void(int64_t begin, int64_t count, void* to)>;

/// While it lives, initializers that this thread calls may leave values unmade that have `least`
/// bytes or more; 0: none.
class UnmadeScope {
 public:
  explicit UnmadeScope(size_t least);
  ~UnmadeScope();
  UnmadeScope(const UnmadeScope&) = delete;
  UnmadeScope& operator=(const UnmadeScope&) = delete;

  /// Whether such a value may be left unmade here.
  static bool is_wanted(DType dtype, const Shape& shape);
  /// A tensor without values, whose elements are those that `make` makes.
  static Tensor leave_unmade(DType dtype, const Shape& shape, MakeElements make);

  /// Whether the result of an initializer can be used. It cannot where the initializer has called
  /// others, and one of these has left something unmade that is not the result.
  static bool is_usable(const Tensor& result);

 private:
  const size_t former_least_;
};

/// Has the variable that is `range` take a value that was left unmade. False for any other value,
/// which is to be written.
bool take_unmade(const Tensor& value, const StoreRange& range);

/// The elements of `range` are those that `make` makes; null: zeros, which its memory has. False,
/// and nothing has changed, where it does not lie in devices::MappedMemory.
bool note_unmade(const StoreRange& range, MakeElements make);

/// Makes what is unmade of a range, or of a whole block; the latter not under a PartsScope.
void make_values(const StoreRange& range);
void make_values(const StoreBlock& block);

/// All of the range is about to be written.
void forget_unmade(const StoreRange& range);

/// True where all of the range is unmade, so that it has its first value.
bool is_unmade(const StoreRange& range);

/// While it lives, this thread uses only elements of variables that it knows to be made.
class PartsScope {
 public:
  PartsScope();
  ~PartsScope();
  PartsScope(const PartsScope&) = delete;
  PartsScope& operator=(const PartsScope&) = delete;

 private:
  const bool former_;
};

}  // namespace tandem

/// A Tensor is a cheap handle to an immutable, contiguous, row-major value on a device, or, while a
/// function is traced, to a value that does not exist yet. Copies share the value; any thread may
/// use its own copy.
#pragma once

#include <concepts>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tandem/dtype.h"
#include "tandem/export.h"
#include "tandem/shape.h"
#include "tandem/tensor/index.h"
#include "tandem/tensor/nested_list.h"

namespace tandem {

struct TensorBody;
struct RowSlices;

template <class T>
concept Number = std::is_arithmetic_v<T>;

namespace internal {

/// A number that is a scalar of its own type where one asks for that: Tensor(0.5F).
template <class T>
concept TypedNumber =
    Number<T> && kIsAmong<T, float, double, uint8_t, int32_t, int64_t, long, long long, bool>;

/// Throws InvalidArgument above 2^63 - 1.
TANDEM_API int64_t to_int64(uint64_t number);

/// The number in a type that has a DType and holds it.
template <Number T>
auto widened(T number) {
  if constexpr (TypedNumber<T>) {
    return number;
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(number);
  } else if constexpr (sizeof(T) < sizeof(int32_t)) {
    return static_cast<int32_t>(number);
  } else {
    return to_int64(number);
  }
}

}  // namespace internal

class TANDEM_API Tensor {
 public:
  /// No tensor at all: `defined()` is false, everything else throws FailedPrecondition.
  Tensor() = default;

  /// A scalar on the host.
  template <internal::TypedNumber T, class = void>
  explicit Tensor(T scalar) : Tensor(copy_of(&scalar, dtype_of<T>, {})) {}

  /// A number of any arithmetic type where a tensor is wanted, as the 2 of `pow(x, 2)`: a scalar on
  /// the host that takes the dtype of the tensor beside it, as Python's numbers do in TensorFlow.
  /// An op throws InvalidArgument when that dtype does not have the number: fractions and what is
  /// out of range for whole ones, and anything but 0 and 1 for bool. Of two numbers one takes the
  /// dtype of the other: of float32, float64, int64, int32, uint8, bool that which comes first.
  template <Number T, class = int>
  Tensor(T number)  // NOLINT(google-explicit-constructor): numbers are tensors
      : Tensor(number_of(internal::widened(number))) {}

  /// A copy of `values` with the given shape. Throws InvalidArgument when the counts differ.
  template <class T, size_t N>
  static Tensor from(std::span<T, N> values, const Shape& shape) {
    check_count(values.size(), shape);
    return copy_of(values.data(), dtype_of<std::remove_const_t<T>>, shape);
  }
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape) {
    if constexpr (std::is_same_v<T, bool>) {
      const std::vector<uint8_t> bytes(values.begin(), values.end());
      check_count(bytes.size(), shape);
      return copy_of(bytes.data(), DType::boolean, shape);
    } else {
      return from(std::span<const T>(values), shape);
    }
  }
  template <class T>
  static Tensor from(std::initializer_list<T> values, const Shape& shape) {
    return from(std::span<const T>(values.begin(), values.size()), shape);
  }

  /// The numbers of a list, or of lists of lists, up to rank 4: `Tensor::of({{1.0, 2.0}, {3.0,
  /// 4.0}})` is a float64[2,2]. They all have one type. Throws InvalidArgument naming the place
  /// where lists side by side differ in length. Nested std::vectors may have any rank.
  template <Number T>
  static Tensor of(std::initializer_list<T> list) {
    return of_list(list);
  }
  template <Number T>
  static Tensor of(std::initializer_list<std::initializer_list<T>> list) {
    return of_list(list);
  }
  template <Number T>
  static Tensor of(std::initializer_list<std::initializer_list<std::initializer_list<T>>> list) {
    return of_list(list);
  }
  template <Number T>
  static Tensor of(
      std::initializer_list<std::initializer_list<std::initializer_list<std::initializer_list<T>>>>
          list) {
    return of_list(list);
  }
  template <class T>
  static Tensor of(const std::vector<T>& list) {
    return of_list(list);
  }

  /// A copy of `shape.count()` elements at `data` in host memory.
  static Tensor copy_of(const void* data, DType dtype, const Shape& shape);

  /// The caller's memory itself, with no copy. `owner` is held as long as any tensor refers to it;
  /// the values must not change meanwhile.
  static Tensor wrap(const void* data, DType dtype, const Shape& shape,
                     std::shared_ptr<const void> owner);

  bool defined() const { return body_ != nullptr; }
  DType dtype() const;
  const Shape& shape() const;
  int rank() const { return shape().rank(); }

  /// "/device:CPU:0"
  const std::string& device() const;

  /// True while tracing, when there is no value to read.
  bool is_symbolic() const;

  /// Rows [begin, end) of the leading axis; shares the memory.
  Tensor rows(int64_t begin, int64_t end) const;

  /// The part at one place of the leading axis, without that axis; a negative one counts from the
  /// end. As all ops, inside a function too and with gradients. Throws InvalidArgument when it is
  /// out of range or there is no axis.
  Tensor operator[](int64_t index) const { return (*this)(index); }

  /// The part that the indices name, axis after axis from the first; axes that they leave are
  /// whole: `x(0, Slice(1, 3))`, `x(ellipsis, -1)`, `x(Slice(), newaxis)`. Throws InvalidArgument
  /// for a position that is out of range, a step of 0, and more indices than axes. A batch axis
  /// that is cut makes a function be traced for each number of rows, as slicing.h says.
  template <IndexLike... Indices>
  Tensor operator()(const Indices&... indices) const {
    return part({Index(indices)...});
  }

  /// Whether the only element is true, or not 0: for `if (loss < best)`. Throws InvalidArgument
  /// unless there is one element (see reduce_all and reduce_any), FailedPrecondition while tracing
  /// (see cond, where).
  explicit operator bool() const;

  /// Waits for the value and copies it to the host. Throws InvalidArgument when the dtype is
  /// another, FailedPrecondition while tracing.
  template <class T>
  std::vector<T> to_vector() const {
    check_dtype(dtype_of<T>);
    const auto count = static_cast<size_t>(shape().count());
    if constexpr (std::is_same_v<T, bool>) {  // std::vector<bool> has no elements to copy into.
      const auto values = std::make_unique<bool[]>(count);
      copy_to_host(values.get());
      return std::vector<bool>(values.get(), values.get() + count);
    } else {
      std::vector<T> values(count);
      copy_to_host(values.data());
      return values;
    }
  }

  /// The only element. Throws InvalidArgument when there are more or none, or the dtype is another,
  /// FailedPrecondition while tracing.
  template <class T>
  T item() const {
    check_dtype(dtype_of<T>);
    check_single();
    T value;
    copy_to_host(&value);
    return value;
  }

  /// The element with this index on every axis. Throws InvalidArgument when it is out of range or
  /// the dtype is another, FailedPrecondition while tracing.
  template <class T>
  T at(std::initializer_list<int64_t> index) const {
    check_dtype(dtype_of<T>);
    return element({index.begin(), index.size()}).template item<T>();
  }

  void copy_to_host(void* to) const;

  /// The values as NumPy prints them, then shape, dtype and device: "Tensor([1. 2.], shape=[2],
  /// dtype=float32, device=/device:CPU:0)". Of more than 1000 elements only those at the ends of
  /// the axes are shown.
  std::string str() const;

  /// True for a gradient that is zero but for some rows, as that of gather: it costs in proportion
  /// to those. Whoever uses it otherwise than by row_slices() gets all its rows.
  bool is_row_sparse() const;

  /// Throws FailedPrecondition unless is_row_sparse().
  const RowSlices& row_slices() const;

  /// For the library's own use.
  explicit Tensor(std::shared_ptr<const TensorBody> body) : body_(std::move(body)) {}
  const std::shared_ptr<const TensorBody>& body() const { return body_; }

 private:
  template <class List>
  static Tensor of_list(const List& list) {
    const internal::Flattened<List> flat(list);
    return copy_of(flat.numbers().data(), dtype_of<typename decltype(flat)::Number>, flat.shape());
  }

  template <internal::TypedNumber T>
  static Tensor number_of(T number) {
    return number_of(&number, dtype_of<T>);
  }
  static Tensor number_of(const void* number, DType dtype);
  static void check_count(size_t given, const Shape& shape);
  void check_single() const;
  Tensor part(std::initializer_list<Index> indices) const;
  Tensor element(std::span<const int64_t> index) const;
  void check_dtype(DType wanted) const;
  const TensorBody& checked() const;

  std::shared_ptr<const TensorBody> body_;
};

using Tensors = std::vector<Tensor>;

/// The sum of `values` [n, ..], each at the row of the whole that `indices` [n] names.
struct RowSlices {
  Tensor indices;
  Tensor values;
};

/// Prints str().
TANDEM_API std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);

}  // namespace tandem

// How Python's numbers, lists and arrays become tensors: as TensorFlow makes them.
#include <cmath>
#include <cstring>

#include "binding.h"
#include "tandem/tensor/host_data.h"

namespace tandem::python {
namespace {

/// What Python does for the library: lists and everything else that is not a tensor, a number or an
/// array.
nb::object& fallback() {
  static auto* f = new nb::object();
  return *f;
}

nb::object& dtypes() {
  static auto* list = new nb::object();
  return *list;
}

/// What floating variables are to ops of this thread, where that is not their own dtype.
thread_local std::optional<DType> autocast;

/// A context manager of Python: inside of it there is such a dtype; -1 stands for none.
class Autocast {
 public:
  explicit Autocast(int dtype) {
    if (dtype >= 0) dtype_ = to_dtype(dtype);
  }
  void enter() { former_ = std::exchange(autocast, dtype_); }
  void exit() { autocast = former_; }

 private:
  std::optional<DType> dtype_, former_;
};

std::optional<DType> dtype_of_format(const char* format, Py_ssize_t size) {
  if (format == nullptr) return size == 1 ? std::optional(DType::uint8) : std::nullopt;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (std::strlen(format) != 1) return {};
  switch (*format) {
    case 'f':
      return DType::float32;
    case 'd':
      return DType::float64;
    case 'e':
      return DType::float16;
    case 'b':
      return DType::int8;
    case 'B':
      return DType::uint8;
    case '?':
      return DType::boolean;
    case 'h':
      return DType::int16;
    case 'H':
      return DType::uint16;
    case 'i':
    case 'l':
    case 'q':
      if (size == 8) return DType::int64;
      if (size == 4) return DType::int32;
      break;
    case 'I':
    case 'L':
    case 'Q':
      if (size == 8) return DType::uint64;
      if (size == 4) return DType::uint32;
      break;
  }
  return {};
}

/// A view of somebody's memory, given back under the lock.
struct View {
  Py_buffer buffer{};
  ~View() {
    if (interpreter_ends()) return;
    const nb::gil_scoped_acquire acquired;
    PyBuffer_Release(&buffer);
  }
};

bool is_plain_number(nb::handle value) {
  PyObject* o = value.ptr();
  return PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o);
}

/// A whole number of Python's as 64 bits, which are those of a signed or of an unsigned number.
int64_t whole_number(PyObject* o) {
  int overflow = 0;
  const long long whole = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (overflow == 0) return whole;
  const unsigned long long wide = overflow > 0 ? PyLong_AsUnsignedLongLong(o) : 0;
  if (overflow < 0 || PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw nb::value_error("Can't convert a Python integer of more than 64 bits to a tensor.");
  }
  return static_cast<int64_t>(wide);
}

/// A number that takes the dtype of the tensor beside it: what a number is converted to, not what
/// it constructs.
Tensor number(nb::handle value) {
  PyObject* o = value.ptr();
  if (PyBool_Check(o)) return o == Py_True;
  if (PyFloat_CheckExact(o)) return PyFloat_AsDouble(o);
  int overflow = 0;
  const int64_t whole = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (overflow != 0) return static_cast<uint64_t>(whole_number(o));
  return whole;
}

/// A number in the type that TensorFlow gives a constant of it.
Tensor constant(nb::handle value) {
  PyObject* o = value.ptr();
  if (PyBool_Check(o)) return Tensor::from({o == Py_True}, {});
  if (PyFloat_CheckExact(o)) {
    const double real = PyFloat_AsDouble(o);
    if (std::isfinite(real) && std::isinf(static_cast<float>(real))) {
      throw nb::value_error(
          "Can't convert a Python float out of range for float32; give dtype=tf.float64");
    }
    return Tensor::from({static_cast<float>(real)}, {});
  }
  int overflow = 0;
  const int64_t whole = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (overflow != 0) {
    throw nb::value_error(
        "Can't convert a Python integer out of range for int64; tf.uint64 has those below 2**64");
  }
  if (whole == static_cast<int32_t>(whole)) return Tensor::from({static_cast<int32_t>(whole)}, {});
  return Tensor::from({whole}, {});
}

/// A number in a given type; whole numbers wrap around. Throws TypeError for a fraction that is to
/// be whole, as TensorFlow does.
Tensor scalar(nb::handle value, DType dtype) {
  PyObject* o = value.ptr();
  const bool is_fraction = PyFloat_CheckExact(o);
  if (is_fraction && !is_floating(dtype)) {
    const auto text = nb::cast<std::string>(nb::str(nb::borrow<nb::object>(value)));
    const std::string name(name_of(dtype));
    throw nb::type_error(("Cannot convert " + text + " to EagerTensor of dtype " + name).c_str());
  }
  const double real = is_fraction ? PyFloat_AsDouble(o) : PyLong_AsDouble(o);
  if (real == -1.0 && PyErr_Occurred() != nullptr) throw nb::python_error();
  // What a type has no room for loses its upper bits, as in TensorFlow and NumPy's casts.
  const int64_t whole = is_floating(dtype) ? 0 : whole_number(o);
  switch (dtype) {
    case DType::float32:
      return Tensor::from({static_cast<float>(real)}, {});
    case DType::float64:
      return Tensor::from({real}, {});
    case DType::int32:
      return Tensor::from({static_cast<int32_t>(whole)}, {});
    case DType::int64:
      return Tensor::from({static_cast<int64_t>(whole)}, {});
    case DType::uint8:
      return Tensor::from({static_cast<uint8_t>(whole)}, {});
    case DType::boolean:
      return Tensor::from({real != 0}, {});
    case DType::int8:
      return Tensor::from({static_cast<int8_t>(whole)}, {});
    case DType::int16:
      return Tensor::from({static_cast<int16_t>(whole)}, {});
    case DType::uint16:
      return Tensor::from({static_cast<uint16_t>(whole)}, {});
    case DType::uint32:
      return Tensor::from({static_cast<uint32_t>(whole)}, {});
    case DType::uint64:
      return Tensor::from({static_cast<uint64_t>(whole)}, {});
    case DType::float16:
    case DType::bfloat16:
      break;
  }
  const InitScope at_once;
  return cast(Tensor::from({static_cast<float>(real)}, {}), dtype);
}

/// An array of fractions beside whole numbers, as such where each of its elements is one.
Tensor as_whole(const Tensor& array, DType beside) {
  const InitScope at_once;
  const Tensor whole = cast(array, beside);
  const bool is_same = reduce_all(equal(cast(whole, array.dtype()), array)).item<bool>();
  return is_same ? whole : array;
}

/// Whether an array of this dtype becomes one of `beside` without a word, as TensorFlow has it.
bool gives_way(DType own, DType beside) {
  if (own == beside || own == DType::boolean || beside == DType::boolean) return false;
  return is_floating(beside) || !is_floating(own);
}

}  // namespace

nb::object dtype_object(DType dtype) { return dtypes()[from_dtype(dtype)]; }

bool is_tensor(nb::handle value) { return nb::isinstance<Tensor>(value); }
bool is_variable(nb::handle value) { return nb::isinstance<Variable>(value); }

std::optional<Tensor> of_buffer(nb::handle value, bool copy) {
  if (!PyObject_CheckBuffer(value.ptr()) || PyBytes_Check(value.ptr())) return {};
  auto view = std::make_shared<View>();
  if (PyObject_GetBuffer(value.ptr(), &view->buffer, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) != 0) {
    PyErr_Clear();
    return {};
  }
  const Py_buffer& buffer = view->buffer;
  const auto dtype = dtype_of_format(buffer.format, buffer.itemsize);
  if (!dtype || buffer.ndim > Shape::kMaxRank) return {};
  std::vector<int64_t> sizes(buffer.shape, buffer.shape + buffer.ndim);
  const Shape shape{std::span<const int64_t>(sizes)};
  // Vector instructions want their elements where elements belong.
  const bool aligned = reinterpret_cast<uintptr_t>(buffer.buf) % size_of(*dtype) == 0;
  if (copy || !aligned) return Tensor::copy_of(buffer.buf, *dtype, shape);
  return Tensor::wrap(buffer.buf, *dtype, shape, view);
}

Tensor to_tensor(nb::handle value, std::optional<DType> dtype, std::optional<DType> beside) {
  if (is_tensor(value)) {
    const Tensor& tensor = *nb::inst_ptr<Tensor>(value);
    return tensor;
  }
  if (is_variable(value)) {
    const Tensor now = nb::inst_ptr<Variable>(value)->value();
    const bool casts = autocast && is_floating(now.dtype()) && now.dtype() != *autocast;
    return casts ? cast(now, *autocast) : now;
  }
  if (is_plain_number(value)) {
    if (dtype) return scalar(value, *dtype);
    return beside ? number(value) : constant(value);
  }
  if (const auto wrapped = of_buffer(value, true)) {
    const DType own = wrapped->dtype();
    if (!dtype && beside && is_floating(own) && !is_floating(*beside) &&
        *beside != DType::boolean) {
      return as_whole(*wrapped, *beside);
    }
    const DType wanted = dtype ? *dtype : beside && gives_way(own, *beside) ? *beside : own;
    if (wanted == own) return *wrapped;
    const InitScope at_once;  // A constant, also where a function is traced.
    return cast(*wrapped, wanted);
  }
  if (!fallback().is_valid()) throw nb::type_error("tandem: not imported");
  const auto code = [](std::optional<DType> given) {
    return given ? nb::object(nb::int_(from_dtype(*given))) : nb::none();
  };
  const nb::object made = fallback()(value, code(dtype), code(beside));
  if (!is_tensor(made)) throw nb::type_error("tandem: no tensor can be made of this");
  return *nb::inst_ptr<Tensor>(made);
}

Tensors to_tensors(nb::handle list) {
  Tensors tensors;
  for (nb::handle each : nb::borrow<nb::object>(list)) tensors.push_back(to_tensor(each));
  return tensors;
}

Variables to_variables(nb::handle list) {
  Variables variables;
  for (nb::handle each : nb::borrow<nb::object>(list)) {
    if (!is_variable(each)) throw nb::type_error("a list of variables is wanted here");
    variables.push_back(*nb::inst_ptr<Variable>(each));
  }
  return variables;
}

nb::object from_tensor(const Tensor& tensor) {
  return tensor.defined() ? nb::cast(tensor) : nb::none();
}

nb::list from_tensors(const Tensors& tensors) {
  nb::list list;
  for (const Tensor& tensor : tensors) list.append(from_tensor(tensor));
  return list;
}

std::pair<Tensor, Tensor> operands(nb::handle a, nb::handle b) {
  const bool first = is_tensor(a) || is_variable(a);
  const bool second = is_tensor(b) || is_variable(b);
  if (first) {
    Tensor left = to_tensor(a);
    const DType dtype = left.dtype();
    return {std::move(left), to_tensor(b, {}, dtype)};
  }
  if (second) {
    Tensor right = to_tensor(b);
    const DType dtype = right.dtype();
    return {to_tensor(a, {}, dtype), std::move(right)};
  }
  if (PyFloat_CheckExact(a.ptr()) && !is_plain_number(b)) {  // A list of whole numbers gives way.
    return {constant(a), to_tensor(b, {}, DType::float32)};
  }
  if (is_plain_number(a) && !is_plain_number(b)) {
    Tensor right = to_tensor(b);
    const DType dtype = right.dtype();
    return {to_tensor(a, {}, dtype), std::move(right)};
  }
  Tensor left = to_tensor(a);
  const DType dtype = left.dtype();
  return {std::move(left), to_tensor(b, {}, dtype)};
}

namespace {

/// A number that is a whole one by its type: a fraction is no size and no axis. Throws TypeError.
int64_t to_whole(nb::handle value) {
  const nb::object whole = nb::steal(PyNumber_Index(value.ptr()));
  if (!whole.is_valid()) throw nb::python_error();
  return nb::cast<int64_t>(whole);
}

Size to_size(nb::handle value) {
  if (nb::isinstance<Size>(value)) return *nb::inst_ptr<Size>(value);
  if (value.is_none()) return -1;
  if (nb::hasattr(value, "_size")) return to_size(value.attr("_size"));
  return to_whole(value);
}

}  // namespace

Shape to_shape(nb::handle value) {
  if (nb::isinstance<Size>(value) || PyLong_Check(value.ptr())) return Shape{to_size(value)};
  // A tensor is a shape by its values, whatever else has sizes by these.
  const bool holds_values = is_tensor(value) || is_variable(value);
  if (!holds_values && nb::hasattr(value, "_sizes")) return to_shape(value.attr("_sizes"));
  if (holds_values && to_tensor(value).rank() == 0) return Shape{to_size(value)};
  Shape shape;
  for (nb::handle each : nb::borrow<nb::object>(value)) {
    shape = shape.inserted(shape.rank(), to_size(each));
  }
  return shape;
}

nb::tuple from_shape(const Shape& shape) {
  nb::list sizes;
  for (const Size size : shape.sizes()) {
    if (size.extent() < 0) {
      sizes.append(nb::cast(size));
    } else {
      sizes.append(nb::int_(size.extent()));
    }
  }
  return nb::tuple(sizes);
}

std::vector<int64_t> to_numbers(nb::handle sequence) {
  std::vector<int64_t> numbers;
  for (nb::handle each : nb::borrow<nb::object>(sequence)) {
    numbers.push_back(to_whole(each));
  }
  return numbers;
}

std::vector<int> to_axes(nb::handle sequence) {
  const auto numbers = to_numbers(sequence);
  return {numbers.begin(), numbers.end()};
}

void bind_conversions(nb::module_& m) {
  nb::class_<Autocast>(m, "Autocast")
      .def(nb::init<int>())
      .def("__enter__", &Autocast::enter)
      .def("__exit__", [](Autocast& self, const nb::args&) { self.exit(); });
  m.def("set_fallback", [](nb::object f) { fallback() = std::move(f); });
  m.def("set_dtypes", [](nb::object list) { dtypes() = std::move(list); });
  m.def(
      "convert",
      [](nb::handle value, std::optional<int> dtype, std::optional<int> beside) {
        const auto given = [](std::optional<int> code) {
          return code ? std::optional(to_dtype(*code)) : std::nullopt;
        };
        return to_tensor(value, given(dtype), given(beside));
      },
      "value"_a.none(), "dtype"_a = nb::none(), "beside"_a = nb::none());
  m.def("wrap", [](nb::handle array) {
    const auto wrapped = of_buffer(array, false);
    if (!wrapped) throw nb::type_error("wrap: a row-major array of a dtype that tensors have");
    return *wrapped;
  });
  // NumPy has no bfloat16 of its own: the bits go over the border as uint16.
  m.def("bits_of", [](const Tensor& tensor) {
    if (size_of(tensor.dtype()) != sizeof(uint16_t)) {
      throw nb::type_error("bits_of: elements of two bytes");
    }
    const HostData memory = unlocked([&] { return host_data(tensor); });
    return Tensor::wrap(memory.data, DType::uint16, tensor.shape(), memory.owner);
  });
  m.def("of_bits", [](nb::handle array, int dtype) {
    const auto bits = of_buffer(array, true);
    if (!bits || size_of(bits->dtype()) != size_of(to_dtype(dtype))) {
      throw nb::type_error("of_bits: a row-major array of elements as large as the dtype's");
    }
    const HostData memory = host_data(*bits);
    return Tensor::copy_of(memory.data, to_dtype(dtype), bits->shape());
  });
}

}  // namespace tandem::python

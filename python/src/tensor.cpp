// Tensor and Size: operators, parts, values for the host.
#include <algorithm>

#include "binding.h"
#include "errors.h"
#include "tandem/tensor/host_data.h"

namespace tandem::python {

void bind_conversions(nb::module_& m);

namespace {

const char* format_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return "f";
    case DType::float64:
      return "d";
    case DType::float16:
      return "e";
    case DType::bfloat16:  // get_buffer refuses: buffers have no such elements.
      break;
    case DType::uint8:
      return "B";
    case DType::int32:
      return "i";
    case DType::int64:
      return sizeof(long) == 8 ? "l" : "q";  // As NumPy's own int64 is.
    case DType::boolean:
      return "?";
    case DType::int8:
      return "b";
    case DType::int16:
      return "h";
    case DType::uint16:
      return "H";
    case DType::uint32:
      return "I";
    case DType::uint64:
      return sizeof(long) == 8 ? "L" : "Q";
  }
  return "B";
}

// ---- The buffer protocol: NumPy reads a tensor's memory where it lies ----

/// What a view of a tensor holds besides the object itself.
struct Exported {
  HostData value;
  std::vector<Py_ssize_t> sizes;
  std::vector<Py_ssize_t> strides;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  if ((flags & PyBUF_WRITABLE) != 0) {
    PyErr_SetString(PyExc_BufferError, "a tensor's value cannot be changed");
    return -1;
  }
  const Tensor& tensor = *nb::inst_ptr<Tensor>(nb::handle(self));
  if (!tensor.defined() || tensor.is_symbolic()) {
    PyErr_SetString(PyExc_BufferError, "a tensor of a function that is being traced has no value");
    return -1;
  }
  if (tensor.dtype() == DType::bfloat16) {
    PyErr_SetString(PyExc_BufferError, "buffers have no elements of bfloat16");
    return -1;
  }
  auto exported = std::make_unique<Exported>();
  try {
    exported->value = unlocked([&] { return host_data(tensor); });
  } catch (...) {
    set_error(std::current_exception(), PyExc_BufferError);
    return -1;
  }
  const auto size = static_cast<Py_ssize_t>(size_of(tensor.dtype()));
  const Shape& shape = tensor.shape();
  exported->sizes.assign(shape.extents().begin(), shape.extents().end());
  exported->strides.resize(exported->sizes.size());
  Py_ssize_t stride = size;
  for (size_t axis = exported->sizes.size(); axis-- > 0;) {
    exported->strides[axis] = stride;
    stride *= exported->sizes[axis];
  }
  view->buf = const_cast<void*>(exported->value.data);
  view->len = size * static_cast<Py_ssize_t>(shape.total_extent());
  view->itemsize = size;
  view->readonly = 1;
  view->ndim = shape.rank();
  view->format =
      (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(format_of(tensor.dtype())) : nullptr;
  view->shape = exported->sizes.data();
  view->strides = exported->strides.data();
  view->suboffsets = nullptr;
  view->internal = exported.release();
  view->obj = Py_NewRef(self);
  return 0;
}

void release_buffer(PyObject*, Py_buffer* view) { delete static_cast<Exported*>(view->internal); }

PyType_Slot tensor_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                              {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                              {0, nullptr}};

// ---- Parts ----

std::optional<int64_t> to_bound(nb::handle bound) {
  if (bound.is_none()) return {};
  return nb::cast<int64_t>(nb::int_(nb::borrow<nb::object>(bound)));
}

/// What one entry of x[..] does to its axis.
struct Entry {
  Stride stride{};
  bool drops_axis = false;
};

/// Throws tandem.errors.OutOfBoundsError, which is both an InvalidArgumentError and an IndexError.
[[noreturn]] void throw_out_of_bounds(const std::string& text) {
  const nb::object kind = nb::module_::import_("tandem.errors").attr("OutOfBoundsError");
  PyErr_SetString(kind.ptr(), text.c_str());
  throw nb::python_error();
}

/// The part of `x` that positions, slices, ellipses and new axes name. Masks and tensors of
/// positions are Python's.
Tensor part(const Tensor& x, const nb::tuple& key) {
  const int rank = x.rank();
  int named = 0;
  for (nb::handle each : key) {
    if (!each.is_none() && each.ptr() != Py_Ellipsis) ++named;
  }
  if (named > rank) {
    throw_out_of_bounds("too many indices: " + std::to_string(named) + " for a tensor of shape " +
                        x.shape().str());
  }
  std::vector<Stride> strides;
  std::vector<int> dropped, added;
  int place = 0;  // The axis of the result before any is dropped.
  bool cuts = false;
  for (nb::handle each : key) {
    if (each.is_none()) {
      added.push_back(place - static_cast<int>(dropped.size()));
      ++place;
      continue;
    }
    if (each.ptr() == Py_Ellipsis) {
      for (int i = named; i < rank; ++i, ++place) strides.emplace_back();
      continue;
    }
    const auto axis = static_cast<int>(strides.size());
    if (PySlice_Check(each.ptr())) {
      const auto step = to_bound(each.attr("step")).value_or(1);
      const Stride stride{to_bound(each.attr("start")), to_bound(each.attr("stop")), step};
      cuts |= stride.begin || stride.end || step != 1;
      strides.push_back(stride);
    } else {
      const int64_t position = *to_bound(each);
      const int64_t size = x.shape()[axis];
      if (position < -size || position >= size) {
        throw_out_of_bounds("slice index " + std::to_string(position) + " of dimension " +
                            std::to_string(axis) + " out of bounds: the shape is " +
                            x.shape().str());
      }
      const int64_t begin = position < 0 ? position + size : position;
      strides.push_back({begin, begin + 1, 1});
      dropped.push_back(axis);
      cuts = true;
    }
    ++place;
  }
  return unlocked([&] {
    Tensor result = cuts ? strided_slice(x, strides) : x;
    if (!dropped.empty()) result = squeeze(result, dropped);
    for (int axis : added) result = expand_dims(result, axis);
    return result;
  });
}

/// True for the entries of x[..] that `part` understands.
bool is_plain_entry(nb::handle each) {
  PyObject* o = each.ptr();
  return o == Py_None || o == Py_Ellipsis || PySlice_Check(o) ||
         (PyLong_Check(o) && !PyBool_Check(o));
}

nb::object& other_parts() {
  static auto* f = new nb::object();
  return *f;
}

nb::object get_item(nb::handle self, nb::handle key) {
  const Tensor x = to_tensor(self);
  if (PyTuple_Check(key.ptr())) {
    const auto entries = nb::borrow<nb::tuple>(key);
    if (std::all_of(entries.begin(), entries.end(), is_plain_entry)) {
      return nb::cast(part(x, entries));
    }
  } else if (is_plain_entry(key)) {
    return nb::cast(part(x, nb::make_tuple(nb::borrow<nb::object>(key))));
  }
  return other_parts()(x, key);
}

// ---- Operators ----

using Binary = Tensor (*)(const Tensor&, const Tensor&);

/// What a type on the right says itself, as KerasTensor and complex values do.
bool speaks_for_itself(nb::handle value) {
  return nb::hasattr(value, "_tandem_symbolic") || nb::hasattr(value, "_is_complex");
}

nb::object applied(Binary op, nb::handle a, nb::handle b) {
  const auto [left, right] = operands(a, b);
  return nb::cast(unlocked([&] { return op(left, right); }));
}

Tensor true_div(const Tensor& a, const Tensor& b) {
  if (is_floating(a.dtype()) || is_floating(b.dtype())) return div(a, b);
  const bool fit_float32 = size_of(a.dtype()) <= 2 || size_of(b.dtype()) <= 2;
  const auto wide = [&](const Tensor& x) {
    return cast(x, fit_float32 ? DType::float32 : DType::float64);
  };
  return div(wide(a), wide(b));
}

struct Operator {
  const char* name;
  const char* reflected;
  Binary op;
};

constexpr Operator kOperators[] = {
    {"__add__", "__radd__", add},
    {"__sub__", "__rsub__", sub},
    {"__mul__", "__rmul__", mul},
    {"__truediv__", "__rtruediv__", true_div},
    {"__floordiv__", "__rfloordiv__", floor_div},
    {"__mod__", "__rmod__", mod},
    {"__pow__", "__rpow__", pow},
    {"__lt__", nullptr, less},
    {"__le__", nullptr, less_equal},
    {"__gt__", nullptr, greater},
    {"__ge__", nullptr, greater_equal},
    {"__and__", "__rand__", logical_and},
    {"__or__", "__ror__", logical_or},
    {"__xor__", "__rxor__", logical_xor},
};

nb::object not_implemented() { return nb::borrow<nb::object>(Py_NotImplemented); }

}  // namespace

/// Tensors and variables have the same operators.
template <class T>
void bind_operators(nb::class_<T>& type) {
  for (const Operator& each : kOperators) {
    const Binary op = each.op;
    type.def(
        each.name,
        [op](nb::handle a, nb::handle b) -> nb::object {
          if (!is_tensor(b) && speaks_for_itself(b)) return not_implemented();
          return applied(op, a, b);
        },
        "other"_a.none(), nb::is_operator());
    if (each.reflected == nullptr) continue;
    type.def(
        each.reflected,
        [op](nb::handle a, nb::handle b) -> nb::object { return applied(op, b, a); },
        "other"_a.none(), nb::is_operator());
  }
  type.def(
      "__matmul__",
      [](nb::handle a, nb::handle b) -> nb::object {
        if (!is_tensor(b) && speaks_for_itself(b)) return not_implemented();
        return applied([](const Tensor& x, const Tensor& y) { return matmul(x, y); }, a, b);
      },
      nb::is_operator());
  type.def(
      "__rmatmul__",
      [](nb::handle a, nb::handle b) {
        return applied([](const Tensor& x, const Tensor& y) { return matmul(x, y); }, b, a);
      },
      nb::is_operator());
  type.def("__neg__", [](nb::handle a) { return neg(to_tensor(a)); });
  type.def("__pos__", [](nb::handle a) { return to_tensor(a); });
  type.def("__abs__", [](nb::handle a) { return abs(to_tensor(a)); });
  type.def("__invert__", [](nb::handle a) { return logical_not(to_tensor(a)); });
  type.def("__getitem__", get_item, nb::arg().none());
}

template void bind_operators<Tensor>(nb::class_<Tensor>&);
template void bind_operators<Variable>(nb::class_<Variable>&);

void bind_tensor(nb::module_& m) {
  bind_conversions(m);
  m.def("set_other_parts", [](nb::object f) { other_parts() = std::move(f); });

  nb::class_<Size>(m, "Size", "The size of an axis that depends on the rows of a batch.")
      .def_prop_ro("extent", &Size::extent)
      .def("__int__", [](const Size& size) { return static_cast<int64_t>(size); })
      .def("times", [](const Size& size, int64_t factor) { return size * factor; })
      .def("__repr__", &Size::str);

  nb::class_<Tensor> type(
      m, "Tensor", nb::type_slots(tensor_slots), nb::dynamic_attr(), nb::is_weak_referenceable(),
      "An immutable value on a device, or one of a function that is being traced.");
  bind_operators(type);
  type.def_prop_ro("dtype", [](const Tensor& x) { return dtype_object(x.dtype()); })
      .def_prop_ro("_code", [](const Tensor& x) { return from_dtype(x.dtype()); })
      .def_prop_ro("_sizes", [](const Tensor& x) { return from_shape(x.shape()); })
      .def_prop_ro("_rank", [](const Tensor& x) { return x.rank(); })
      .def_prop_ro("_is_symbolic_shape", [](const Tensor& x) { return x.shape().is_symbolic(); })
      .def_prop_ro("_device", [](const Tensor& x) { return x.device(); })
      .def_prop_ro("_is_symbolic", &Tensor::is_symbolic)
      .def_prop_ro("_is_row_sparse", &Tensor::is_row_sparse)
      .def("_rows", &Tensor::rows)
      .def("_row_slices",
           [](const Tensor& x) {
             const RowSlices& slices = x.row_slices();
             return std::make_pair(slices.values, slices.indices);
           })
      .def("_same", [](const Tensor& a, const Tensor& b) { return a.body() == b.body(); })
      .def("_item",
           [](const Tensor& x) -> nb::object {
             const auto read = [&]<class T>(T) { return unlocked([&] { return x.item<T>(); }); };
             switch (x.dtype()) {
               case DType::float32:
                 return nb::float_(static_cast<double>(read(float{})));
               case DType::float64:
                 return nb::float_(read(double{}));
               case DType::uint8:
                 return nb::int_(static_cast<int>(read(uint8_t{})));
               case DType::int32:
                 return nb::int_(read(int32_t{}));
               case DType::int64:
                 return nb::int_(read(int64_t{}));
               case DType::boolean:
                 return nb::bool_(read(bool{}));
               case DType::int8:
                 return nb::int_(static_cast<int>(read(int8_t{})));
               case DType::int16:
                 return nb::int_(static_cast<int>(read(int16_t{})));
               case DType::uint16:
                 return nb::int_(static_cast<int>(read(uint16_t{})));
               case DType::uint32:
                 return nb::int_(read(uint32_t{}));
               case DType::uint64:
                 return nb::int_(read(uint64_t{}));
               case DType::float16:
               case DType::bfloat16:
                 break;
             }
             return nb::float_(static_cast<double>(
                 unlocked([&] { return cast(x, DType::float32).item<float>(); })));
           })
      .def("_str", [](const Tensor& x) { return unlocked([&] { return x.str(); }); });
}

}  // namespace tandem::python

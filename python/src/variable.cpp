// Variables.
#include "binding.h"

namespace tandem::python {

template <class T>
void bind_operators(nb::class_<T>& type);

void bind_variable(nb::module_& m) {
  nb::class_<Variable> type(m, "Variable", nb::dynamic_attr(), nb::is_weak_referenceable(),
                            "A named value that changes.");
  bind_operators(type);
  type.def("__init__", [](Variable* self, const Variable& same) { new (self) Variable(same); })
      .def(
          "__init__",
          [](Variable* self, const Tensor& initial, const std::string& name, bool trainable,
             int aggregation, int synchronization) {
            const VariableOptions options{
                .name = name,
                .trainable = trainable,
                .aggregation = static_cast<VariableAggregation>(aggregation),
                .synchronization = static_cast<VariableSynchronization>(synchronization)};
            const nb::gil_scoped_release released;
            new (self) Variable(initial, options);
          },
          "initial"_a, "name"_a = "Variable", "trainable"_a = true, "aggregation"_a = 0,
          "synchronization"_a = 0)
      .def_prop_ro("_name", &Variable::name)
      .def_prop_ro("dtype", [](const Variable& v) { return dtype_object(v.dtype()); })
      .def_prop_ro("_code", [](const Variable& v) { return from_dtype(v.dtype()); })
      .def_prop_ro("_sizes", [](const Variable& v) { return from_shape(v.shape()); })
      .def_prop_ro("_trainable", &Variable::trainable)
      .def("_same", [](const Variable& a, const Variable& b) { return a.body() == b.body(); })
      .def_prop_ro("_key",
                   [](const Variable& v) { return reinterpret_cast<uintptr_t>(v.body().get()); })
      .def("read_value", [](const Variable& v) { return unlocked([&] { return v.value(); }); })
      .def("_assign",
           [](const Variable& v, nb::handle value) {
             const Tensor tensor = to_tensor(value, {}, v.dtype());
             unlocked([&] { v.assign(tensor); });
           })
      .def("_assign_add",
           [](const Variable& v, nb::handle delta) {
             const Tensor tensor = to_tensor(delta, {}, v.dtype());
             unlocked([&] { v.assign_add(tensor); });
           })
      .def("_assign_sub", [](const Variable& v, nb::handle delta) {
        const Tensor tensor = to_tensor(delta, {}, v.dtype());
        unlocked([&] { v.assign_sub(tensor); });
      });
}

}  // namespace tandem::python

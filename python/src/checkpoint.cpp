// What checkpoints save and restore.
#include <nanobind/stl/filesystem.h>

#include "binding.h"

namespace tandem::python {

void bind_checkpoint(nb::module_& m) {
  using namespace train;
  nb::class_<Trackable>(m, "Trackable")
      .def(nb::init<>())
      .def_static("of_variable", [](const Variable& variable) { return Trackable(variable); })
      // A number, or bytes, that functions of Python give and take.
      .def_static(
          "of_number",
          [](nb::object save, nb::object restore) {
            const Callable get(std::move(save));
            const Callable set(std::move(restore));
            return Trackable(HostState<int64_t>{
                [get] {
                  return get.call([](const nb::object& f) { return nb::cast<int64_t>(f()); });
                },
                [set](const int64_t& value) { set.call([&](const nb::object& f) { f(value); }); }});
          })
      .def_static(
          "of_bytes",
          [](nb::object save, nb::object restore) {
            const Callable get(std::move(save));
            const Callable set(std::move(restore));
            return Trackable(HostState<std::string>{
                [get] {
                  return get.call([](const nb::object& f) {
                    const auto bytes = nb::cast<nb::bytes>(f());
                    return std::string(bytes.c_str(), bytes.size());
                  });
                },
                [set](const std::string& value) {
                  set.call([&](const nb::object& f) { f(nb::bytes(value.data(), value.size())); });
                }});
          })
      .def("track", [](const Trackable& self, const std::string& name,
                       const Trackable& child) { self.track(name, child, {.overwrite = true}); })
      .def("tracked_names", &Trackable::tracked_names);
  nb::class_<GatheredSlots>(m, "GatheredSlots")
      .def("__init__",
           [](GatheredSlots* self, nb::handle variables) {
             const Variables list = to_variables(variables);
             unlocked([&] { new (self) GatheredSlots(list); });
           })
      .def_prop_ro("has_parts", &GatheredSlots::has_parts);
  nb::class_<CheckpointStatus>(m, "CheckpointStatus")
      .def("assert_consumed", [](const CheckpointStatus& s) { s.assert_consumed(); })
      .def("assert_existing_objects_matched",
           [](const CheckpointStatus& s) { s.assert_existing_objects_matched(); })
      .def("expect_partial", [](const CheckpointStatus& s) { s.expect_partial(); })
      .def("report", [](const CheckpointStatus& s) {
        const RestoreReport report = s.report();
        return std::make_pair(report.matched, std::make_pair(report.unmatched_in_checkpoint,
                                                             report.unmatched_in_objects));
      });
  nb::class_<Checkpoint>(m, "Checkpoint")
      .def(nb::init<const Trackable&>())
      .def("save",
           [](const Checkpoint& self, const std::string& prefix) {
             return unlocked([&] { return self.save(prefix).string(); });
           })
      .def("write", [](const Checkpoint& self,
                       const std::string& path) { unlocked([&] { self.write(path); }); })
      .def(
          "restore",
          [](const Checkpoint& self, std::optional<std::string> path) {
            std::optional<std::filesystem::path> place;
            if (path) place = *path;
            return unlocked([&] { return self.restore(place); });
          },
          "path"_a.none())
      .def("save_counter", &Checkpoint::save_counter);
  nb::class_<CheckpointManager>(m, "CheckpointManager")
      .def("__init__",
           [](CheckpointManager* self, const Checkpoint& checkpoint, const std::string& folder,
              int max_to_keep, const std::string& name) {
             new (self) CheckpointManager(checkpoint, folder, {max_to_keep, name});
           })
      .def("save",
           [](CheckpointManager& self) { return unlocked([&] { return self.save().string(); }); })
      .def("checkpoints", [](const CheckpointManager& self) {
        std::vector<std::string> paths;
        for (const auto& path : self.checkpoints()) paths.push_back(path.string());
        return paths;
      });
  m.def("latest_checkpoint", [](const std::string& folder) -> std::optional<std::string> {
    const auto path = latest_checkpoint(folder);
    return path ? std::optional(path->string()) : std::nullopt;
  });
  nb::class_<CheckpointReader>(m, "CheckpointReader")
      .def("keys", &CheckpointReader::keys)
      .def("dtype_name", &CheckpointReader::dtype_name)
      .def("shape", [](const CheckpointReader& self,
                       const std::string& key) { return from_shape(self.shape(key)); })
      .def("tensor", &CheckpointReader::tensor);
  m.def("load_checkpoint", [](const std::string& path) { return load_checkpoint(path); });
}

}  // namespace tandem::python

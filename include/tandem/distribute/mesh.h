/// Models that are cut over several devices: a mesh of devices with named axes, and which axis of
/// which weight lies along them. Names and meanings are those of keras.distribution; see
/// tandem/keras/distribution.h.
///
///   distribute::DeviceMesh mesh({2, 2}, {"data", "model"});
///   distribute::LayoutMap layouts(mesh);
///   layouts["embeddings"] = {"model"};                              // by vocabulary
///   layouts["(query|key|value)/kernel"] = {"", "model"};            // by heads
///   layouts["up/kernel"] = {"", "model"};                           // by columns
///   layouts["(attention_output|down)/kernel"] = {"model"};          // by rows
///   distribute::ModelParallel strategy(layouts);
///
/// A layer's form follows from the layout of its kernel. Dense with a kernel that is cut by columns
/// leaves each device its part of the result, and with one that is cut by rows takes such parts and
/// sums what becomes of them. The result of a model is that of one device.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "tandem/distribute/strategy.h"

namespace tandem::distribute {

/// Devices in a grid whose axes have names. A cheap value.
class TANDEM_API DeviceMesh {
 public:
  /// `shape` is the size of each axis. `devices` are listed with the last axis running fastest;
  /// without names they are one of each process, where the environment names as many as the mesh
  /// has devices, else the first GPUs, else the first logical CPUs. Throws InvalidArgument where
  /// sizes, names and devices do not fit each other.
  DeviceMesh(const std::vector<int>& shape, const std::vector<std::string>& axis_names,
             const std::vector<std::string>& devices = {});

  const std::vector<int>& shape() const { return shape_; }
  const std::vector<std::string>& axis_names() const { return axis_names_; }
  const std::vector<std::string>& devices() const { return devices_; }

  bool has_axis(const std::string& name) const;
  /// The size of an axis; 1 where there is none of that name.
  int size(const std::string& name) const;

  /// "data 2 x model 2"
  std::string str() const;

 private:
  std::vector<int> shape_;
  std::vector<std::string> axis_names_;
  std::vector<std::string> devices_;
};

/// Names, for each axis of a tensor, the axis of the mesh along which it is cut. Along an axis with
/// an empty name or none it is whole on each device.
class TANDEM_API TensorLayout {
 public:
  TensorLayout() = default;
  TensorLayout(std::initializer_list<std::string> axes) : axes_(axes) {}
  explicit TensorLayout(std::vector<std::string> axes) : axes_(std::move(axes)) {}

  const std::vector<std::string>& axes() const { return axes_; }
  std::string str() const;  ///< "(-, model)"

 private:
  std::vector<std::string> axes_;
};

/// Which variables are cut, and how: by their paths, "dense/kernel", or by regular expressions that
/// are found in them. Variables that no key names are whole on each device.
class TANDEM_API LayoutMap {
 public:
  explicit LayoutMap(DeviceMesh device_mesh) : device_mesh_(std::move(device_mesh)) {}

  TensorLayout& operator[](const std::string& key);

  /// The layout of a variable, or null. Throws InvalidArgument where several regular expressions
  /// are found in the path, and for one that is none.
  const TensorLayout* find(const std::string& path) const;

  /// The axis of a variable that its layout cuts; -1: none.
  int cut_axis(const std::string& path) const;

  const DeviceMesh& device_mesh() const { return device_mesh_; }
  const std::vector<std::pair<std::string, TensorLayout>>& items() const { return items_; }

 private:
  DeviceMesh device_mesh_;
  std::vector<std::pair<std::string, TensorLayout>> items_;
};

/// Batches cut over all devices, each of which has the whole model: MirroredStrategy by Keras's
/// name.
class TANDEM_API DataParallel : public Strategy {
 public:
  /// On the named devices, or as MirroredStrategy without names.
  explicit DataParallel(const std::vector<std::string>& devices = {});
  /// On the devices of a mesh of one axis. Throws InvalidArgument for more.
  explicit DataParallel(const DeviceMesh& device_mesh);
};

struct ModelParallelOptions {
  std::string batch_dim_name = "data";  ///< The axis of the mesh along which batches are cut.
  /// Where the mesh has an axis "stage", as for PipelineStrategy; PipelineOptions::automatic also
  /// where it has none: then micro-batches go one after another through each device.
  int microbatches = 4;
  std::string schedule = "1f1b";
  int chunks = 1;
  std::vector<std::vector<std::string>> layers{};
  /// What each device of the mesh keeps a part of, over all of them, and where there are several
  /// stages over those of a stage. It goes for the weights that no layout cuts: those are in parts
  /// along their axis, with all that belongs to them. The devices of a stage then go through the
  /// micro-batches side by side, each with rows of its own of each, and meet where they sum to
  /// parts: `state` does that once a batch, `gradients` and `variables` with each micro-batch.
  /// `variables` are joined for each pass of each micro-batch, and freed behind it.
  Shard shard = Shard::nothing;
  /// Where the mesh is over several processes, as for MultiWorkerMirroredStrategy.
  CommunicationOptions communication{};
  cluster_resolver::ClusterResolverPtr cluster_resolver{};
};

/// Weights cut over the devices along one axis of a mesh, batches along the other, and along an
/// axis "stage" the layers, as by PipelineStrategy. To a step each device is a replica, and with
/// stages each micro-batch on each device of the first stage. Those that have the same rows compute
/// on their parts of the weights and meet within the layers; each has a share of the loss, so that
/// losses and gradients are summed over all, as ever. Each device keeps its own parts alone of the
/// weights that are cut, of their gradients and of an optimizer's slots, so a model may be larger
/// than the memory of any of them; with stages those of a stage do, which is chosen as by
/// PipelineStrategy. To the program such a variable is whole: its value, its shape and checkpoints
/// are those of one device, and nothing in them says which mesh they were trained on. Gradients of
/// it, inside strategy.run, are those of the replica's part.
///
/// The devices may be CPUs or GPUs, which need not share memory. Where they are those of several
/// tasks, as "/job:worker/task:1/device:CPU:0", there is one in each process, in the order of their
/// ranks, and the axes come in the order batch, stages, weights. A weight that is cut, or that the
/// stages of other processes keep, cannot be read outside of strategy.run then; all save a
/// checkpoint. Calls that meet other processes are those of MultiWorkerMirroredStrategy, and
/// saving.
class TANDEM_API ModelParallel : public Strategy {
 public:
  /// Throws InvalidArgument for layouts that the mesh has no axes for, and Unimplemented where it
  /// has more axes than these three.
  explicit ModelParallel(const LayoutMap& layout_map, const ModelParallelOptions& options = {});

  /// For the library's own use.
  explicit ModelParallel(std::shared_ptr<const Body> body) : Strategy(std::move(body)) {}
};

}  // namespace tandem::distribute

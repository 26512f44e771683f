// Runs the nodes of branches and loops inside a program. The regions of such a node are compiled
// like programs, and all threads of the replica walk the instructions of the region that is taken:
// each reads the condition itself, so none of them has to tell the others. On a queue the host
// reads it, and so waits. The node's workspace holds what the regions compute.
//
//   workspace    the loop's next values | the regions' arena | a table of addresses for each thread
//
// The gradient of a loop keeps more of them: see LoopGradient.
#include "graph/control_kernels.h"

#include <algorithm>
#include <cstring>

#include "core/alignment.h"
#include "core/interruptible.h"
#include "graph/program.h"
#include "op/hash.h"
#include "tandem/config.h"
#include "tensor/body.h"

namespace tandem::graph {
namespace {

/// A region compiled like a program of its own. Its memory is part of the node's workspace.
class RegionProgram {
 public:
  RegionProgram(const Region& region, int64_t rows, const devices::DevicePtr& device, int parts)
      : inputs_(region.inputs),
        program_(region.graph, 1),
        plan_(make_plan(program_, rows, device, parts, parts)) {
    const Graph& graph = program_.graph();
    fixed_ = ValueMap<void*>(graph.values.size());
    for (ValueId v : fixed_.ids()) {
      const Value& value = graph.at(v);
      if (value.source == Value::Source::constant) {
        constants_.push_back(on_device(value.constant, device));
        fixed_[v] = constants_.back().body()->data();
      }
    }
    for (const Instruction& instruction : program_.instructions()) {
      for (ValueId range : instruction.node.ranges) fix_variable(range, *device);
      for (ValueId input : instruction.node.inputs) fix_variable(graph.storage_of(input), *device);
    }
    for (ValueId result : graph.results) fix_variable(graph.storage_of(result), *device);
  }

  size_t addresses_bytes() const { return core::aligned(fixed_.size() * sizeof(void*)); }
  size_t arena_bytes() const { return core::aligned(plan_.arena_bytes); }
  const Graph& graph() const { return program_.graph(); }

  /// One thread's parts of a run. `argument(i)` and `result(i)` give the addresses of the node's
  /// input i and of the region's result i; `salt` tells one iteration's random numbers from
  /// another's.
  template <class Argument, class Result>
  void run(const op::Launch& outer, const op::Parts& parts, void** addresses, char* arena, int salt,
           Argument argument, Result result) const {
    const Graph& graph = program_.graph();
    std::ranges::copy(fixed_, addresses);
    for (size_t i = 0; i < graph.arguments.size(); ++i) {
      addresses[index_of(graph.arguments[i])] = argument(inputs_[i]);
    }
    for (size_t i = 0; i < graph.results.size(); ++i)
      addresses[index_of(graph.results[i])] = result(i);
    const auto& buffer_of = program_.memory().buffer_of;
    for (ValueId v : fixed_.ids()) {
      if (buffer_of[v] >= 0)
        addresses[index_of(v)] = arena + plan_.offsets[static_cast<size_t>(buffer_of[v])];
    }
    for (ValueId v : fixed_.ids()) {
      if (graph.at(v).source == Value::Source::alias) {
        addresses[index_of(v)] = addresses[index_of(graph.storage_of(v))];
      }
    }
    op::Launch launch = outer;
    launch.addresses = addresses;
    launch.workspaces = arena + plan_.workspace_offset;
    launch.workspace_stride = plan_.workspace_bytes;
    for (size_t i = 0; i < plan_.executables.size(); ++i) {
      run_instruction(i, parts, salt, launch);
    }
  }

 private:
  /// Variables that no instruction uses, since the trace reads them around the region, may be other
  /// devices'.
  void fix_variable(ValueId v, const devices::Device& device) {
    const Value& value = program_.graph().at(v);
    if (value.source == Value::Source::range) fixed_[v] = value.range.data(device);
  }

  void run_instruction(size_t i, const op::Parts& parts, int salt, op::Launch& launch) const {
    const Instruction& instruction = program_.instructions()[i];
    const op::Executable& executable = *plan_.executables[i];
    if (instruction.barrier != BarrierScope::none) launch.meet();
    launch.operands = plan_.operands[i].data();
    launch.inputs = static_cast<int>(instruction.node.inputs.size());
    launch.outputs = static_cast<int>(instruction.node.outputs.size());
    launch.random_call = instruction.node.random_call;
    launch.salt = salt;
    executable.play(launch, parts);
    if (executable.phases() > 1) launch.meet();  // The next instruction may use the workspaces.
  }

  const std::vector<int> inputs_;
  const Program program_;
  const Plan plan_;
  Tensors constants_;
  ValueMap<void*> fixed_;  // The addresses of values that no run changes.
};

/// What both kinds of control flow have: a workspace of an arena that the threads share, and a
/// table of addresses for each thread (in host memory, where the device's is not readable). The
/// threads meet when they come and when they go, so that to the instructions around it the node is
/// one piece.
class ControlFlow : public op::Executable {
 public:
  size_t workspace_bytes() const final {
    const size_t all = shared_ + own_ * static_cast<size_t>(parts_);
    return core::aligned((all + static_cast<size_t>(parts_) - 1) / static_cast<size_t>(parts_));
  }
  const char* provider() const final { return "control flow"; }

  void run(const op::Launch& launch) const final {
    op::Launch own = launch;
    play(own, {.first = launch.part});
  }

  void play(op::Launch& launch, const op::Parts& parts) const final {
    launch.meet();
    if (launch.queue == nullptr) {
      char* own = arena(launch) + shared_ + own_ * static_cast<size_t>(parts.first);
      run_regions(launch, parts, reinterpret_cast<void**>(own));
    } else {
      std::vector<void*> addresses(own_ / sizeof(void*));
      run_regions(launch, parts, addresses.data());
    }
    launch.meet();
  }

 protected:
  ControlFlow(const devices::Device& device, int parts) : parts_(parts), space_(device.space()) {}

  virtual void run_regions(const op::Launch& launch, const op::Parts& parts,
                           void** addresses) const = 0;

  void reserve(const RegionProgram& region, size_t more = 0) {
    shared_ = std::max(shared_, region.arena_bytes() + more);
    own_ = std::max(own_, region.addresses_bytes());
  }

  char* arena(const op::Launch& launch) const { return launch.workspace<char>(0); }

  /// What a region has decided. On a queue the host waits for it.
  bool is_true(const op::Launch& launch, const void* decision) const {
    if (launch.queue == nullptr) return *static_cast<const bool*>(decision);
    const auto here = std::make_shared<uint8_t>();
    launch.queue->copy(devices::host_memory(), here.get(), space_, decision, 1);
    launch.queue->hold(here);
    launch.queue->record().wait(config::wait_deadline());
    return *here != 0;
  }

  /// This thread's parts of `bytes`.
  void copy(const op::Launch& launch, const op::Parts& parts, void* to, const void* from,
            size_t bytes) const {
    if (launch.queue != nullptr) return launch.queue->copy(space_, to, space_, from, bytes);
    for (int i = 0; i < parts.count; ++i) {
      const auto [begin, end] =
          op::part_of(static_cast<int64_t>(bytes), parts.first + i * parts.stride, launch.parts);
      if (begin == end) continue;
      std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                  static_cast<size_t>(end - begin));
    }
  }

 private:
  const int parts_;
  devices::MemorySpace& space_;
  size_t shared_ = 0;
  size_t own_ = 0;
};

void* input(const op::Launch& launch, int i) { return launch.addresses[launch.operands[i]]; }
void* output(const op::Launch& launch, size_t i) {
  return launch.addresses[launch.operands[static_cast<size_t>(launch.inputs) + i]];
}

class Cond final : public ControlFlow {
 public:
  Cond(const Node& node, int64_t rows, const devices::DevicePtr& device, int parts)
      : ControlFlow(*device, parts),
        then_(*node.regions[0], rows, device, parts),
        otherwise_(*node.regions[1], rows, device, parts) {
    reserve(then_);
    reserve(otherwise_);
  }

 private:
  void run_regions(const op::Launch& launch, const op::Parts& parts,
                   void** addresses) const override {
    const RegionProgram& taken = is_true(launch, launch.in<bool>(0)) ? then_ : otherwise_;
    taken.run(
        launch, parts, addresses, arena(launch), launch.salt,
        [&](int i) { return input(launch, i); }, [&](size_t i) { return output(launch, i); });
  }

  const RegionProgram then_, otherwise_;
};

/// The loop's variables lie in the outputs; an iteration makes the next ones beside them.
class WhileLoop final : public ControlFlow {
 public:
  WhileLoop(const Node& node, const op::Signature& signature, int64_t rows,
            const devices::DevicePtr& device, int parts)
      : ControlFlow(*device, parts),
        most_(maximum_iterations(signature)),
        condition_(*node.regions[0], rows, device, parts),
        body_(*node.regions[1], rows, device, parts) {
    size_t end = core::kAlignment;  // The first bytes are the condition's result.
    for (const op::TensorType& type : signature.outputs) {
      bytes_.push_back(type.bytes());
      next_.push_back(end);
      end += core::aligned(bytes_.back());
    }
    results_bytes_ = end;
    reserve(condition_, end);
    reserve(body_, end);
  }

 private:
  void run_regions(const op::Launch& launch, const op::Parts& parts,
                   void** addresses) const override {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      copy(launch, parts, output(launch, i), input(launch, static_cast<int>(i)), bytes_[i]);
    }
    char* next = arena(launch);
    char* memory = next + results_bytes_;
    const auto argument = [&](int i) {
      const auto variable = static_cast<size_t>(i);
      return variable < bytes_.size() ? output(launch, variable) : input(launch, i);
    };
    core::LookInLoop interruption;
    for (int64_t iteration = 0; iteration < most_; ++iteration) {
      interruption.look();
      const int salt = static_cast<int>(
          op::mixed(static_cast<size_t>(launch.salt), static_cast<size_t>(iteration)));
      launch.meet();
      condition_.run(launch, parts, addresses, memory, salt, argument,
                     [&](size_t) -> void* { return next; });
      launch.meet();
      if (!is_true(launch, next)) break;
      body_.run(launch, parts, addresses, memory, salt, argument,
                [&](size_t i) -> void* { return next + next_[i]; });
      launch.meet();
      for (size_t i = 0; i < bytes_.size(); ++i) {
        copy(launch, parts, output(launch, i), next + next_[i], bytes_[i]);
      }
    }
  }

  const int64_t most_;
  const RegionProgram condition_, body_;
  std::vector<size_t> bytes_;  // The bytes of each loop variable.
  std::vector<size_t> next_;   // The offset of each variable's next value.
  size_t results_bytes_ = 0;
};

/// Bytes of values that lie one after another in a workspace.
class ValueLayout {
 public:
  void add(const op::TensorType& type) {
    offsets_.push_back(bytes_);
    sizes_.push_back(type.bytes());
    bytes_ += core::aligned(sizes_.back());
  }

  size_t count() const { return sizes_.size(); }
  size_t bytes() const { return bytes_; }
  size_t offset(size_t i) const { return offsets_[i]; }
  size_t size(size_t i) const { return sizes_[i]; }

 private:
  std::vector<size_t> offsets_, sizes_;
  size_t bytes_ = 0;
};

/// Runs a loop again, keeping what its variables were before each iteration, and then its
/// iterations backward. A workspace has one size, and how many iterations there are only a run
/// knows: so there are places for some of them. When they are full every other is given up, and
/// from then on only each second iteration is kept (each fourth, ..); going backward, those between
/// are computed again from the last one that was kept.
///
///   inputs       the variables | the gradients | what the regions capture
///   outputs      the gradients, which iterations change in place
///   workspace    decision | variables | next | kept iterations | the regions' arena
class LoopGradient final : public ControlFlow {
 public:
  LoopGradient(const Node& node, const op::Signature& signature, int64_t rows,
               const devices::DevicePtr& device, int parts)
      : ControlFlow(*device, parts),
        most_(maximum_iterations(signature)),
        condition_(*node.regions[0], rows, device, parts),
        body_(*node.regions[1], rows, device, parts),
        back_(*node.regions[2], rows, device, parts) {
    for (const op::TensorType& type : signature.outputs) gradients_.add(type);
    for (size_t i = 0; i < body_.graph().results.size(); ++i) variables_.add(signature.inputs[i]);
    places_ = places_for(variables_.bytes(), most_);
    next_ = core::kAlignment + variables_.bytes();
    kept_ = next_ + std::max(variables_.bytes(), gradients_.bytes());
    arena_ = kept_ + static_cast<size_t>(places_) * variables_.bytes();
    for (const RegionProgram* region : {&condition_, &body_, &back_}) reserve(*region, arena_);
  }

 private:
  /// Enough for most loops, within some memory unless the variables are large. It is even.
  static int64_t places_for(size_t bytes, int64_t most) {
    constexpr int64_t kFewest = 16, kMost = 4096;
    constexpr size_t kMemory = size_t{16} << 20;
    const auto fit = static_cast<int64_t>(kMemory / std::max<size_t>(bytes, 1));
    const int64_t places = std::min(std::clamp(fit, kFewest, kMost), most);
    return places + places % 2;
  }

  /// One thread's walk through the loop.
  struct LoopWalk {
    const LoopGradient& loop;
    const op::Launch& launch;
    const op::Parts& parts;
    void** addresses;
    char* memory;
    int64_t stride = 1;  // Each so many iterations one is kept.
    int64_t kept = 0;
    int64_t done = 0;
    core::LookInLoop interruption{};

    char* variables() const { return memory + core::kAlignment; }
    char* next() const { return memory + loop.next_; }
    char* place(int64_t i) const {
      return memory + loop.kept_ + static_cast<size_t>(i) * loop.variables_.bytes();
    }
    int salt(int64_t iteration) const {
      return static_cast<int>(
          op::mixed(static_cast<size_t>(launch.salt), static_cast<size_t>(iteration)));
    }

    void copy_variables(char* to, const char* from) const {
      for (size_t i = 0; i < loop.variables_.count(); ++i) {
        const size_t offset = loop.variables_.offset(i);
        loop.copy(launch, parts, to + offset, from + offset, loop.variables_.size(i));
      }
    }

    /// What the regions take: the variables, the gradients, then what they capture.
    void* argument(int i) const {
      const auto index = static_cast<size_t>(i);
      const size_t variables = loop.variables_.count();
      if (index < variables) return this->variables() + loop.variables_.offset(index);
      const bool is_gradient = index < variables + loop.gradients_.count();
      return is_gradient ? output(launch, index - variables) : input(launch, i);
    }

    template <class Result>
    void run(const RegionProgram& region, int64_t iteration, Result result) const {
      launch.meet();
      region.run(
          launch, parts, addresses, memory + loop.arena_, salt(iteration),
          [this](int i) { return argument(i); }, result);
      launch.meet();
    }

    bool goes_on() const {
      run(loop.condition_, done, [this](size_t) -> void* { return memory; });
      return loop.is_true(launch, memory);
    }

    void iterate(int64_t iteration) const {
      run(loop.body_, iteration,
          [this](size_t i) -> void* { return next() + loop.variables_.offset(i); });
      copy_variables(variables(), next());
    }

    /// Before iteration `done`.
    void keep() {
      if (done % stride != 0) return;
      if (kept == loop.places_) {
        kept /= 2;
        stride *= 2;
        for (int64_t i = 1; i < kept; ++i) copy_variables(place(i), place(2 * i));
      }
      copy_variables(place(kept++), variables());
    }

    void forward() {
      for (; done < loop.most_ && goes_on(); ++done) {
        interruption.look();
        keep();
        iterate(done);
      }
    }

    void backward(int64_t iteration) {
      interruption.look();
      copy_variables(variables(), place(iteration / stride));
      for (int64_t i = iteration - iteration % stride; i < iteration; ++i) iterate(i);
      run(loop.back_, iteration,
          [this](size_t i) -> void* { return next() + loop.gradients_.offset(i); });
      for (size_t i = 0; i < loop.gradients_.count(); ++i) {
        loop.copy(launch, parts, output(launch, i), next() + loop.gradients_.offset(i),
                  loop.gradients_.size(i));
      }
    }
  };

  void run_regions(const op::Launch& launch, const op::Parts& parts,
                   void** addresses) const override {
    LoopWalk walk{*this, launch, parts, addresses, arena(launch)};
    const size_t variables = variables_.count();
    for (size_t i = 0; i < variables; ++i) {
      copy(launch, parts, walk.variables() + variables_.offset(i),
           input(launch, static_cast<int>(i)), variables_.size(i));
    }
    for (size_t i = 0; i < gradients_.count(); ++i) {
      copy(launch, parts, output(launch, i), input(launch, static_cast<int>(variables + i)),
           gradients_.size(i));
    }
    walk.forward();
    for (int64_t i = walk.done; i-- > 0;) walk.backward(i);
  }

  const int64_t most_;
  const RegionProgram condition_, body_, back_;
  ValueLayout variables_, gradients_;
  int64_t places_ = 0;
  size_t next_ = 0, kept_ = 0, arena_ = 0;  // Where they begin in the workspace.
};

}  // namespace

op::ExecutablePtr prepare_control_flow(const Node& node, const op::Signature& signature,
                                       int64_t rows, const devices::DevicePtr& device, int parts) {
  if (node.op().name == "cond") return std::make_shared<Cond>(node, rows, device, parts);
  if (node.op().name == "while_loop_gradient") {
    return std::make_shared<LoopGradient>(node, signature, rows, device, parts);
  }
  return std::make_shared<WhileLoop>(node, signature, rows, device, parts);
}

}  // namespace tandem::graph

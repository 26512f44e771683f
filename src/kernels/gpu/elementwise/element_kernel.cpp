// Prints a kernel around the statements of an element. The serial form walks runs of the innermost
// axis, along which an input goes on or stays, and finds out once per run where each input is. The
// parallel form finds that out for each element.
#include "kernels/gpu/elementwise/element_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "kernels/text.h"

namespace tandem::kernels::gpu {
namespace {

/// Where a call would have too many arguments, parameters are part of the text after all.
bool are_arguments(const ElementText& text, const Loops& loops) {
  const size_t memories = text.inputs.size() + text.outputs.size() + (text.uses_step ? 1 : 0);
  return 2 * memories + loops.rank() + text.parameters.size() <= Call::kMostArguments;
}

class Printer {
 public:
  Printer(const ElementText& text, const Loops& loops) : text_(text), loops_(loops) {}

  std::string body() {
    add("KERNEL NAME({}) {{\n", parameters());
    for (size_t i = 0; i < text_.inputs.size(); ++i) {
      add("  const GLOBAL {0}* a{1} = AT(const {0}, {1});\n", type_name(text_.inputs[i]), i);
    }
    for (size_t i = 0; i < text_.outputs.size(); ++i) {
      add("  GLOBAL {0}* y{1} = AT({0}, {2});\n", type_name(text_.outputs[i]), i,
          text_.inputs.size() + i);
    }
    if (text_.uses_step) {
      add("  const GLOBAL char* step = AT(const char, {});\n",
          text_.inputs.size() + text_.outputs.size());
    }
    for (size_t i = 0; i < text_.parameters.size(); ++i) {
      if (!are_arguments(text_, loops_)) {
        add("  const double d{} = {};\n", i, text::number(nullptr, text_.parameters[i]).name);
      }
      add("  const C q{0} = (C)d{0};\n", i);
    }
    body_ += text_.before;
    for (size_t i = 0; i < text_.inputs.size(); ++i) {
      if (loops_.stays_everywhere(i)) load("  ", i, fmt::format("a{}[0]", i));
    }
    if (loops_.is_flat()) {
      flat();
    } else {
      nested();
    }
    body_ += "}\n";
    return std::move(body_);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
  }

  std::string parameters() const {
    std::string list;
    const size_t memories = text_.inputs.size() + text_.outputs.size() + (text_.uses_step ? 1 : 0);
    for (size_t i = 0; i < memories; ++i) list += fmt::format("MEMORY({}), ", i);
    for (size_t i = 0; i < loops_.rank(); ++i) list += fmt::format("i64 s{}, ", i);
    for (size_t i = 0; are_arguments(text_, loops_) && i < text_.parameters.size(); ++i) {
      list += fmt::format("double d{}, ", i);
    }
    list.resize(list.size() - 2);
    return list;
  }

  void load(const char* indent, size_t input, const std::string& from) {
    add("{}const {} x{} = {};\n", indent, type_name(text_.inputs[input]), input, from);
  }

  /// What is done with an element once its inputs are loaded. All of them are read before anything
  /// is written.
  void element(const std::string& index) {
    body_ += text_.statements;
    for (size_t i = 0; i < text_.results.size(); ++i) {
      add("    const {} z{} = {};\n", type_name(text_.outputs[i]), i, text_.results[i]);
    }
    for (size_t i = 0; i < text_.results.size(); ++i) add("    y{0}[{1}] = z{0};\n", i, index);
  }

  void flat() {
    body_ += "  INDEPENDENT EACH(i, s0) {\n";
    for (size_t i = 0; i < text_.inputs.size(); ++i) {
      if (!loops_.stays_everywhere(i)) load("    ", i, fmt::format("a{}[i]", i));
    }
    element("i");
    body_ += "  }\n";
  }

  void nested() {
    std::string count = "s0";
    for (size_t axis = 1; axis < loops_.rank(); ++axis) count += fmt::format(" * s{}", axis);
    add("  const i64 n = {};\n", count);
    const size_t last = loops_.rank() - 1;
    body_ += "#ifdef SERIAL\n";
    body_ += "  for (i64 i = n * GID() / GSIZE(), end = n * (GID() + 1) / GSIZE(); i < end;) {\n";
    add("    const i64 run = i / s{};\n", last);
    add("    const i64 first = i - run * s{};\n", last);
    add("    const i64 count = s{0} - first < end - i ? s{0} - first : end - i;\n", last);
    coordinates("run", last);
    for (size_t i = 0; i < text_.inputs.size(); ++i) run_of(i);
    body_ += "    INDEPENDENT for (i64 k = 0; k < count; ++k) {\n";
    for (size_t i = 0; i < text_.inputs.size(); ++i) {
      if (loops_.goes_on(i, last)) load("    ", i, fmt::format("b{}[k]", i));
    }
    element("i + k");
    body_ += "    }\n    i += count;\n  }\n";
    body_ += "#else\n  EACH(i, n) {\n";
    coordinates("i", loops_.rank());
    for (size_t i = 0; i < text_.inputs.size(); ++i) {
      if (loops_.goes_on_everywhere(i)) {
        load("    ", i, fmt::format("a{}[i]", i));
      } else if (!loops_.stays_everywhere(i)) {
        load("    ", i, fmt::format("a{}[{}]", i, offset(i, loops_.rank())));
      }
    }
    element("i");
    body_ += "  }\n#endif\n";
  }

  /// c0, c1, ..: where `index` is along the first `axes` axes.
  void coordinates(std::string index, size_t axes) {
    for (size_t axis = axes; axis-- > 1;) {
      add("    const i64 r{} = {} / s{};\n", axis, index, axis);
      add("    const i64 c{0} = {1} - r{0} * s{0};\n", axis, index);
      index = fmt::format("r{}", axis);
    }
    if (axes > 0) add("    const i64 c0 = {};\n", index);
  }

  /// Where an input is at the coordinates of the first `axes` axes, in elements of the axes along
  /// which it goes on.
  std::string offset(size_t input, size_t axes) const {
    std::string offset;
    for (size_t axis = 0; axis < axes; ++axis) {
      if (!loops_.goes_on(input, axis)) continue;
      offset = offset.empty() ? fmt::format("c{}", axis)
                              : fmt::format("({}) * s{} + c{}", offset, axis, axis);
    }
    return offset.empty() ? "0" : offset;
  }

  /// Where an input's run begins, or its one element for the run.
  void run_of(size_t input) {
    const size_t last = loops_.rank() - 1;
    if (loops_.goes_on_everywhere(input)) {
      add("    const GLOBAL {}* b{} = a{} + i;\n", type_name(text_.inputs[input]), input, input);
    } else if (loops_.goes_on(input, last)) {
      add("    const GLOBAL {}* b{} = a{} + ({}) * s{} + first;\n", type_name(text_.inputs[input]),
          input, input, offset(input, last), last);
    } else if (!loops_.stays_everywhere(input)) {
      load("    ", input, fmt::format("a{}[{}]", input, offset(input, last)));
    }
  }

  const ElementText& text_;
  const Loops& loops_;
  std::string body_;
};

}  // namespace

Loops::Loops(const op::TensorTypes& inputs, const Shape& result) : moves(inputs.size()) {
  for (int axis = 0; axis < result.rank(); ++axis) {
    if (result[axis] == 1) continue;
    std::vector<bool> along;
    for (const op::TensorType& input : inputs) {
      const int own = axis - (result.rank() - input.shape.rank());
      along.push_back(own >= 0 && input.shape[own] != 1);
    }
    const auto is_like_last = [&] {
      for (size_t i = 0; i < along.size(); ++i) {
        if (moves[i].back() != along[i]) return false;
      }
      return true;
    };
    if (!sizes.empty() && is_like_last()) {
      sizes.back() *= result[axis];
      continue;
    }
    sizes.push_back(result[axis]);
    for (size_t i = 0; i < along.size(); ++i) moves[i].push_back(along[i]);
  }
  if (sizes.empty()) {
    sizes.push_back(1);
    for (std::vector<bool>& along : moves) along.push_back(true);
  }
}

int64_t Loops::count() const {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

bool Loops::goes_on_everywhere(size_t input) const {
  return std::ranges::all_of(moves[input], [](bool on) { return on; });
}

bool Loops::stays_everywhere(size_t input) const {
  return std::ranges::none_of(moves[input], [](bool on) { return on; });
}

bool Loops::is_flat() const { return rank() == 1; }

ElementKernel::ElementKernel(const Device& device, const ElementText& text, const Loops& loops)
    : kernel_(device, {.name = text.name,
                       .words = text.words,
                       .functions = text.functions,
                       .body = Printer(text, loops).body()}),
      inputs_(text.inputs.size()),
      outputs_(text.outputs.size()),
      sizes_(loops.sizes),
      parameters_(are_arguments(text, loops) ? text.parameters : std::vector<double>()),
      uses_step_(text.uses_step) {}

void ElementKernel::run(const Launch& launch) const {
  Call call(launch, kernel_);
  for (size_t i = 0; i < inputs_; ++i) call.in(static_cast<int>(i));
  for (size_t i = 0; i < outputs_; ++i) call.out(static_cast<int>(i));
  issue(call, sizes_);
}

void ElementKernel::run(const Launch& launch, std::span<const void* const> operands,
                        std::span<const int64_t> sizes) const {
  Call call(launch, kernel_);
  for (const void* operand : operands) call.memory(operand);
  issue(call, sizes);
}

void ElementKernel::issue(Call& call, std::span<const int64_t> sizes) const {
  if (uses_step_) call.step();
  int64_t count = 1;
  for (const int64_t size : sizes) {
    call.whole(size);
    count *= size;
  }
  for (const double parameter : parameters_) call.real(parameter);
  call.each(count);
}

ExecutablePtr element_executable(const Device& device, const ElementText& text,
                                 const Loops& loops) {
  return op::executable(
      [kernel = ElementKernel(device, text, loops)](const Launch& launch) { kernel.run(launch); });
}

}  // namespace tandem::kernels::gpu

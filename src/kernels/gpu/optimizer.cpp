// The update ops of optimizers. A launch changes a few variables and their slots; what it does to
// an element is printed from the CPU's rules. Rate, step and condition are read on the device.
// While a fault stands variables stay as they are.
#include <fmt/format.h>

#include "kernels/gpu/gpu_kernel.h"
#include "kernels/update_rules.h"
#include "op/update.h"

namespace tandem::kernels::gpu {
namespace {

/// The most variables that a launch changes: with five operands each they fit into the arguments
/// that every device takes.
constexpr size_t kMostAtOnce = 8;

/// adam_rate() as a function of the dialect.
std::string_view adam_rate_function() {
  static const std::string function = [] {
    text::Listing listing;
    const auto name = [&](const char* name) { return text::Text{&listing, name}; };
    const text::Text rate =
        adam_rate(name("1.0"), name("rate"), name("t"), name("beta_1"), name("beta_2"));
    return fmt::format(
        "\nFN double adam_rate(double rate, double t, double beta_1, double beta_2) {{\n"
        "typedef double C;\n{}return {};\n}}\n",
        listing.str(), rate.name);
  }();
  return function;
}

/// Prints the kernel of an algorithm for so many variables.
class UpdateText {
 public:
  UpdateText(const Algorithm& algorithm, DType dtype, size_t slots, size_t variables)
      : algorithm_(algorithm), dtype_(dtype), slots_(slots), variables_(variables) {}

  KernelText text(const std::string& op) {
    KernelText text{.name = op, .words = types_of(dtype_), .body = body()};
    if (algorithm_.corrects_bias) text.functions.push_back(adam_rate_function());
    return text;
  }

 private:
  // Rate, step, condition and the fault word come first.
  static constexpr size_t kFirstOperand = 4;

  size_t operands() const { return 2 + slots_; }
  size_t operand(size_t variable, size_t k) const {
    return kFirstOperand + variable * operands() + k;
  }
  static std::string name(size_t k) {
    return k == 0 ? "g" : k == 1 ? "w" : fmt::format("s{}", k - 2);
  }

  std::string body() {
    std::string body = fmt::format("KERNEL NAME({}) {{\n", parameters());
    body += R"(
  if (AT(u32, 3)[0] != 0 || AT(u8, 2)[0] == 0) return;
  const i64 step = AT(i64, 1)[0];
  const int acts = (step + 1) % every == 0;
)";
    if (!algorithm_.adds_meanwhile) body += "  if (!acts) return;\n";
    body += scalars() + lists();
    body += "  for (int v = 0; v < variables; ++v) {\n";
    for (size_t k = 0; k < operands(); ++k) {
      body += fmt::format("    {}GLOBAL T* {}_ = {}_all[v];\n", k == 0 ? "const " : "", name(k),
                          name(k));
    }
    if (algorithm_.adds_meanwhile) {
      body += "    if (!acts) {\n" + loop(Rule::add) + "    } else {\n" + loop(algorithm_.rule) +
              "    }\n";
    } else {
      body += loop(algorithm_.rule);
    }
    return body + "  }\n}\n";
  }

  std::string parameters() const {
    std::string list;
    for (size_t i = 0; i < kFirstOperand; ++i) list += fmt::format("MEMORY({}), ", i);
    list += "i64 variables, i64 every, double beta_1, double beta_2, double weight_decay";
    for (size_t i = 2; i < 6; ++i) list += fmt::format(", double constant_{}", i);
    for (size_t v = 0; v < variables_; ++v) {
      for (size_t k = 0; k < operands(); ++k) list += fmt::format(", MEMORY({})", operand(v, k));
      list += fmt::format(", i64 count_{}", v);
    }
    return list;
  }

  /// q0 to q5, of which one item of a group computes what is costly.
  std::string scalars() const {
    std::string text = R"(
  const double given = AT(double, 0)[0];
)";
    text += algorithm_.corrects_bias ? R"(
  const double t = (double)(step / every + 1);
#ifdef SERIAL
  const double rate = adam_rate(given, t, beta_1, beta_2);
#else
  LOCAL double shared_rate[1];
  ONCE shared_rate[0] = adam_rate(given, t, beta_1, beta_2);
  BARRIER();
  const double rate = shared_rate[0];
#endif
)"
                                     : "  const double rate = given;\n";
    text += "  const C q0 = (C)rate;\n  const C q1 = (C)(given * weight_decay);\n";
    for (size_t i = 2; i < 6; ++i) text += fmt::format("  const C q{0} = (C)constant_{0};\n", i);
    return text;
  }

  std::string lists() const {
    std::string text;
    for (size_t k = 0; k < operands(); ++k) {
      std::string all;
      for (size_t v = 0; v < variables_; ++v) all += fmt::format("AT(T, {}), ", operand(v, k));
      text += fmt::format("  {}GLOBAL T* {}_all[{}] = {{{}}};\n", k == 0 ? "const " : "", name(k),
                          variables_, all);
    }
    std::string counts;
    for (size_t v = 0; v < variables_; ++v) counts += fmt::format("count_{}, ", v);
    return text + fmt::format("  const i64 counts[{}] = {{{}}};\n", variables_, counts);
  }

  std::string loop(Rule rule) const {
    const RuleText printed =
        dtype_ == DType::float32 ? print_rule<float>(rule) : print_rule<double>(rule);
    std::string text = "    INDEPENDENT EACH(i, counts[v]) {\n";
    for (size_t k = 0; k < operands(); ++k) {
      text += fmt::format("      const C {0} = {0}_[i];\n", name(k));
    }
    text += printed.statements + fmt::format("      w_[i] = {};\n", printed.w);
    for (size_t k = 0; k < printed.slots.size(); ++k) {
      text += fmt::format("      s{}_[i] = {};\n", k, printed.slots[k]);
    }
    return text + "    }\n";
  }

  const Algorithm algorithm_;
  const DType dtype_;
  const size_t slots_;
  const size_t variables_;
};

/// All variables lie end to end; a share is a run of chunks, which may cut and span many of them.
class Update final : public op::Executable {
 public:
  Update(const Signature& s, const Device& device)
      : algorithm_(algorithm_of(s.op->name, s.attrs)),
        every_(s.attrs.get<int64_t>("every")),
        chunks_(s.op->split(s).extent),
        element_(size_of(s.inputs[0].dtype)),
        layout_(s),
        at_once_(layout_.variables() == 1 ? 1 : kMostAtOnce),
        kernel_(device, UpdateText(algorithm_, s.inputs[0].dtype, layout_.slots_each(), at_once_)
                            .text(s.op->name)) {}

  void run(const Launch& launch) const override {
    const auto [first_chunk, end_chunk] = op::part_of(chunks_, launch);
    int64_t at = first_chunk * op::Split::kChunk;
    const int64_t end = std::min(end_chunk * op::Split::kChunk, layout_.elements());
    Piece pieces[kMostAtOnce];
    size_t count = 0;
    for (size_t variable = at < end ? layout_.variable_with(at) : 0; at < end; ++variable) {
      const int64_t stop = std::min(layout_.start(variable + 1), end);
      if (at < stop) pieces[count++] = {variable, at - layout_.start(variable), stop - at};
      at = stop;
      if (count == at_once_ || (at == end && count > 0)) {
        change(launch, {pieces, count});
        count = 0;
      }
    }
  }

 private:
  /// Elements of a variable.
  struct Piece {
    size_t variable = 0;
    int64_t first = 0;
    int64_t count = 0;
  };

  void change(const Launch& launch, std::span<const Piece> pieces) const {
    Call call(launch, kernel_);
    call.in(static_cast<int>(layout_.rate())).in(static_cast<int>(layout_.step()));
    call.in(static_cast<int>(layout_.condition())).guard();
    call.whole(static_cast<int64_t>(pieces.size())).whole(every_);
    const UpdateScalars& constants = algorithm_.constants;
    call.real(algorithm_.beta_1).real(algorithm_.beta_2).real(algorithm_.weight_decay);
    call.real(constants.momentum).real(constants.to_g).real(constants.to_g2);
    call.real(constants.epsilon);
    int64_t elements = 0;
    for (size_t i = 0; i < at_once_; ++i) {
      // Where there are fewer, the first fills up the arguments.
      const Piece& piece = pieces[i < pieces.size() ? i : 0];
      const size_t offset = static_cast<size_t>(piece.first) * element_;
      call.memory(launch.in<char>(static_cast<int>(piece.variable)) + offset);
      const auto pass = [&](size_t range) {
        call.memory(launch.range<char>(static_cast<int>(range)) + offset);
      };
      pass(layout_.variable(piece.variable));
      for (size_t k = 0; k < layout_.slots_each(); ++k) pass(layout_.slot(piece.variable, k));
      call.whole(piece.count);
      if (i < pieces.size()) elements += piece.count;
    }
    call.each(elements);
  }

  const Algorithm algorithm_;
  const int64_t every_;
  const int64_t chunks_;
  const size_t element_;
  const op::UpdateLayout layout_;
  const size_t at_once_;
  const Kernel kernel_;
};

}  // namespace

void register_optimizer(op::BackendKernels& kernels) {
  for (const char* name :
       {"sgd_update", "rmsprop_update", "adagrad_update", "adam_update", "accumulate_update"}) {
    add_kernel(kernels, name, {DType::float32, DType::float64},
               [](const Signature& s, const Device& device) -> ExecutablePtr {
                 return std::make_shared<Update>(s, device);
               });
  }
}

}  // namespace tandem::kernels::gpu

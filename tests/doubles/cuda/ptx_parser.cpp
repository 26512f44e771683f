// Reads the text that NVRTC writes. Registers need no declarations here, so those are passed over.
//
// A function's code stands in each kernel that calls it, once, with registers and memory of its
// own: none calls itself, so a call is a jump that leaves the way back in a slot, and what it
// passes on is copied from the caller's memory to the function's.
#include <fmt/format.h>

#include <charconv>
#include <cstring>

#include "ptx_operations.h"
#include "ptx_program.h"

namespace tandem::doubles::ptx {
namespace {

using Words = std::vector<std::string>;

std::string trim(const std::string& text) {
  constexpr const char* kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

/// At `separator`, but not within brackets.
Words split(const std::string& text, char separator) {
  Words parts;
  std::string part;
  int depth = 0;
  for (const char letter : text) {
    if (letter == '{' || letter == '[' || letter == '(') ++depth;
    if (letter == '}' || letter == ']' || letter == ')') --depth;
    if (letter == separator && depth == 0) {
      parts.push_back(trim(part));
      part.clear();
    } else {
      part += letter;
    }
  }
  if (!trim(part).empty()) parts.push_back(trim(part));
  return parts;
}

Words words_of(const std::string& text) {
  Words words;
  std::string word;
  for (const char letter : text + " ") {
    if (letter == ' ' || letter == '\t' || letter == '\n' || letter == '\r') {
      if (!word.empty()) words.push_back(word);
      word.clear();
    } else {
      word += letter;
    }
  }
  return words;
}

std::string without_comments(const std::string& text) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "//") == 0) {
      i = text.find('\n', i);
      if (i == std::string::npos) break;
    } else if (text.compare(i, 2, "/*") == 0) {
      i = text.find("*/", i) + 2;
    }
    result += text[i];
  }
  return result;
}

/// A number as PTX writes it: 12, -3, 0x1F, 0f3F800000, 0d3FF0000000000000.
bool parse_number(const std::string& text, uint64_t& value) {
  if (text.empty()) return false;
  const bool negative = text[0] == '-';
  std::string digits = negative ? text.substr(1) : text;
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0' && std::strchr("xXfFdD", digits[1]) != nullptr) {
    base = 16;
    digits = digits.substr(2);
  }
  if (!digits.empty() && digits.back() == 'U') digits.pop_back();
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size() || digits.empty()) return false;
  if (negative) value = ~value + 1;
  return true;
}

/// `.param .align 8 .b8 name[16] = {..}`: what is declared.
struct PtxVariable {
  std::string name;
  Type type = Type::b8;
  size_t align = 0;
  size_t bytes = 0;
  Words values{};
};

PtxVariable variable_of(const std::string& declaration) {
  PtxVariable variable;
  const size_t equals = declaration.find('=');
  std::string head = trim(declaration.substr(0, equals));
  if (equals != std::string::npos) {
    std::string values = trim(declaration.substr(equals + 1));
    if (values.starts_with('{')) values = values.substr(1, values.size() - 2);
    variable.values = split(values, ',');
  }
  size_t count = 1;
  if (const size_t bracket = head.find('['); bracket != std::string::npos) {
    uint64_t number = 0;
    const size_t end = head.find(']', bracket);
    if (parse_number(trim(head.substr(bracket + 1, end - bracket - 1)), number)) count = number;
    head = trim(head.substr(0, bracket));
  }
  const Words words = words_of(head);
  for (size_t i = 0; i < words.size(); ++i) {
    const Type type = words[i].starts_with('.') ? type_of(words[i].substr(1)) : Type::none;
    if (type != Type::none) variable.type = type;
    if (words[i] == ".align") variable.align = std::stoul(words[++i]);
  }
  variable.name = words.back();
  variable.bytes = count * bytes_of(variable.type);
  variable.align = std::max({variable.align, bytes_of(variable.type), size_t{1}});
  return variable;
}

size_t place(size_t& end, const PtxVariable& variable) {
  const size_t offset = (end + variable.align - 1) / variable.align * variable.align;
  end = offset + variable.bytes;
  return offset;
}

/// A function or a kernel, before it is decoded.
struct PtxSource {
  std::string name;
  std::vector<PtxVariable> results{};
  std::vector<PtxVariable> parameters{};
  Words statements{};  // Labels end with a colon.
};

/// The names of a module.
struct Names {
  std::map<std::string, PtxSource> functions{};
  std::map<std::string, uint64_t> globals{};    // Their addresses.
  std::map<std::string, PtxVariable> shared{};  // Declared outside of kernels.
};

/// Writes the code of a kernel.
class Writer {
 public:
  Writer(const Names& names, PtxKernel& kernel) : names_(names), kernel_(kernel) {}

  void write(const PtxSource& source) {
    kernel_.name = source.name;
    for (const PtxVariable& parameter : source.parameters) {
      const size_t offset = place(kernel_.parameter_bytes, parameter);
      symbols_[parameter.name] = {Space::parameter, offset};
      kernel_.parameters.push_back({offset, parameter.bytes});
    }
    for (const auto& [name, variable] : names_.shared) {
      symbols_[name] = {Space::shared, place(kernel_.shared_bytes, variable)};
    }
    write_body(source);
    write_functions();
    resolve();
    kernel_.local_bytes = (kernel_.local_bytes + 15) / 16 * 16;
  }

 private:
  struct Symbol {
    Space space = Space::global;
    uint64_t offset = 0;
  };
  /// What a function needs besides its code.
  struct Callee {
    const PtxSource* source = nullptr;
    std::string label;
    int32_t way_back = 0;
    std::vector<size_t> results{};
    std::vector<size_t> parameters{};
  };

  [[noreturn]] void fail(const std::string& why) const {
    throw PtxError(fmt::format("{}: '{}': {}", kernel_.name, statement_, why));
  }

  void write_body(const PtxSource& source) {
    for (const std::string& statement : source.statements) {
      statement_ = statement;
      if (statement == "{") {
        blocks_.emplace_back();
      } else if (statement == "}") {
        blocks_.pop_back();
      } else if (statement.back() == ':') {
        labels_[scope_ + statement.substr(0, statement.size() - 1)] = kernel_.code.size();
        last_label_ = statement.substr(0, statement.size() - 1);
      } else if (statement[0] == '.') {
        declare(statement);
      } else {
        write_statement(statement);
      }
    }
    emit({.step = ends()});
  }

  /// The bodies of all functions that are called, which may call others.
  void write_functions() {
    for (size_t i = 0; i < waiting_.size(); ++i) {
      const std::string name = waiting_[i];
      const Callee& callee = callees_.at(name);
      scope_ = name + ":";
      way_back_ = callee.way_back;
      for (size_t k = 0; k < callee.source->parameters.size(); ++k) {
        symbols_[callee.source->parameters[k].name] = {Space::local, callee.parameters[k]};
      }
      for (size_t k = 0; k < callee.source->results.size(); ++k) {
        symbols_[callee.source->results[k].name] = {Space::local, callee.results[k]};
      }
      labels_[callee.label] = kernel_.code.size();
      write_body(*callee.source);
    }
  }

  Step ends() const { return way_back_ < 0 ? &steps::end : &steps::return_to; }

  void resolve() {
    const auto find = [&](const std::string& label) {
      const auto found = labels_.find(label);
      if (found == labels_.end()) throw PtxError(kernel_.name + ": there is no label " + label);
      return kernel_.code.data() + found->second;
    };
    for (const auto& [at, label] : jumps_) kernel_.code[at].target = find(label);
    for (const auto& [at, index] : skips_) kernel_.code[at].target = kernel_.code.data() + index;
    for (const auto& labels : tables_) {
      kernel_.tables.emplace_back();
      for (const std::string& label : labels) kernel_.tables.back().push_back(find(label));
    }
  }

  size_t emit(PtxInstruction instruction) {
    if (instruction.step == &steps::return_to) instruction.a = way_back_;
    kernel_.code.push_back(instruction);
    kernel_.text.push_back(statement_);
    return kernel_.code.size() - 1;
  }

  // ---- Names ----

  int32_t slot_of(const std::string& name) {
    static const std::map<std::string, int32_t> kSpecial{
        {"%tid.x", kThreadX},    {"%tid.y", kThreadY},    {"%tid.z", kThreadZ},
        {"%ntid.x", kThreadsX},  {"%ntid.y", kThreadsY},  {"%ntid.z", kThreadsZ},
        {"%ctaid.x", kBlockX},   {"%ctaid.y", kBlockY},   {"%ctaid.z", kBlockZ},
        {"%nctaid.x", kBlocksX}, {"%nctaid.y", kBlocksY}, {"%nctaid.z", kBlocksZ},
        {"%laneid", kLane},      {"_", kScratch}};
    if (const auto found = kSpecial.find(name); found != kSpecial.end()) return found->second;
    for (const char* other :
         {"%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid", "%clock", "%lanemask",
          "%globaltimer", "%cluster", "%total_smem", "%dynamic_smem", "%envreg"}) {
      if (name.starts_with(other)) fail("register '" + name + "' is not known here");
    }
    for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) {
      if (const auto own = block->find(name); own != block->end()) return own->second;
    }
    const auto [found, is_new] = registers_.try_emplace(scope_ + name, kernel_.slots);
    if (is_new) ++kernel_.slots;
    return found->second;
  }

  int32_t constant(uint64_t value) {
    const auto [found, is_new] = constants_.try_emplace(value, kernel_.slots);
    if (is_new) {
      kernel_.constants.emplace_back(kernel_.slots, value);
      ++kernel_.slots;
    }
    return found->second;
  }

  /// A name of memory, as a number.
  bool find_symbol(const std::string& name, Symbol& symbol) const {
    if (const auto found = symbols_.find(name); found != symbols_.end()) {
      symbol = found->second;
      return true;
    }
    const auto found = names_.globals.find(name);
    if (found == names_.globals.end()) return false;
    symbol = {Space::global, found->second};
    return true;
  }

  int32_t operand(const std::string& text) {
    if (text[0] == '%' || text == "_") return slot_of(text);
    if (text[0] == '!') {
      emit({.step = &steps::negate, .d = kScratchAlso, .a = slot_of(text.substr(1))});
      return kScratchAlso;
    }
    uint64_t number = 0;
    if (parse_number(text, number)) return constant(number);
    Symbol symbol;
    if (find_symbol(text, symbol)) return constant(symbol.offset);
    fail("operand '" + text + "' is not known here");
  }

  /// `[%rd1+16]` or `[name+16]`: sets the slot and the number, and says which memory a name is of.
  Space address(const std::string& text, Space named, PtxInstruction& instruction) {
    const std::string inner = trim(text.substr(1, text.size() - 2));
    const size_t sign = inner.find_first_of("+-", 1);
    const std::string base = trim(inner.substr(0, sign));
    uint64_t offset = 0;
    if (sign != std::string::npos) {
      const size_t digits = inner[sign] == '+' ? sign + 1 : sign;
      if (!parse_number(trim(inner.substr(digits)), offset)) fail("offset of '" + text + "'");
    }
    instruction.number = offset;
    if (base[0] == '%') {
      instruction.a = slot_of(base);
      return named;
    }
    instruction.a = constant(0);
    uint64_t absolute = 0;
    if (parse_number(base, absolute)) {
      instruction.number += absolute;
      return named;
    }
    Symbol symbol;
    if (!find_symbol(base, symbol)) fail("address '" + text + "' is not known here");
    instruction.number += symbol.offset;
    return symbol.space;
  }

  // ---- Statements ----

  void declare(const std::string& statement) {
    if (statement.starts_with(".branchtargets")) {
      Words labels = split(statement.substr(std::strlen(".branchtargets")), ',');
      for (std::string& label : labels) label = scope_ + label;
      table_of_[scope_ + last_label_] = tables_.size();
      tables_.push_back(std::move(labels));
      return;
    }
    if (statement.starts_with(".reg") && !blocks_.empty()) return declare_in_block(statement);
    const bool shared = statement.starts_with(".shared");
    if (!shared && !statement.starts_with(".local") && !statement.starts_with(".param")) return;
    const PtxVariable variable = variable_of(statement);
    symbols_[variable.name] = shared ? Symbol{Space::shared, place(kernel_.shared_bytes, variable)}
                                     : Symbol{Space::local, place(kernel_.local_bytes, variable)};
  }

  /// `.reg .u32 %r0, %r1`: these registers are the block's, though others outside of it have the
  /// same names.
  void declare_in_block(const std::string& statement) {
    if (statement.find('<') != std::string::npos) fail("many registers of a block");
    const size_t names = statement.find_first_of(" \t", statement.rfind('.'));
    for (const std::string& name : split(statement.substr(names), ',')) {
      blocks_.back()[name] = kernel_.slots++;
    }
  }

  void write_statement(std::string statement) {
    int32_t guard = -1;
    bool unless = false;
    if (statement[0] == '@') {
      const size_t end = statement.find_first_of(" \t");
      unless = statement[1] == '!';
      guard = slot_of(statement.substr(unless ? 2 : 1, end - (unless ? 2 : 1)));
      statement = trim(statement.substr(end));
    }
    const size_t end = std::min(statement.find_first_of(" \t\n("), statement.size());
    const Opcode opcode(statement.substr(0, end));
    const Words operands = split(trim(statement.substr(end)), ',');
    if (guard >= 0 && opcode.name == "bra") {
      jump(emit({.step = unless ? &steps::skip_unless : &steps::skip_if, .a = guard}), operands[0]);
      return;
    }
    size_t skip = 0;
    if (guard >= 0) {
      skip = emit({.step = unless ? &steps::skip_if : &steps::skip_unless, .a = guard});
    }
    write_instruction(opcode, operands);
    if (guard >= 0) skips_.emplace_back(skip, kernel_.code.size());
  }

  void jump(size_t at, const std::string& label) { jumps_.emplace_back(at, scope_ + label); }

  void write_instruction(const Opcode& opcode, const Words& operands) {
    const std::string& name = opcode.name;
    if (name == "bra") {
      jump(emit({.step = &steps::branch}), operands[0]);
    } else if (name == "brx") {
      branches_by_index(operands);
    } else if (name == "call") {
      write_call(opcode, operands);
    } else if (name == "ret") {
      emit({.step = ends()});
    } else if (name == "exit") {
      emit({.step = &steps::end});
    } else if (name == "trap") {
      emit({.step = &steps::trap});
    } else if (name == "bar" || name == "barrier") {
      write_barrier(opcode);
    } else if (name == "membar" || name == "fence" || name == "prefetch" || name == "prefetchu") {
      emit({.step = &steps::nothing});
    } else if (name == "ld" || name == "ldu") {
      write_access(opcode, operands[0], operands[1], load_step);
    } else if (name == "st") {
      write_access(opcode, operands[1], operands[0], store_step);
    } else if (name == "atom" || name == "red") {
      write_atomic(opcode, operands);
    } else if (name == "setp") {
      write_comparison(opcode, operands);
    } else if (name == "cvta") {
      write_conversion_of_address(opcode, operands);
    } else if (name == "mov" && operands[0][0] == '{') {
      write_unpack(opcode, operands);
    } else if (name == "mov" && operands[1][0] == '{') {
      write_pack(opcode, operands);
    } else {
      write_plain(opcode, operands);
    }
  }

  void write_plain(const Opcode& opcode, const Words& operands) {
    PtxInstruction instruction;
    if (operands.size() < 2) fail("it is not known here");
    instruction.d = slot_of(operands[0]);
    int32_t* const sources[] = {&instruction.a, &instruction.b, &instruction.c, &instruction.e};
    for (size_t i = 1; i < operands.size() && i <= std::size(sources); ++i) {
      *sources[i - 1] = operand(operands[i]);
    }
    try {
      instruction.step = step_of(opcode, instruction);
    } catch (const PtxError& error) {
      fail(error.what());
    }
    emit(instruction);
    const bool saturates = opcode.has("sat") && opcode.name != "cvt";
    if (saturates && opcode.type != Type::f32) fail("saturation is not known here");
    if (saturates) emit({.step = &steps::saturate, .d = instruction.d});
  }

  void write_barrier(const Opcode& opcode) {
    if (opcode.has("warp")) return static_cast<void>(emit({.step = &steps::nothing}));
    if (!opcode.has("sync")) fail("barriers other than sync are not known here");
    kernel_.has_barrier = true;
    emit({.step = &steps::wait});
  }

  static Space space_of(const Opcode& opcode) {
    for (const std::string& word : opcode.words) {
      if (word == "global" || word == "const") return Space::global;
      if (word.starts_with("shared")) return Space::shared;
      if (word == "local") return Space::local;
      if (word.starts_with("param")) return Space::parameter;
    }
    return Space::generic;
  }

  template <class Choose>
  void write_access(const Opcode& opcode, const std::string& values, const std::string& where,
                    const Choose& choose) {
    PtxInstruction instruction;
    Words names{values};
    if (values[0] == '{') names = split(values.substr(1, values.size() - 2), ',');
    int32_t* const slots[] = {&instruction.d, &instruction.b, &instruction.c, &instruction.e};
    if (names.size() != 1 && names.size() != 2 && names.size() != 4) fail("number of values");
    for (size_t i = 0; i < names.size(); ++i) *slots[i] = operand(names[i]);
    const Space space = address(where, space_of(opcode), instruction);
    instruction.range = kernel_.ranges++;
    instruction.step = choose(opcode.type, space, names.size());
    emit(instruction);
  }

  void write_atomic(const Opcode& opcode, const Words& operands) {
    PtxInstruction instruction;
    const size_t first = opcode.name == "atom" ? 1 : 0;
    if (first == 1) instruction.d = slot_of(operands[0]);
    const Space space = address(operands[first], space_of(opcode), instruction);
    instruction.b = operand(operands[first + 1]);
    if (operands.size() > first + 2) instruction.c = operand(operands[first + 2]);
    instruction.range = kernel_.ranges++;
    instruction.step = atomic_step(opcode, space);
    emit(instruction);
  }

  /// `setp.lt.and.f32 p|q, a, b, c`: p is whether a < b and c, q whether not a < b and c.
  void write_comparison(const Opcode& opcode, const Words& operands) {
    const Words results = split(operands[0], '|');
    PtxInstruction compare{.a = operand(operands[1]), .b = operand(operands[2])};
    try {
      compare.step = compare_step(opcode);
    } catch (const PtxError& error) {
      fail(error.what());
    }
    if (operands.size() == 3 && results.size() == 1) {
      compare.d = slot_of(results[0]);
      emit(compare);
      return;
    }
    compare.d = kScratch;
    emit(compare);
    const int32_t with = operands.size() > 3 ? operand(operands[3]) : constant(1);
    const char* const name = opcode.has("or")    ? "or.pred"
                             : opcode.has("xor") ? "xor.pred"
                                                 : "and.pred";
    for (size_t i = 0; i < results.size(); ++i) {
      if (i == 1) emit({.step = &steps::negate, .d = kScratch, .a = kScratch});
      PtxInstruction combine{.d = slot_of(results[i]), .a = kScratch, .b = with};
      combine.step = step_of(Opcode(name), combine);
      emit(combine);
    }
  }

  void write_conversion_of_address(const Opcode& opcode, const Words& operands) {
    const bool back = opcode.has("to");
    PtxInstruction instruction{
        .step = &steps::move, .d = slot_of(operands[0]), .a = operand(operands[1])};
    const Space space = space_of(opcode);
    if (space == Space::shared)
      instruction.step = back ? &steps::from_shared : &steps::shared_address;
    if (space == Space::local) instruction.step = back ? &steps::from_local : &steps::local_address;
    emit(instruction);
  }

  /// The bits of each of several registers that make up one.
  int32_t bits_of_part(const Opcode& opcode, const Words& parts) const {
    return static_cast<int32_t>(8 * bytes_of(opcode.type) / parts.size());
  }

  void write_unpack(const Opcode& opcode, const Words& operands) {
    const Words parts = split(operands[0].substr(1, operands[0].size() - 2), ',');
    const int32_t bits = bits_of_part(opcode, parts);
    const int32_t from = operand(operands[1]);
    for (size_t i = 0; i < parts.size(); ++i) {
      emit({.step = &steps::extract,
            .d = slot_of(parts[i]),
            .a = from,
            .b = bits,
            .number = i * static_cast<size_t>(bits)});
    }
  }

  void write_pack(const Opcode& opcode, const Words& operands) {
    const Words parts = split(operands[1].substr(1, operands[1].size() - 2), ',');
    const int32_t bits = bits_of_part(opcode, parts);
    for (size_t i = 0; i < parts.size(); ++i) {
      emit({.step = &steps::insert,
            .d = slot_of(operands[0]),
            .a = operand(parts[i]),
            .b = bits,
            .number = i * static_cast<size_t>(bits)});
    }
  }

  void branches_by_index(const Words& operands) {
    emit({.step = &steps::branch_by_index, .a = operand(operands[0])});
    const auto found = table_of_.find(scope_ + operands[1]);
    if (found == table_of_.end()) fail("its table is not known");
    kernel_.code.back().number = found->second;
  }

  // ---- Calls ----

  Callee& callee_of(const std::string& name) {
    const auto source = names_.functions.find(name);
    if (source == names_.functions.end()) fail("there is no function " + name);
    const auto [found, is_new] = callees_.try_emplace(name);
    Callee& callee = found->second;
    if (!is_new) return callee;
    callee.source = &source->second;
    callee.label = name + ":()";
    callee.way_back = kernel_.slots++;
    for (const PtxVariable& result : callee.source->results) {
      callee.results.push_back(place(kernel_.local_bytes, result));
    }
    for (const PtxVariable& parameter : callee.source->parameters) {
      callee.parameters.push_back(place(kernel_.local_bytes, parameter));
    }
    waiting_.push_back(name);
    return callee;
  }

  void copy(size_t to, size_t from, size_t bytes) {
    emit({.step = &steps::copy_local,
          .d = static_cast<int32_t>(to),
          .a = static_cast<int32_t>(from),
          .number = bytes});
  }

  size_t local_offset(const std::string& name) {
    Symbol symbol;
    if (!find_symbol(name, symbol)) fail("parameter '" + name + "' is not known here");
    return symbol.offset;
  }

  /// `call (result), name, (parameters)`; both lists may be missing.
  void write_call(const Opcode&, const Words& operands) {
    const auto list = [](const std::string& text) {
      return split(text.substr(1, text.size() - 2), ',');
    };
    size_t next = 0;
    Words results;
    if (operands[next][0] == '(') results = list(operands[next++]);
    const std::string name = operands[next++];
    Words parameters;
    if (next < operands.size()) parameters = list(operands[next]);
    const Callee& callee = callee_of(name);
    if (scope_ == name + ":") fail("functions that call themselves are not known here");
    for (size_t i = 0; i < parameters.size(); ++i) {
      copy(callee.parameters.at(i), local_offset(parameters[i]),
           callee.source->parameters[i].bytes);
    }
    jumps_.emplace_back(emit({.step = &steps::call, .d = callee.way_back}), callee.label);
    for (size_t i = 0; i < results.size(); ++i) {
      copy(local_offset(results[i]), callee.results.at(i), callee.source->results[i].bytes);
    }
  }

  const Names& names_;
  PtxKernel& kernel_;
  std::string statement_;  // The one that is being written.
  std::string scope_;      // What names of registers and labels begin with in a function.
  std::string last_label_;
  int32_t way_back_ = -1;  // The slot that a function returns by.
  std::map<std::string, int32_t> registers_;
  std::vector<std::map<std::string, int32_t>> blocks_;  // Those of the blocks at hand, by name.
  std::map<uint64_t, int32_t> constants_;
  std::map<std::string, Symbol> symbols_;
  std::map<std::string, size_t> labels_;
  std::vector<std::pair<size_t, std::string>> jumps_;
  std::vector<std::pair<size_t, size_t>> skips_;
  std::vector<Words> tables_;
  std::map<std::string, size_t> table_of_;
  std::map<std::string, Callee> callees_;
  Words waiting_;  // Functions in the order in which they are first called.
};

/// Cuts a module's text into what it declares.
class Reader {
 public:
  explicit Reader(const std::string& text) : text_(without_comments(text)) {}

  std::unique_ptr<PtxModule> read() {
    auto module = std::make_unique<PtxModule>();
    while (skip_space(), at_ < text_.size()) read_declaration(*module);
    for (const PtxSource& source : kernels_) {
      auto kernel = std::make_unique<PtxKernel>();
      Writer(names_, *kernel).write(source);
      module->kernels[source.name] = std::move(kernel);
    }
    return module;
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_]) != nullptr) ++at_;
  }

  void read_declaration(PtxModule& module) {
    if (is_line(".version") || is_line(".target") || is_line(".address_size")) {
      at_ = std::min(text_.find('\n', at_), text_.size());
      return;
    }
    const size_t body = text_.find_first_of("{;=", at_);
    if (body == std::string::npos) {
      const std::string rest = trim(text_.substr(at_));
      at_ = text_.size();
      if (rest.empty() || rest[0] == '\0') return;
      throw PtxError("the text ends within '" + rest + "'");
    }
    const std::string head = trim(text_.substr(at_, body - at_));
    const bool is_kernel = head.find(".entry") != std::string::npos;
    if (is_kernel || head.find(".func") != std::string::npos) {
      at_ = body + 1;
      if (text_[body] != '{') return;  // It is defined later on.
      PtxSource source = source_of(head, is_kernel);
      read_body(source);
      if (is_kernel) {
        kernels_.push_back(std::move(source));
      } else {
        names_.functions[source.name] = std::move(source);
      }
      return;
    }
    const size_t end = text_.find(';', at_);
    if (end == std::string::npos) throw PtxError("'" + head + "' has no end");
    add_variable(module, trim(text_.substr(at_, end - at_)));
    at_ = end + 1;
  }

  bool is_line(const char* word) const { return text_.compare(at_, std::strlen(word), word) == 0; }

  static std::vector<PtxVariable> variables_in(const std::string& list) {
    std::vector<PtxVariable> variables;
    for (const std::string& declaration : split(list, ',')) {
      variables.push_back(variable_of(declaration));
    }
    return variables;
  }

  /// `.visible .entry name(parameters)` or `.func (results) name(parameters)`, then directives.
  static PtxSource source_of(const std::string& head, bool is_kernel) {
    PtxSource source;
    const std::string word = is_kernel ? ".entry" : ".func";
    std::string rest = trim(head.substr(head.find(word) + word.size()));
    if (rest[0] == '(') {
      const size_t end = rest.find(')');
      source.results = variables_in(rest.substr(1, end - 1));
      rest = trim(rest.substr(end + 1));
    }
    const size_t open = rest.find('(');
    source.name = trim(rest.substr(0, open));
    if (open != std::string::npos) {
      source.parameters = variables_in(rest.substr(open + 1, rest.find(')', open) - open - 1));
    } else {
      source.name = words_of(source.name)[0];
    }
    return source;
  }

  void read_body(PtxSource& source) {
    int depth = 1;
    while (depth > 0) {
      skip_space();
      if (at_ >= text_.size()) throw PtxError(source.name + " has no end");
      if (text_[at_] == '{' || text_[at_] == '}') {
        const char letter = text_[at_++];
        depth += letter == '{' ? 1 : -1;
        if (depth > 0) source.statements.emplace_back(1, letter);
        continue;
      }
      const size_t end = text_.find_first_of(";:", at_);
      if (end == std::string::npos) throw PtxError(source.name + " has no end");
      // Words such as `.shared::cta` have colons, too.
      if (text_[end] == ':' && text_.find_first_of(" \t\n.", at_) > end) {
        source.statements.push_back(trim(text_.substr(at_, end - at_)) + ":");
        at_ = end + 1;
        continue;
      }
      const size_t stop = text_.find(';', at_);
      source.statements.push_back(trim(text_.substr(at_, stop - at_)));
      at_ = stop + 1;
    }
  }

  void add_variable(PtxModule& module, const std::string& declaration) {
    if (declaration.empty() || declaration.starts_with(".extern")) return;
    const bool shared = declaration.find(".shared") != std::string::npos;
    const bool global = declaration.find(".global") != std::string::npos ||
                        declaration.find(".const") != std::string::npos;
    if (!shared && !global) return;
    const PtxVariable variable = variable_of(declaration);
    if (shared) {
      names_.shared[variable.name] = variable;
      return;
    }
    module.variables.push_back(
        std::make_unique<std::vector<uint64_t>>((variable.bytes + 7) / 8 + 1));
    auto* const data = reinterpret_cast<char*>(module.variables.back()->data());
    const size_t size = bytes_of(variable.type);
    for (size_t i = 0; i < variable.values.size(); ++i) {
      uint64_t value = 0;
      if (!parse_number(variable.values[i], value)) throw PtxError("value of " + declaration);
      std::memcpy(data + i * size, &value, size);
    }
    names_.globals[variable.name] = reinterpret_cast<uint64_t>(data);
  }

  const std::string text_;
  size_t at_ = 0;
  Names names_;
  std::vector<PtxSource> kernels_;
};

}  // namespace

std::unique_ptr<PtxModule> parse(const std::string& text) { return Reader(text).read(); }

}  // namespace tandem::doubles::ptx

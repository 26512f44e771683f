/// tandem-interop CASES.npz RESULTS.npz: runs ops and their gradients on given inputs.
/// tandem-interop --ops: prints the names of the ops it knows.
/// tandem-interop --train FOLDER STEPS: trains from the folder's latest checkpoint and saves the
/// next.
/// tandem-interop --train-together FOLDER STEPS WAY: the same as one of several processes, from the
/// beginning; they keep parts of "slots", or are a "mesh" of two stages with two parts of weights.
/// tandem-interop --trajectories ROWS.npz RESULTS.npz: see trajectories.h.
/// tandem-interop --models CASES.npz RESULTS.npz: see model_checkpoints.h.
/// tandem-interop --fits CASES.npz RESULTS.npz: see fits.h.
///
/// Case n is made of the entries n/case (the bytes of {"op": name, "attributes": {..}}), n/input0,
/// n/input1, .. and n/weights. Its results are n/output and n/gradient0, .. of the sum of output
/// times weights by each floating input, or n/error, the bytes of a message. A gradient that is
/// zero everywhere may be left out.
#include <cstdio>
#include <exception>
#include <string>

#include "checkpoint.h"
#include "fits.h"
#include "model_checkpoints.h"
#include "ops.h"
#include "trajectories.h"

namespace tandem::interop {
namespace {

Tensor bytes_of(const std::string& text) {
  return Tensor::from(std::vector<uint8_t>(text.begin(), text.end()),
                      {static_cast<int64_t>(text.size())});
}

class Case {
 public:
  Case(const NamedTensors& entries, int number)
      : entries_(entries), prefix_(std::to_string(number) + "/") {}

  bool exists() const { return entries_.contains(prefix_ + "case"); }

  void run(NamedTensors& results) const {
    try {
      compute(results);
    } catch (const std::exception& error) {
      results[prefix_ + "error"] = bytes_of(error.what());
    }
  }

 private:
  void compute(NamedTensors& results) const {
    const auto text = entries_.at(prefix_ + "case").to_vector<uint8_t>();
    const Json description = Json::parse(text.begin(), text.end());
    const auto op = ops().find(description.at("op").get<std::string>());
    if (op == ops().end()) throw NotFound("interop: no such op");
    const Tensors inputs = numbered("input");
    GradientTape tape;
    const auto wanted = description.at("gradients").get<std::vector<size_t>>();
    for (size_t i : wanted) tape.watch(inputs.at(i));
    const Tensor output = op->second(inputs, description.at("attributes"));
    results[prefix_ + "output"] = output;
    const auto weights = entries_.find(prefix_ + "weights");
    if (weights == entries_.end()) return;  // Whole numbers and truth values have no gradients.
    const Tensor loss = reduce_sum(output * weights->second);
    Tensors sources;
    for (size_t i : wanted) sources.push_back(inputs[i]);
    const Tensors gradients = tape.gradient(loss, sources);
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined()) continue;
      results[prefix_ + "gradient" + std::to_string(wanted[i])] = gradients[i];
    }
  }

  Tensors numbered(const std::string& name) const {
    Tensors found;
    for (;;) {
      const auto entry = entries_.find(prefix_ + name + std::to_string(found.size()));
      if (entry == entries_.end()) return found;
      found.push_back(entry->second);
    }
  }

  const NamedTensors& entries_;
  std::string prefix_;
};

int run(const char* from, const char* to) {
  const NamedTensors entries = load_npz(from);
  NamedTensors results;
  for (int number = 0; Case(entries, number).exists(); ++number) {
    Case(entries, number).run(results);
  }
  save_npz(to, results);
  return 0;
}

int list_ops() {
  for (const auto& [name, op] : ops()) std::printf("%s\n", name.c_str());
  return 0;
}

}  // namespace
}  // namespace tandem::interop

int main(int count, char** arguments) {
  try {
    if (count == 2 && std::string(arguments[1]) == "--ops") return tandem::interop::list_ops();
    if (count == 3) return tandem::interop::run(arguments[1], arguments[2]);
    if (count == 4 && std::string(arguments[1]) == "--train") {
      return tandem::interop::take_turn(arguments[2], std::stoi(arguments[3]));
    }
    if (count == 5 && std::string(arguments[1]) == "--train-together") {
      return tandem::interop::train_together(arguments[2], std::stoi(arguments[3]), arguments[4]);
    }
    if (count == 4 && std::string(arguments[1]) == "--trajectories") {
      return tandem::interop::train_rows(arguments[2], arguments[3]);
    }
    if (count == 4 && std::string(arguments[1]) == "--models") {
      return tandem::interop::continue_models(arguments[2], arguments[3]);
    }
    if (count == 4 && std::string(arguments[1]) == "--fits") {
      return tandem::interop::fit_rows(arguments[2], arguments[3]);
    }
    std::fprintf(stderr,
                 "usage: tandem-interop CASES.npz RESULTS.npz | --ops | --train FOLDER STEPS | "
                 "--train-together FOLDER STEPS WAY | "
                 "--trajectories ROWS.npz RESULTS.npz | --models CASES.npz RESULTS.npz | "
                 "--fits CASES.npz RESULTS.npz\n");
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tandem-interop: %s\n", error.what());
    return 1;
  }
}

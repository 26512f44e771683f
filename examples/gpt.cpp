/// A small GPT that learns to write like a text, letter by letter: blocks of causal attention and
/// of dense layers, trained with AdamW and a cosine with warm-up.
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "program.h"

namespace td = tandem;
namespace keras = td::keras;
namespace layers = keras::layers;
using td::Tensor;

namespace {

constexpr int64_t kTokens = 64;  // The tokens that the model sees at once.
constexpr int64_t kWidth = 128;
constexpr int64_t kHeads = 4;
constexpr int kBlocks = 3;
constexpr int64_t kBatch = 16;

/// A text as numbers: each letter that it has is one.
class Text {
 public:
  explicit Text(const std::string& path) {
    std::ifstream file(path);
    std::stringstream all;
    all << file.rdbuf();
    letters_ = all.str();
    if (!file) throw td::NotFound("'" + path + "' cannot be read");
    if (letters_.size() <= kTokens) {
      throw td::InvalidArgument("'" + path + "' has " + std::to_string(letters_.size()) +
                                " letters; to learn from it takes more than " +
                                std::to_string(kTokens));
    }
    for (char letter : letters_) numbers_.try_emplace(letter, 0);
    for (auto& [letter, number] : numbers_) {
      number = static_cast<int32_t>(alphabet_.size());
      alphabet_ += letter;
    }
  }

  const std::string& alphabet() const { return alphabet_; }
  std::string first(size_t count) const { return letters_.substr(0, count); }
  int32_t number(size_t place) const { return numbers_.at(letters_[place]); }

  /// `count` stretches of the text, evenly spread: what to read, and behind each letter the one to
  /// predict. Both [count, kTokens].
  std::pair<Tensor, Tensor> windows(int64_t count) const {
    std::vector<int32_t> read, next;
    const double step = static_cast<double>(letters_.size() - kTokens - 1) /
                        static_cast<double>(std::max<int64_t>(count - 1, 1));
    for (int64_t window = 0; window < count; ++window) {
      const auto begin = static_cast<size_t>(static_cast<double>(window) * step);
      for (size_t i = 0; i < kTokens; ++i) {
        read.push_back(number(begin + i));
        next.push_back(number(begin + i + 1));
      }
    }
    return {Tensor::from(read, {count, kTokens}), Tensor::from(next, {count, kTokens})};
  }

 private:
  std::string letters_;
  std::map<char, int32_t> numbers_;
  std::string alphabet_;
};

/// Adds what it has learned about each place in the text.
struct Positions : keras::LayerBody {
  Positions() : LayerBody("positions") {}
  void build(const keras::TensorSpecs&) override {
    places = add_weight("places", {kTokens, kWidth}, {.initializer = "uniform"});
  }
  td::Tensors call(const td::Tensors& inputs, const keras::CallContext&) override {
    return {inputs[0] + places.value()};
  }
  td::Variable places;
};

keras::Model gpt(int64_t vocabulary) {
  const auto input = keras::Input({kTokens}, td::DType::int32);
  auto x = keras::make_layer<Positions>()(layers::Embedding(vocabulary, kWidth)(input));
  for (int block = 0; block < kBlocks; ++block) {
    const layers::MultiHeadAttention attention(kHeads, kWidth / kHeads, {.use_causal_mask = true});
    const auto seen = attention(layers::LayerNormalization()(x));
    x = layers::Add()(keras::KerasTensors{x, seen});
    const auto wide = layers::Dense(4 * kWidth, {.activation = "gelu"});
    const auto thought = layers::Dense(kWidth)(wide(layers::LayerNormalization()(x)));
    x = layers::Add()(keras::KerasTensors{x, thought});
  }
  return {{input}, {layers::Dense(vocabulary)(layers::LayerNormalization()(x))}, "gpt"};
}

/// Goes on from the beginning of the text: each letter is drawn by its probability, the less likely
/// ones a little less often.
std::string written(const keras::Model& model, const Text& text, int letters) {
  constexpr float kTemperature = 0.7f;
  std::mt19937 random(1);
  std::vector<int32_t> window;
  for (size_t i = 0; i < kTokens; ++i) window.push_back(text.number(i));
  std::string result;
  for (int i = 0; i < letters; ++i) {
    const Tensor scores = model.predict(Tensor::from(window, {1, kTokens}));
    const auto chances = td::softmax(scores(0, -1) / kTemperature).to_vector<float>();
    std::discrete_distribution<int32_t> choice(chances.begin(), chances.end());
    const int32_t next = choice(random);
    result += text.alphabet()[static_cast<size_t>(next)];
    window.erase(window.begin());
    window.push_back(next);
  }
  return result;
}

}  // namespace

int main(int count, char** words) {
  example::Flags flags("Trains a small GPT on a text, letter by letter, and has it write",
                       "Name a text to learn from with --text FILE.");
  std::string path = "/usr/share/common-licenses/GPL-3";
  int epochs = 6;
  int64_t windows = 1536;
  int letters = 400;
  int devices = 0;
  int64_t memory = 0;
  int64_t link = 10'000;
  flags.add("--text", path, "The text");
  flags.add("--epochs", epochs, "Passes over the windows");
  flags.add("--windows", windows, "Stretches of the text to learn from");
  flags.add("--letters", letters, "How much to write at the end");
  flags.add("--plan", devices, "Train nothing: say how to train on so many devices", 0);
  flags.add("--memory", memory, "With --plan: the megabytes of each device, 0 for any number", 0);
  flags.add("--link", link, "With --plan: the megabytes a second between two devices");
  return flags.run(count, words, [&] {
    td::random::set_seed(1);
    const Text text(path);
    const keras::Model model = gpt(static_cast<int64_t>(text.alphabet().size()));
    const int64_t steps = epochs * ((windows + kBatch - 1) / kBatch);
    std::printf("%zu letters, %lld parameters, %lld steps\n", text.alphabet().size(),
                static_cast<long long>(model.count_params()), static_cast<long long>(steps));
    if (devices > 0) {
      constexpr double kMegabyte = 1e6;
      const auto plan =
          td::distribute::plan(model, {.devices = devices,
                                       .batch = kBatch,
                                       .memory = static_cast<double>(memory) * kMegabyte,
                                       .link = {.bytes = static_cast<double>(link) * kMegabyte}});
      std::printf("%sbest: %s\n", plan.str().c_str(), plan.best().str().c_str());
      return;
    }
    const int64_t warmup = steps / 10;
    model.compile({
        .optimizer = keras::optimizers::AdamW(keras::optimizers::schedules::CosineDecay(
            0.0, steps - warmup, {.warmup_target = 2e-3, .warmup_steps = warmup})),
        .loss = keras::losses::SparseCategoricalCrossentropy({.from_logits = true}),
        .metrics = {"accuracy"},
    });
    const auto [read, next] = text.windows(windows);
    model.fit(read, next, {.batch_size = kBatch, .epochs = epochs});

    std::printf("\n%s|%s\n", text.first(kTokens).c_str(), written(model, text, letters).c_str());
  });
}

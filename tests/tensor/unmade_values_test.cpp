// First values that were left unmade have the bits of those that are made at once, and take no
// memory before somebody needs them.
#include "tensor/unmade_values.h"

#include <gtest/gtest.h>

#include "harness/fresh_devices.h"
#include "harness/resident_files.h"
#include "tandem/tandem.h"
#include "tensor/shared_stores.h"

namespace tandem {
namespace {

using Floats = std::vector<float>;

constexpr int64_t kRows = 3000;
constexpr int64_t kWidth = 70;

/// A store whose variables of some size lie in files.
class UnmadeValues : public harness::FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    store_ = std::make_shared<Store>(std::vector{devices::host_device()});
    note_in_files(store_, size_t{64} << 10);
  }

  /// The weight of a layer; there are as many random numbers before it in either case.
  Variable weight(const keras::Initializer& initializer, bool is_unmade_first = true) const {
    random::set_seed(7);
    std::optional<StoreScope> scope;
    if (is_unmade_first) scope.emplace(store_);
    const keras::layers::Embedding layer(kRows, kWidth, {.embeddings_initializer = initializer});
    layer(Tensor::from(std::vector<int32_t>{0}, {1, 1}));
    return layer.weights()[0];
  }

  /// The same without a call, which would read it.
  Variable unread_weight(const keras::Initializer& initializer) const {
    random::set_seed(7);
    const StoreScope scope(store_);
    const UnmadeScope unmade(1);
    return Variable(initializer({kRows, kWidth}));
  }

  static Floats values_of(const Variable& variable) { return variable.value().to_vector<float>(); }

  /// Elements without a read of the whole.
  static Floats elements_of(StoreRange range, int64_t begin, int64_t count) {
    range.offset += begin;
    range.count = count;
    make_values(range);
    const PartsScope parts;
    const auto* data = static_cast<const float*>(range.data(*devices::host_device()));
    return {data, data + count};
  }

  std::shared_ptr<Store> store_;
};

TEST_F(UnmadeValues, HaveTheBitsOfThoseMadeAtOnce) {
  for (const char* name : {"uniform", "normal", "truncated_normal", "he_normal", "glorot_uniform",
                           "lecun_normal", "ones", "zeros"}) {
    SCOPED_TRACE(name);
    const Floats now = values_of(weight(name, false));
    EXPECT_EQ(values_of(weight(name)), now);
    // Parts of it, in any order and length, from anywhere.
    const StoreRange range = unread_weight(name).body()->range;
    random::set_seed(7);
    const Floats drawn = keras::Initializer(name)({kRows, kWidth}).to_vector<float>();
    for (const auto& [begin, count] :
         {std::pair{100001, 777}, std::pair{3, 64}, std::pair{100000, 2000}, std::pair{0, 5}}) {
      const Floats wanted(drawn.begin() + begin, drawn.begin() + begin + count);
      EXPECT_EQ(elements_of(range, begin, count), wanted) << begin;
    }
  }
}

TEST_F(UnmadeValues, TakeNoMemoryBeforeTheyAreNeeded) {
  const int64_t before = harness::resident_file_bytes();
  const Variable variable = unread_weight("normal");
  const StoreRange& range = variable.body()->range;
  EXPECT_TRUE(is_unmade(range));
  EXPECT_EQ(harness::resident_file_bytes(), before);
  // Some elements, as a server has them: these alone, and in memory.
  StoreRange own = range;
  own.offset += 64 * 1024;
  own.count = 64 * 1024;
  hold_in_memory(own);
  EXPECT_TRUE(is_unmade(own));
  const Floats elements = elements_of(range, 64 * 1024, 64 * 1024);
  EXPECT_FALSE(is_unmade(own));
  EXPECT_FALSE(is_unmade(range));
  EXPECT_LE(harness::resident_file_bytes(), before + 2 * 4096);
  const Floats all = values_of(variable);
  EXPECT_EQ(Floats(all.begin() + 64 * 1024, all.begin() + 128 * 1024), elements);
  random::set_seed(7);
  EXPECT_EQ(all, keras::Initializer("normal")({kRows, kWidth}).to_vector<float>());
}

TEST_F(UnmadeValues, WhatIsWrittenIsNotMade) {
  const Variable variable = unread_weight("normal");
  variable.assign(ones({kRows, kWidth}));
  EXPECT_FALSE(is_unmade(variable.body()->range));
  EXPECT_EQ(values_of(variable), Floats(kRows * kWidth, 1));
  const Variable slot = slot_variable(variable, "momentum");
  EXPECT_TRUE(is_unmade(slot.body()->range));
  EXPECT_EQ(values_of(slot), Floats(kRows * kWidth, 0));
}

TEST_F(UnmadeValues, OnesOwnInitializerGetsTheValuesOfThoseThatItCalls) {
  const keras::Initializer doubled("doubled", [](const Shape& shape, DType dtype) {
    return keras::initializers::random_normal()(shape, dtype) * 2.0;
  });
  EXPECT_EQ(values_of(weight(doubled)), values_of(weight(doubled, false)));
  const keras::Initializer same("same", [](const Shape& shape, DType dtype) {
    return keras::initializers::random_normal()(shape, dtype);
  });
  EXPECT_EQ(values_of(weight(same)), values_of(weight("normal", false)));
}

}  // namespace
}  // namespace tandem

#include "tandem/trackable.h"

#include <gtest/gtest.h>

#include "harness/throws.h"
#include "tandem/error.h"
#include "tensor/trackable_body.h"

namespace tandem {
namespace {

using harness::throws;

TEST(Trackable, NamesItsChildrenInTheOrderTheyCame) {
  const Trackable node;
  node.track("b", Variable(Tensor(1.0f)));
  node.track("a", Trackable());
  EXPECT_EQ(node.tracked_names(), (std::vector<std::string>{"b", "a"}));
}

TEST(Trackable, CopiesOfAHandleAreTheSameNode) {
  struct TrackedLayer : Trackable {
    TrackedLayer() { track("kernel", kernel); }
    Variable kernel{Tensor(1.0f)};
  };
  const TrackedLayer layer;
  const TrackedLayer same = layer;  // NOLINT(performance-unnecessary-copy-initialization)
  same.track("bias", Variable(Tensor(0.0f)));
  EXPECT_EQ(layer.tracked_names(), (std::vector<std::string>{"kernel", "bias"}));
}

TEST(Trackable, ANameBelongsToOneChild) {
  const Variable variable(Tensor(1.0f));
  const Trackable node;
  node.track("x", variable);
  node.track("x", variable);  // The same again changes nothing.
  EXPECT_EQ(node.tracked_names().size(), 1u);
  EXPECT_TRUE(throws<InvalidArgument>([&] { node.track("x", Trackable()); }, {"track:", "'x'"}));
  EXPECT_TRUE(throws<InvalidArgument>([&] { node.track("", Trackable()); }, {"needs a name"}));
}

TEST(Trackable, AnOtherChildTakesANamesPlaceWhenAsked) {
  const Trackable node;
  const Variable second(Tensor(2.0f));
  node.track("x", Variable(Tensor(1.0f)));
  node.track("y", Trackable());
  node.track("x", second, {.overwrite = true});
  EXPECT_EQ(node.tracked_names(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(identity_of(node.trackable_body()->children[0].body), second.body());
}

TEST(Trackable, NamesThatAreOnlyRestoredAreNotAmongTheNames) {
  const Trackable node;
  const Variable variable(Tensor(1.0f));
  node.track("now", variable);
  node.track("before", variable, {.restore_only = true});
  EXPECT_EQ(node.tracked_names(), (std::vector<std::string>{"now"}));
}

TEST(Trackable, AValueHasNoChildren) {
  const Trackable value = Variable(Tensor(1.0f));
  EXPECT_TRUE(throws<FailedPrecondition>([&] { value.track("x", Trackable()); }, {"'x'"}));
}

TEST(Trackable, AHostStateNeedsBothFunctions) {
  EXPECT_TRUE(throws<InvalidArgument>(
      [] { Trackable(HostState<int64_t>{.save = [] { return 1; }, .restore = {}}); },
      {"save and restore"}));
  EXPECT_TRUE(throws<FailedPrecondition>([] { Trackable{Variable()}; }, {"Variable is empty"}));
}

/// Writes down what it is told.
class Waiting final : public WaitingValues {
 public:
  void on_child_tracked(int node, const TrackedChild& child) override {
    told += std::to_string(node) + child.name + " ";
  }
  std::string told;
};

TEST(Trackable, WhoeverWaitsIsToldOfNewChildren) {
  const Trackable node;
  node.track("early", Trackable());
  const auto waiting = std::make_shared<Waiting>();
  node.trackable_body()->waiting = waiting;
  node.trackable_body()->waiting_node = 7;
  node.track("late", Trackable());
  EXPECT_EQ(waiting->told, "7late ");
  node.track("late", Trackable(), {.overwrite = true});  // Not what was waited for.
  EXPECT_EQ(waiting->told, "7late ");
}

}  // namespace
}  // namespace tandem

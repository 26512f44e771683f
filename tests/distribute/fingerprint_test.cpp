// Processes that are about to run different programs: each kind of difference is named before the
// first step, on every rank.
#include <fmt/format.h>

#include "device/logical_device.h"
#include "distribute/multi_worker.h"
#include "distribute/worker_group.h"
#include "function/function_body.h"
#include "harness/socket_group.h"
#include "harness/temp_folder.h"
#include "harness/throws.h"
#include "tandem/providers.h"

namespace tandem::distribute {
namespace {

using harness::throws;
using GroupPtr = std::shared_ptr<harness::SocketGroup>;
using keras::optimizers::Optimizer;

Strategy strategy_of(const GroupPtr& group) {
  devices::reset_devices();
  config::set_logical_cpus({{.threads = 1}});
  random::set_seed(1);
  return multi_worker_strategy(group, {});
}

/// A step of a model trained by the optimizer of `make` on a batch of `rows`, and what its error
/// has to say.
void expect_difference(const GroupPtr& group, const std::function<Optimizer()>& make, int64_t rows,
                       std::initializer_list<std::string_view> words) {
  const Strategy strategy = strategy_of(group);
  const auto scope = strategy.scope();
  keras::Sequential model({keras::layers::Dense(1)});
  model.compile({.optimizer = make(), .loss = "mse"});
  const Tensor x = ones({rows, 3});
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        model.train_on_batch({x}, {ones({rows, 1})});
      },
      words));
}

TEST(Fingerprint, AnotherOptimizerIsNamed) {
  harness::in_processes(2, [](const GroupPtr& group) {
    const auto make = [&]() -> Optimizer {
      if (group->rank() == 0) return keras::optimizers::SGD(0.1);
      return keras::optimizers::Adam(0.1);
    };
    expect_difference(group, make, 4, {"rank 1", "adam", "rank 0", "different programs"});
  });
}

TEST(Fingerprint, AnotherSettingOfTheOptimizerIsNamed) {
  harness::in_processes(2, [](const GroupPtr& group) {
    const double momentum = group->rank() == 0 ? 0.9 : 0.8;
    expect_difference(group, [=] { return keras::optimizers::SGD(0.1, {.momentum = momentum}); }, 4,
                      {"rank 1", "0.8", "rank 0", "0.9"});
  });
}

TEST(Fingerprint, AnotherBatchIsNamed) {
  harness::in_processes(3, [](const GroupPtr& group) {
    expect_difference(group, [] { return keras::optimizers::SGD(0.1); }, group->rank() == 2 ? 9 : 6,
                      {"rank 2", "global batch of 9 rows", "rank 0", "global batch of 6 rows"});
  });
}

TEST(Fingerprint, AnotherExchangeIsNamed) {
  harness::in_processes(2, [](const GroupPtr& group) {
    const Strategy strategy = strategy_of(group);
    const auto f = function([&] {
      const Tensor sum = get_replica_context()->all_reduce(ReduceOp::sum, ones({3}));
      return group->rank() == 0 ? sum : get_replica_context()->all_reduce(ReduceOp::sum, sum * sum);
    });
    EXPECT_TRUE(
        throws<InvalidArgument>([&] { strategy.run(f); },
                                {"rank 1", "exchange_sum(float32[3])", "rank 0", "nothing more"}));
  });
}

TEST(Fingerprint, AnotherTableOfProvidersIsNamed) {
  harness::in_processes(2, [](const GroupPtr& group) {
    const harness::TempFolder folder;
    if (group->rank() == 1) {
      const std::string path = (folder / "table").string();
      providers::tune(path, {.largest = 16, .seconds_per_candidate = 0});
      providers::use_table(path);
    }
    expect_difference(group, [] { return keras::optimizers::SGD(0.1); }, 4,
                      {fmt::format("provider table {:016x}", 0), "rank 1", "rank 0"});
  });
}

TEST(Fingerprint, AnotherVersionIsNamed) {
  harness::in_processes(2, [](const GroupPtr& group) {
    const Strategy strategy = strategy_of(group);
    const auto f = function([] { return ones({2}); });
    std::string own = fingerprint_of(*f.body()->call({}).concrete, 4);
    const std::string version = own.substr(0, own.find('\n'));
    ASSERT_TRUE(version.starts_with("version ")) << own;
    if (group->rank() == 1) own.replace(0, version.size(), "version 0.0.0");
    EXPECT_EQ(first_difference(group->gather_texts("fingerprint", own), *group),
              fmt::format("{} has 'version 0.0.0' where {} has '{}'", group->describe(1),
                          group->describe(0), version));
  });
}

}  // namespace
}  // namespace tandem::distribute

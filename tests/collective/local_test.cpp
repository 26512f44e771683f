// The kernels between replicas that share an address space, called as a program's threads call
// them: each with its part of the elements, all of one phase before the next.
#include <gtest/gtest.h>

#include <numeric>

#include "harness/fresh_devices.h"
#include "op/registry.h"

namespace tandem::collective {
namespace {

template <class T>
using Operands = std::vector<std::vector<T>>;  // The operands of one replica.

/// Some replicas, the operands of each, and where the results go: over the operands, or beside.
template <class T>
class LocalReplicas {
 public:
  LocalReplicas(int count, const std::vector<int64_t>& sizes, bool in_place)
      : sizes_(sizes), in_place_(in_place) {
    for (int r = 0; r < count; ++r) {
      inputs_.emplace_back();
      for (size_t i = 0; i < sizes.size(); ++i) {
        std::vector<T> values(static_cast<size_t>(sizes[i]));
        // Sums of these depend on their order in the last bits.
        for (size_t k = 0; k < values.size(); ++k) {
          values[k] = static_cast<T>(1000.0 / (r * 7 + static_cast<double>(i + k % 97) + 3));
        }
        inputs_.back().push_back(std::move(values));
      }
      outputs_.push_back(inputs_.back());
      for (auto& output : outputs_.back()) std::fill(output.begin(), output.end(), kUntouched);
    }
  }

  static constexpr T kUntouched = static_cast<T>(-1);

  const Operands<T>& inputs(int replica) const { return inputs_[static_cast<size_t>(replica)]; }

  /// The op's results on each replica, by `threads` threads of each.
  std::vector<Operands<T>> run(const char* op, int threads) {
    op::Signature signature;
    signature.op = &op::find_op(op);
    for (int64_t size : sizes_) signature.inputs.push_back({dtype_of<T>, Shape{size}});
    signature.outputs = signature.op->infer(signature);
    const int count = static_cast<int>(inputs_.size());
    const int parts = count * threads;
    const auto executable =
        op::Registry::instance().prepare(signature, *devices::host_device(), parts);
    std::vector<std::vector<void*>> addresses;
    std::vector<void* const*> peers;
    for (int r = 0; r < count; ++r) addresses.push_back(addresses_of(static_cast<size_t>(r)));
    for (const auto& own : addresses) peers.push_back(own.data());
    std::vector<int> operands(2 * sizes_.size());
    std::iota(operands.begin(), operands.end(), 0);
    for (int part = 0; part < parts; ++part) {
      op::StepScalars step;
      step.replica = part / threads;
      step.replicas = count;
      executable->run({.addresses = peers[static_cast<size_t>(step.replica)],
                       .operands = operands.data(),
                       .inputs = static_cast<int>(sizes_.size()),
                       .outputs = static_cast<int>(sizes_.size()),
                       .part = part,
                       .parts = parts,
                       .step = &step,
                       .peers = peers.data()});
    }
    return in_place_ ? inputs_ : outputs_;
  }

 private:
  std::vector<void*> addresses_of(size_t replica) {
    std::vector<void*> addresses;
    for (auto& input : inputs_[replica]) addresses.push_back(input.data());
    for (auto& output : in_place_ ? inputs_[replica] : outputs_[replica]) {
      addresses.push_back(output.data());
    }
    return addresses;
  }

  const std::vector<int64_t> sizes_;
  const bool in_place_;
  std::vector<Operands<T>> inputs_, outputs_;
};

/// The sums of replicas `first` to `first + count`, as halves of a tree: (0 + 1) + (2 + 3), and
/// what is left over comes last.
template <class T>
Operands<T> sums_of(const LocalReplicas<T>& replicas, int count, int first = 0) {
  if (count == 1) return replicas.inputs(first);
  int half = 1;
  while (half * 2 < count) half *= 2;
  Operands<T> sums = sums_of(replicas, half, first);
  const Operands<T> rest = sums_of(replicas, count - half, first + half);
  for (size_t i = 0; i < sums.size(); ++i) {
    for (size_t k = 0; k < sums[i].size(); ++k) sums[i][k] += rest[i][k];
  }
  return sums;
}

// Less than a chunk, nothing, many chunks, and ends that no chunk divides.
const std::vector<int64_t> kSizes = {10, 0, 1, 7840, 333};

template <class T>
void check_all_reduce() {
  for (const int count : {2, 3, 4, 5, 8}) {
    for (const int threads : {1, 2, 4}) {
      for (const bool in_place : {false, true}) {
        SCOPED_TRACE(testing::Message() << count << " replicas of " << threads << " threads, "
                                        << (in_place ? "in place" : "beside"));
        LocalReplicas<T> replicas(count, kSizes, in_place);
        const Operands<T> sums = sums_of(replicas, count);
        for (const Operands<T>& results : replicas.run("all_reduce", threads)) {
          EXPECT_EQ(results, sums);
        }
      }
    }
  }
}

using Local = harness::FreshDevices;

TEST_F(Local, AllReduceGivesEveryReplicaTheSumInTheOrderOfTheTree) {
  check_all_reduce<float>();
  check_all_reduce<double>();
  check_all_reduce<int32_t>();
  check_all_reduce<int64_t>();
}

TEST_F(Local, ReduceScatterLeavesEachElementWithOneReplica) {
  for (const int threads : {1, 3}) {
    constexpr int kReplicas = 3;
    LocalReplicas<float> replicas(kReplicas, kSizes, false);
    const auto sums = sums_of(replicas, kReplicas);
    const auto results = replicas.run("reduce_scatter", threads);
    for (size_t i = 0; i < kSizes.size(); ++i) {
      for (size_t k = 0; k < sums[i].size(); ++k) {
        int owners = 0;
        for (const auto& own : results) {
          if (own[i][k] == LocalReplicas<float>::kUntouched) continue;
          EXPECT_EQ(own[i][k], sums[i][k]);
          ++owners;
        }
        ASSERT_EQ(owners, 1) << "operand " << i << ", element " << k;
      }
    }
  }
}

TEST_F(Local, BroadcastGivesEveryReplicaWhatTheFirstHas) {
  for (const bool in_place : {false, true}) {
    LocalReplicas<double> replicas(3, kSizes, in_place);
    const auto first = replicas.inputs(0);
    for (const auto& results : replicas.run("broadcast", 2)) EXPECT_EQ(results, first);
  }
}

}  // namespace
}  // namespace tandem::collective

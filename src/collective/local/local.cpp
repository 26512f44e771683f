/// Collectives between replicas that share an address space: every thread takes its part of all
/// elements and reads the other replicas' memory where it lies. The program's barriers stand around
/// it; nothing is copied or sent.
#include <algorithm>

#include "collective/tree.h"
#include "op/group.h"
#include "op/registry.h"

namespace tandem::collective::local {
namespace {

using op::Launch;
using op::Signature;
using op::Split;

/// Where results go.
enum class SumTarget { own, first, all };

/// The end of each operand, where all are laid end to end, in elements.
std::vector<int64_t> ends_of(const Signature& signature) {
  std::vector<int64_t> ends;
  int64_t end = 0;
  for (const auto& input : signature.inputs) ends.push_back(end += input.shape.total_extent());
  return ends;
}

/// Calls visit(operand, begin, end) for the pieces of operands within this thread's chunks.
template <class Visit>
void for_each_piece(const std::vector<int64_t>& ends, const Launch& launch, Visit visit) {
  const int64_t total = ends.empty() ? 0 : ends.back();
  const auto [first, last] = op::part_of((total + Split::kChunk - 1) / Split::kChunk, launch);
  const int64_t begin = first * Split::kChunk;
  const int64_t end = std::min(last * Split::kChunk, total);
  int64_t start = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    const int64_t from = std::max(begin, start);
    const int64_t to = std::min(end, ends[i]);
    if (from < to) visit(static_cast<int>(i), from - start, to - start);
    start = ends[i];
  }
}

template <class T>
const T* peer_in(const Launch& launch, int replica, int input) {
  return static_cast<const T*>(launch.peers[replica][launch.operands[input]]);
}

template <class T>
T* peer_out(const Launch& launch, int replica, int output) {
  return static_cast<T*>(launch.peers[replica][launch.operands[launch.inputs + output]]);
}

/// The replicas that meet: `count` of them from number `first` on, each `step` from the last.
struct Peers {
  int first;
  int count;
  int step = 1;

  int operator[](int i) const { return first + i * step; }
};

/// Sums a block at a time in local arrays: the results may lie where the inputs lay.
template <class T>
void sum_piece(const Launch& launch, const Peers& peers, SumTarget target, int operand,
               int64_t begin, int64_t end) {
  constexpr int64_t kBlock = 256;
  constexpr int kMostReplicas = 1 << 16;
  T sums[tree_depth(kMostReplicas)][kBlock];
  for (int64_t i = begin; i < end; i += kBlock) {
    const int64_t n = std::min(kBlock, end - i);
    const auto input = [&](int r, int) { return peer_in<T>(launch, peers[r], operand) + i; };
    const auto add = [&](const T* a, const T* b, int depth) -> const T* {
      for (int64_t k = 0; k < n; ++k) sums[depth][k] = a[k] + b[k];
      return sums[depth];
    };
    const T* sum = tree_sum(0, peers.count, input, add);
    if (target == SumTarget::own) {
      std::copy_n(sum, n, launch.out<T>(operand) + i);
    } else if (target == SumTarget::first) {
      std::copy_n(sum, n, peer_out<T>(launch, 0, operand) + i);
    } else {
      for (int r = 0; r < peers.count; ++r) {
        std::copy_n(sum, n, peer_out<T>(launch, peers[r], operand) + i);
      }
    }
  }
}

template <class T>
op::ExecutablePtr prepare_sum(const Signature& signature, SumTarget target) {
  return op::executable([ends = ends_of(signature), target](const Launch& launch) {
    for_each_piece(ends, launch, [&](int operand, int64_t begin, int64_t end) {
      sum_piece<T>(launch, {0, launch.step->replicas}, target, operand, begin, end);
    });
  });
}

/// The sums over neighbours that have the same rows. All threads of all replicas are told which
/// part they have of the whole; those of the neighbours, who have as many threads each, share out
/// their own elements.
template <class T>
op::ExecutablePtr prepare_model_sum(const Signature& signature) {
  const auto model = static_cast<int>(signature.attrs.get<int64_t>("model"));
  const auto program = static_cast<int>(signature.attrs.get<int64_t>("program"));
  return op::executable([ends = ends_of(signature), model, program](const Launch& launch) {
    const int replicas = program > 0 ? program : launch.step->replicas;
    const int threads = launch.parts / replicas;
    const Peers peers{launch.step->replica % replicas / model * model, model};
    Launch own = launch;
    own.part = launch.part - peers.first * threads;
    own.parts = model * threads;
    for_each_piece(ends, own, [&](int operand, int64_t begin, int64_t end) {
      sum_piece<T>(own, peers, SumTarget::all, operand, begin, end);
    });
  });
}

/// The sums over the replicas that have the same part, who have as many threads each.
template <class T>
op::ExecutablePtr prepare_holder_sum(const Signature& signature) {
  const auto parts = static_cast<int>(signature.attrs.get<int64_t>("parts"));
  return op::executable([ends = ends_of(signature), parts](const Launch& launch) {
    const int replica = launch.step->replica;
    const int threads = launch.parts / launch.step->replicas;
    const Peers peers{replica % parts, launch.step->replicas / parts, parts};
    Launch own = launch;
    own.part = launch.part - replica * threads + replica / parts * threads;
    own.parts = peers.count * threads;
    for_each_piece(ends, own, [&](int operand, int64_t begin, int64_t end) {
      sum_piece<T>(own, peers, SumTarget::all, operand, begin, end);
    });
  });
}

/// The sum of the replicas of this process, with the first of them.
template <class T>
op::ExecutablePtr prepare_reduce_local(const Signature& signature) {
  const auto replicas = static_cast<int>(signature.attrs.get<int64_t>("replicas"));
  return op::executable([ends = ends_of(signature), replicas](const Launch& launch) {
    for_each_piece(ends, launch, [&](int operand, int64_t begin, int64_t end) {
      sum_piece<T>(launch, {0, replicas}, SumTarget::first, operand, begin, end);
    });
  });
}

/// Copies a piece of the first replica's operand to all.
template <class T>
void copy_piece(const Launch& launch, int replicas, int operand, int64_t begin, int64_t end) {
  const T* from = peer_in<T>(launch, 0, operand);
  for (int r = 0; r < replicas; ++r) {
    T* to = peer_out<T>(launch, r, operand);
    if (to != from) std::copy(from + begin, from + end, to + begin);
  }
}

template <class T>
op::ExecutablePtr prepare_broadcast(const Signature& signature) {
  return op::executable([ends = ends_of(signature)](const Launch& launch) {
    for_each_piece(ends, launch, [&](int operand, int64_t begin, int64_t end) {
      copy_piece<T>(launch, launch.step->replicas, operand, begin, end);
    });
  });
}

/// The first replica's values, for the others of this process.
template <class T>
op::ExecutablePtr prepare_spread_local(const Signature& signature) {
  const auto replicas = static_cast<int>(signature.attrs.get<int64_t>("replicas"));
  return op::executable([ends = ends_of(signature), replicas](const Launch& launch) {
    for_each_piece(ends, launch, [&](int operand, int64_t begin, int64_t end) {
      copy_piece<T>(launch, replicas, operand, begin, end);
    });
  });
}

/// In float64, whatever the elements are.
template <class T>
double square_sum(const T* values, int64_t count) {
  constexpr int64_t kLanes = 8;  // So many sums run side by side.
  double sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t k = 0; k < kLanes; ++k) {
      const auto value = static_cast<double>(values[i + k]);
      sums[k] += value * value;
    }
  }
  for (; i < count; ++i) sums[0] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  double sum = 0;
  for (const double lane : sums) sum += lane;
  return sum;
}

/// The replicas of a process take equal shares of the process's part.
template <class T>
op::ExecutablePtr prepare_square_sum_of_part(const Signature& signature) {
  const auto number = [&](const char* name) {
    return static_cast<int>(signature.attrs.get<int64_t>(name));
  };
  const int64_t count = signature.inputs[0].shape.total_extent();
  const op::PartRange part = op::part_of_piece(count, number("rank"), number("size"));
  const int64_t first = number("first");
  const int64_t replicas = number("replicas");
  return op::executable([part, first, replicas](const Launch& launch) {
    if (launch.part != 0) return;
    const int64_t own = launch.step->replica - first;
    const int64_t elements = part.end - part.begin;
    const int64_t begin = part.begin + elements * own / replicas;
    const int64_t end = part.begin + elements * (own + 1) / replicas;
    *launch.out<T>(0) = static_cast<T>(square_sum(launch.in<T>(0) + begin, end - begin));
  });
}

template <class T>
void register_for(op::BackendKernels& kernels) {
  const std::vector<DType> dtype{dtype_of<T>};
  kernels.add("all_reduce", dtype,
              [](const Signature& s, int) { return prepare_sum<T>(s, SumTarget::all); });
  kernels.add("sum_over_model", dtype,
              [](const Signature& s, int) { return prepare_model_sum<T>(s); });
  kernels.add("sum_over_holders", dtype,
              [](const Signature& s, int) { return prepare_holder_sum<T>(s); });
  kernels.add("reduce_scatter", dtype,
              [](const Signature& s, int) { return prepare_sum<T>(s, SumTarget::own); });
  kernels.add("broadcast", dtype, [](const Signature& s, int) { return prepare_broadcast<T>(s); });
  kernels.add("reduce_local", dtype,
              [](const Signature& s, int) { return prepare_reduce_local<T>(s); });
  kernels.add("spread_local", dtype,
              [](const Signature& s, int) { return prepare_spread_local<T>(s); });
}

}  // namespace

void register_part_kernels(op::BackendKernels& kernels);

void register_kernels(op::BackendKernels& kernels) {
  register_part_kernels(kernels);
  kernels.add("replica_id", {DType::int32}, [](const Signature&, int) {
    return op::executable([](const Launch& launch) {
      if (launch.part == 0) *launch.out<int32_t>(0) = launch.step->replica;
    });
  });
  kernels.add("global_rows", {DType::float64}, [](const Signature&, int) {
    return op::executable([](const Launch& launch) {
      if (launch.part == 0) *launch.out<double>(0) = static_cast<double>(launch.step->global_rows);
    });
  });
  kernels.add("square_sum_of_part", {DType::float32},
              [](const Signature& s, int) { return prepare_square_sum_of_part<float>(s); });
  kernels.add("square_sum_of_part", {DType::float64},
              [](const Signature& s, int) { return prepare_square_sum_of_part<double>(s); });
  register_for<float>(kernels);
  register_for<double>(kernels);
  register_for<int32_t>(kernels);
  register_for<int64_t>(kernels);
}

}  // namespace tandem::collective::local

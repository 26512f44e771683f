// A double of NCCL: sums over the devices of one process. A rank's call is a command of its stream
// that waits until all ranks have come to theirs, as the real kernels do, so that a rank that does
// not come makes the others hang until their communicators are aborted.
#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "device/cuda/cuda_nccl.h"
#include "double_calls.h"

namespace tandem::doubles::cuda {

#define TANDEM_DECLARE(name, ...) TANDEM_EXPORTED ncclResult_t name(__VA_ARGS__);
TANDEM_NCCL_FUNCTIONS(TANDEM_DECLARE)
#undef TANDEM_DECLARE
TANDEM_EXPORTED const char* ncclGetErrorString(ncclResult_t result);

namespace {

/// What one rank gives to a sum and gets of it.
struct RankBuffers {
  const void* from = nullptr;
  void* to = nullptr;
};

/// One call of all ranks.
struct JointSum {
  size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  std::vector<RankBuffers> ranks;
  std::vector<DoubleEventPtr> arrived;  // By rank.
  std::vector<char> sum;                // Once the first rank has computed it.
};

/// The ranks of one ncclCommInitAll.
struct Clique {
  std::vector<DoubleContextPtr> contexts;              // By rank.
  std::vector<uint64_t> calls;                         // How many sums each rank has asked for.
  std::map<uint64_t, std::shared_ptr<JointSum>> sums;  // By their number, until all have asked.
  std::vector<std::weak_ptr<JointSum>> open;           // What streams may still wait in.
  bool is_aborted = false;
};

struct NcclDouble {
  std::shared_ptr<Clique> clique;
  size_t rank = 0;
};

Book<NcclDouble>& communicators() {
  static auto* const book = new Book<NcclDouble>("communicator of NCCL");
  return *book;
}

/// A call within a group, kept until the group ends.
struct GroupedCall {
  std::shared_ptr<NcclDouble> communicator;
  RankBuffers buffers;
  size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  CUstream stream = nullptr;
};
thread_local int group_depth = 0;
thread_local std::vector<GroupedCall> grouped;
thread_local ncclResult_t group_error = ncclSuccess;  // The first call's in it that failed.

template <class Body>
ncclResult_t call(const char* name, const Body& body) {
  constexpr LibraryErrors<ncclResult_t> kErrors{ncclSuccess, ncclInvalidUsage,
                                                ncclUnhandledCudaError};
  return library_call(name, kErrors, body);
}

size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclFloat64:
      return 8;
  }
  throw Complaint(CUDA_ERROR_INVALID_VALUE, "an unknown type of elements");
}

/// From the last rank to the first: an order that is not ours.
template <class T>
void add_all(JointSum& sum) {
  auto* const to = reinterpret_cast<T*>(sum.sum.data());
  for (size_t i = 0; i < sum.count; ++i) {
    T total = 0;
    for (size_t rank = sum.ranks.size(); rank-- > 0;) {
      total = static_cast<T>(total + static_cast<const T*>(sum.ranks[rank].from)[i]);
    }
    to[i] = total;
  }
}

void compute(JointSum& sum) {
  sum.sum.resize(sum.count * size_of(sum.type));
  switch (sum.type) {
    case ncclUint8:
      return add_all<uint8_t>(sum);
    case ncclInt32:
      return add_all<int32_t>(sum);
    case ncclInt64:
      return add_all<int64_t>(sum);
    case ncclFloat32:
      return add_all<float>(sum);
    case ncclFloat64:
      return add_all<double>(sum);
    case ncclFloat16:
    case ncclBfloat16:
      break;
  }
  throw ptx::DeviceFault(ptx::DeviceFault::Kind::program, "the double does not sum halves");
}

/// Linked devices of one process read each other's memory: it must be open to all of them.
void check_open(const JointSum& sum, const Clique& clique) {
  if (books().settings.peers == 0) return;
  for (const RankBuffers& buffers : sum.ranks) {
    for (const void* address : {buffers.from, static_cast<const void*>(buffers.to)}) {
      for (const DoubleContextPtr& context : clique.contexts) {
        const auto [begin, end] = books().range_of(reinterpret_cast<uint64_t>(address), *context);
        if (begin != end) continue;
        throw ptx::DeviceFault(ptx::DeviceFault::Kind::address,
                               "a sum of NCCL uses memory that is not open to all of its devices");
      }
    }
  }
}

std::shared_ptr<JointSum> joint_sum(Clique& clique, const GroupedCall& own) {
  const size_t rank = own.communicator->rank;
  const uint64_t number = clique.calls[rank]++;
  std::shared_ptr<JointSum>& sum = clique.sums[number];
  if (!sum) {
    sum = std::make_shared<JointSum>();
    sum->count = own.count;
    sum->type = own.type;
    sum->ranks.resize(clique.contexts.size());
    for (const DoubleContextPtr& context : clique.contexts) {
      sum->arrived.push_back(
          std::make_shared<DoubleEvent>(DoubleEvent{.context = context, .recorded = 1}));
    }
    std::erase_if(clique.open, [](const auto& old) { return old.expired(); });
    clique.open.push_back(sum);
  }
  require(sum->count == own.count && sum->type == own.type,
          fmt::format("rank {} sums {} elements, another rank {}", rank, own.count, sum->count));
  sum->ranks[rank] = own.buffers;
  const std::shared_ptr<JointSum> found = sum;
  const auto has_asked = [&](uint64_t calls) { return calls > number; };
  if (std::ranges::all_of(clique.calls, has_asked)) clique.sums.erase(number);
  return found;
}

void issue(const GroupedCall& own) {
  const std::shared_ptr<Clique> clique = own.communicator->clique;
  const size_t rank = own.communicator->rank;
  const DoubleStreamPtr stream = books().streams.find(own.stream);
  const auto sum = joint_sum(*clique, own);
  // A test may want a rank that never comes.
  if (books().failure_of("arrival") == CUDA_SUCCESS) {
    books().issue(stream, {.name = "arrival",
                           .event = sum->arrived[rank],
                           .version = 1,
                           .kind = Command::Kind::record});
  }
  for (const DoubleEventPtr& event : sum->arrived) {
    books().issue(stream,
                  {.name = "wait", .event = event, .version = 1, .kind = Command::Kind::wait});
  }
  const size_t bytes = own.count * size_of(own.type);
  books().issue(stream, {.name = "sum", .run = [=] {
                           const Lock lock(books().mutex);
                           if (clique->is_aborted) return;
                           check_open(*sum, *clique);
                           for (const RankBuffers& buffers : sum->ranks) {
                             books().check_used(reinterpret_cast<uint64_t>(buffers.from), bytes);
                           }
                           if (sum->sum.empty()) compute(*sum);
                           std::memcpy(sum->ranks[rank].to, sum->sum.data(), bytes);
                         }});
  ++books().counts["sums"];
}

/// A communicator of the clique is gone: nobody waits for it any more.
void abort(Clique& clique) {
  clique.is_aborted = true;
  for (const auto& open : clique.open) {
    const auto sum = open.lock();
    if (!sum) continue;
    for (const DoubleEventPtr& event : sum->arrived) event->reached = 1;
  }
  books().changed.notify_all();
}

}  // namespace

size_t nccl_communicators() { return communicators().size(); }

const char* ncclGetErrorString(ncclResult_t result) {
  constexpr const char* kTexts[] = {"no error",
                                    "unhandled cuda error",
                                    "system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was a network error",
                                    "in progress"};
  return result < std::size(kTexts) ? kTexts[result] : "unknown result code";
}

ncclResult_t ncclGetVersion(int* version) {
  *version = static_cast<int>(books().settings.nccl);
  return ncclSuccess;
}

ncclResult_t ncclCommInitAll(ncclComm_t* handles, int count, const int* devices) {
  {
    Lock lock(books().mutex);
    books().changed.wait(lock, [] { return books().settings.nccl_connects != 0; });
  }
  return call("ncclCommInitAll", [&] {
    require(count > 0, fmt::format("{} devices", count));
    require(std::set<int>(devices, devices + count).size() == static_cast<size_t>(count),
            "a device is given twice");
    const auto clique = std::make_shared<Clique>();
    clique->calls.resize(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      const uintptr_t context = books().primary[devices[i]];
      require(context != 0, fmt::format("device {} has no context", devices[i]));
      clique->contexts.push_back(books().contexts.find(reinterpret_cast<const void*>(context)));
    }
    for (int i = 0; i < count; ++i) {
      handles[i] = reinterpret_cast<ncclComm_t>(communicators().add(
          std::make_shared<NcclDouble>(NcclDouble{clique, static_cast<size_t>(i)})));
    }
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  return call("ncclCommDestroy", [&] { communicators().remove(handle); });
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  return call("ncclCommAbort", [&] {
    abort(*communicators().find(handle)->clique);
    communicators().remove(handle);
    ++books().counts["aborts"];
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* state) {
  return call("ncclCommGetAsyncError", [&] {
    const auto own = communicators().find(handle);
    const DoubleContext& context = *own->clique->contexts[own->rank];
    *state = context.lost == CUDA_SUCCESS ? ncclSuccess : ncclUnhandledCudaError;
  });
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

/// The calls are made when the outermost group ends, unless one of them was wrong.
ncclResult_t ncclGroupEnd() {
  if (group_depth > 1) {
    --group_depth;
    return ncclSuccess;
  }
  const bool has_begun = std::exchange(group_depth, 0) > 0;
  const std::vector<GroupedCall> calls = std::exchange(grouped, {});
  const ncclResult_t error = std::exchange(group_error, ncclSuccess);
  if (error != ncclSuccess) return error;
  return call("ncclGroupEnd", [&] {
    require(has_begun, "there is no group that could end");
    std::map<Clique*, std::vector<size_t>> by_rank;
    for (const GroupedCall& own : calls) {
      Clique& clique = *own.communicator->clique;
      require(!clique.is_aborted, "the communicator was aborted");
      auto& counts = by_rank[&clique];
      counts.resize(clique.contexts.size());
      ++counts[own.communicator->rank];
    }
    // Ranks of other threads could come later; here one thread speaks for all.
    for (const auto& [clique, counts] : by_rank) {
      require(std::ranges::count(counts, counts[0]) == std::ssize(counts),
              "not all ranks are in the group");
    }
    for (const GroupedCall& own : calls) issue(own);
  });
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t handle, CUstream stream) {
  const ncclResult_t result = call("ncclAllReduce", [&] {
    const auto own = communicators().find(handle);
    const DoubleContextPtr& context = own->clique->contexts[own->rank];
    if (context->lost != CUDA_SUCCESS) throw Lost{context->lost};
    require(operation == ncclSum, "only sums are known here");
    require(group_depth > 0, "one thread speaks for several ranks, outside of a group");
    require(stream != nullptr, "the default stream is not used here");
    require(books().streams.find(stream)->context == context,
            "the stream is of another device than the communicator");
    books().check_not_captured(*books().streams.find(stream), "a sum");
    const size_t bytes = count * size_of(type);
    const auto begin = reinterpret_cast<uint64_t>(from);
    const auto target = reinterpret_cast<uint64_t>(to);
    require(begin == target || begin + bytes <= target || target + bytes <= begin,
            "a sum is in place or elsewhere, not half of it");
    require(begin % size_of(type) == 0 && target % size_of(type) == 0, "a misaligned buffer");
    for (const uint64_t address : {begin, target}) {
      books().check_named(address, bytes, context->device);
    }
    grouped.push_back({own, {from, to}, count, type, stream});
  });
  if (result != ncclSuccess && group_error == ncclSuccess) group_error = result;
  return result;
}

}  // namespace tandem::doubles::cuda

// The functions of libcuda, with the real names and arguments. Each keeps to the driver's rules and
// says on stderr which one a call has broken.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "double_calls.h"
#include "double_control.h"

namespace tandem::doubles::cuda {

#define TANDEM_DECLARE(name, ...) TANDEM_EXPORTED CUresult name(__VA_ARGS__);
TANDEM_CUDA_FUNCTIONS(TANDEM_DECLARE)
#undef TANDEM_DECLARE

namespace {

/// The contexts of this thread, the current one last. They outlive what else the thread keeps:
/// devices are given back when a thread ends, and that needs a context.
std::vector<CUcontext>& contexts_of_thread() {
  thread_local auto* const contexts = new std::vector<CUcontext>;
  return *contexts;
}

}  // namespace

DoubleContextPtr current() {
  if (contexts_of_thread().empty()) {
    throw Complaint(CUDA_ERROR_INVALID_CONTEXT, "the thread has no current context");
  }
  return books().contexts.find(contexts_of_thread().back());
}

DoubleContextPtr working() {
  DoubleContextPtr context = current();
  if (context->lost != CUDA_SUCCESS) throw Lost{context->lost};
  return context;
}

DoubleStreamPtr stream_of(CUstream handle) {
  if (handle == nullptr)
    throw Complaint(CUDA_ERROR_INVALID_HANDLE, "the default stream is not used here");
  DoubleStreamPtr stream = books().streams.find(handle);
  if (stream->context != current()) {
    throw Complaint(CUDA_ERROR_INVALID_CONTEXT, "the stream is not of the current context");
  }
  return stream;
}

void issue_use(CUstream handle, const char* name, const std::vector<UsedMemory>& used,
               std::function<void()> run) {
  working();
  const DoubleStreamPtr stream = stream_of(handle);
  for (const auto& [address, bytes, device] : used) books().check_named(address, bytes, device);
  auto checked = [used, run = std::move(run)] {
    {
      const Lock lock(books().mutex);
      for (const auto& [address, bytes, device] : used) books().check_used(address, bytes);
    }
    run();
  };
  books().issue(stream, {.name = name, .run = std::move(checked)});
}

namespace {

/// A command that reads or writes `bytes` of memory in one place or two.
void issue_use(CUstream handle, const char* name,
               const std::vector<std::pair<CUdeviceptr, int>>& places, size_t bytes,
               std::function<void()> run) {
  working();
  stream_of(handle);
  if (bytes == 0) return;
  std::vector<UsedMemory> used;
  for (const auto& [address, device] : places) used.push_back({address, bytes, device});
  issue_use(handle, name, used, std::move(run));
}

void check_device(CUdevice device) {
  if (device >= 0 && device < std::ssize(books().visible)) return;
  throw Complaint(CUDA_ERROR_INVALID_DEVICE, fmt::format("there is no device {}", device));
}

void note_host_memory(const void* address, size_t bytes, CUstream stream) {
  const auto begin = reinterpret_cast<uint64_t>(address);
  const auto after = books().pinned.upper_bound(begin);
  const bool is_pinned =
      after != books().pinned.begin() && begin + bytes <= std::prev(after)->second;
  if (is_pinned) return;
  books().check_not_captured(*stream_of(stream), "a copy of memory that is not pinned");
  ++books().counts["pageable"];
}

void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

/// Those that CUDA_VISIBLE_DEVICES lists, up to the first that there is not; all where it is not
/// set. The real driver looks at it once; here tests change it.
std::vector<int> find_visible() {
  const auto count = static_cast<int>(books().settings.devices);
  std::vector<int> visible;
  const char* next = std::getenv("CUDA_VISIBLE_DEVICES");
  for (int i = 0; next == nullptr && i < count; ++i) visible.push_back(i);
  while (next != nullptr && *next != '\0') {
    char* end = nullptr;
    const long device = std::strtol(next, &end, 10);
    if (end == next || device < 0 || device >= count) break;
    visible.push_back(static_cast<int>(device));
    next = *end == ',' ? end + 1 : end;
  }
  return visible;
}

struct ErrorText {
  CUresult result;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "capturing stream has unjoined work"},
    {CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
};

const ErrorText* find_error(CUresult result) {
  const auto* const found = std::ranges::find(kErrors, result, &ErrorText::result);
  return found == std::end(kErrors) ? nullptr : found;
}

}  // namespace

// ---- Devices ----

CUresult cuInit(unsigned) {
  return driver_call("cuInit", [&](Lock&) {
    books().is_initialized = true;
    books().visible = find_visible();
    return books().visible.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
  });
}

CUresult cuDriverGetVersion(int* version) {
  return driver_call("cuDriverGetVersion", [&](Lock&) {
    *version = static_cast<int>(books().settings.driver);
    return CUDA_SUCCESS;
  });
}

CUresult cuGetErrorName(CUresult result, const char** name) {
  const ErrorText* const found = find_error(result);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = found->name;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult result, const char** text) {
  const ErrorText* const found = find_error(result);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = found->text;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  return driver_call("cuDeviceGetCount", [&](Lock&) {
    *count = static_cast<int>(books().visible.size());
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return driver_call("cuDeviceGet", [&](Lock&) {
    check_device(ordinal);
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  return driver_call("cuDeviceGetName", [&](Lock&) {
    check_device(device);
    std::snprintf(name, static_cast<size_t>(size), "CUDA double %d",
                  books().visible[static_cast<size_t>(device)]);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  return driver_call("cuDeviceTotalMem_v2", [&](Lock&) {
    check_device(device);
    *bytes = static_cast<size_t>(books().settings.memory);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return driver_call("cuDeviceGetAttribute", [&](Lock&) {
    check_device(device);
    const auto capability = static_cast<int>(books().settings.capability);
    switch (attribute) {
      case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = 1024;
        break;
      case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
        *value = 48 << 10;
        break;
      case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = 2;
        break;
      case CU_DEVICE_ATTRIBUTE_INTEGRATED:
      case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
        *value = 0;
        break;
      case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = capability / 10;
        break;
      case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = capability % 10;
        break;
      case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
        *value = static_cast<int>(books().settings.pools);
        break;
      default:
        throw Complaint(CUDA_ERROR_INVALID_VALUE,
                        fmt::format("attribute {}", static_cast<unsigned>(attribute)));
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return driver_call("cuDeviceCanAccessPeer", [&](Lock&) {
    check_device(device);
    check_device(peer);
    *can = books().settings.peers != 0 && device != peer ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice from,
                                 CUdevice to) {
  return driver_call("cuDeviceGetP2PAttribute", [&](Lock&) {
    check_device(from);
    check_device(to);
    if (from == to) throw Complaint(CUDA_ERROR_INVALID_DEVICE, "a device is no peer of itself");
    const long long least = attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED ? 2 : 1;
    *value = books().settings.peers >= least ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  return driver_call("cuDeviceGetDefaultMemPool", [&](Lock&) {
    check_device(device);
    if (books().settings.pools == 0) return CUDA_ERROR_NOT_SUPPORTED;
    *pool = reinterpret_cast<CUmemoryPool>(static_cast<uintptr_t>(device) + 1);
    return CUDA_SUCCESS;
  });
}

// ---- Contexts ----

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return driver_call("cuDevicePrimaryCtxRetain", [&](Lock&) {
    check_device(device);
    uintptr_t& handle = books().primary[device];
    if (handle == 0)
      handle =
          books().contexts.add(std::make_shared<DoubleContext>(DoubleContext{.device = device}));
    *context = reinterpret_cast<CUcontext>(handle);
    ++books().contexts.find(*context)->retained;
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return driver_call("cuDevicePrimaryCtxRelease_v2", [&](Lock& lock) {
    check_device(device);
    uintptr_t& handle = books().primary[device];
    const auto* const context_handle = reinterpret_cast<const void*>(handle);
    const DoubleContextPtr context = books().contexts.find(context_handle);
    if (--context->retained > 0) return CUDA_SUCCESS;
    books().wait_for(*context, lock);
    books().contexts.remove(context_handle);
    books().forget_device(device);
    books().pool_access.erase(device);
    handle = 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  return driver_call("cuCtxPushCurrent_v2", [&](Lock&) {
    books().contexts.find(context);
    contexts_of_thread().push_back(context);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  return driver_call("cuCtxPopCurrent_v2", [&](Lock&) {
    if (contexts_of_thread().empty())
      throw Complaint(CUDA_ERROR_INVALID_CONTEXT, "no context is current");
    *context = contexts_of_thread().back();
    contexts_of_thread().pop_back();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  return driver_call("cuCtxEnablePeerAccess", [&](Lock&) {
    const DoubleContextPtr other = books().contexts.find(peer);
    const DoubleContextPtr own = working();
    if (flags != 0) throw Complaint(CUDA_ERROR_INVALID_VALUE, "flags must be 0");
    if (books().settings.peers == 0) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    return own->peers.insert(other->device).second ? CUDA_SUCCESS
                                                   : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  });
}

// ---- Memory ----

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  return driver_call("cuMemAlloc_v2", [&](Lock&) {
    *address = books().reserve(working()->device, bytes, false);
    if (*address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    books().begin_life(*address);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  return driver_call("cuMemFree_v2", [&](Lock& lock) {
    const DoubleContextPtr context = current();
    books().give_back(address, false);
    books().wait_for(*context, lock);
    books().end_life(address);
    return context->lost;
  });
}

/// Graphs can have allocations of their own; here nobody asks for them.
CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream stream) {
  return driver_call("cuMemAllocAsync", [&](Lock&) {
    if (books().settings.pools == 0) return CUDA_ERROR_NOT_SUPPORTED;
    const DoubleContextPtr context = working();
    const DoubleStreamPtr ordered = stream_of(stream);
    books().check_not_captured(*ordered, "an allocation");
    const uint64_t reserved = books().reserve(context->device, bytes, true);
    *address = reserved;
    if (reserved == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    books().issue(ordered, {.name = "allocation", .run = [reserved] {
                              const Lock lock(books().mutex);
                              books().begin_life(reserved);
                            }});
    return CUDA_SUCCESS;
  });
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  return driver_call("cuMemFreeAsync", [&](Lock&) {
    const DoubleStreamPtr ordered = stream_of(stream);
    books().check_not_captured(*ordered, "a free");
    books().give_back(address, true);
    books().issue(ordered, {.name = "free", .run = [address] {
                              const Lock lock(books().mutex);
                              books().end_life(address);
                            }});
    return ordered->context->lost;
  });
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* access, size_t count) {
  return driver_call("cuMemPoolSetAccess", [&](Lock&) {
    const auto device = static_cast<int>(reinterpret_cast<uintptr_t>(pool)) - 1;
    check_device(device);
    for (size_t i = 0; i < count; ++i) {
      if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
          access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
        throw Complaint(CUDA_ERROR_INVALID_VALUE, "access other than by devices, for all");
      }
      check_device(access[i].location.id);
      if (books().settings.peers == 0) return CUDA_ERROR_INVALID_DEVICE;
      books().pool_access[device].insert(access[i].location.id);
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  return driver_call("cuMemHostAlloc", [&](Lock&) {
    working();
    *memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (*memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    const auto begin = reinterpret_cast<uint64_t>(*memory);
    books().pinned[begin] = begin + bytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemFreeHost(void* memory) {
  return driver_call("cuMemFreeHost", [&](Lock&) {
    if (books().pinned.erase(reinterpret_cast<uint64_t>(memory)) == 0) {
      throw Complaint(CUDA_ERROR_INVALID_VALUE, "it was not allocated by cuMemHostAlloc");
    }
    std::free(memory);
    return CUDA_SUCCESS;
  });
}

// ---- Copies. The host's memory is read and written when they run, pinned or not. ----

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return driver_call("cuMemcpyHtoDAsync_v2", [&](Lock&) {
    note_host_memory(from, bytes, stream);
    issue_use(stream, "copy", {{to, current()->device}}, bytes,
              [=] { std::memcpy(pointer(to), from, bytes); });
    return CUDA_SUCCESS;
  });
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return driver_call("cuMemcpyDtoHAsync_v2", [&](Lock&) {
    note_host_memory(to, bytes, stream);
    issue_use(stream, "copy", {{from, current()->device}}, bytes,
              [=] { std::memcpy(to, pointer(from), bytes); });
    return CUDA_SUCCESS;
  });
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return driver_call("cuMemcpyDtoDAsync_v2", [&](Lock&) {
    const int device = current()->device;
    issue_use(stream, "copy", {{to, device}, {from, device}}, bytes,
              [=] { std::memmove(pointer(to), pointer(from), bytes); });
    return CUDA_SUCCESS;
  });
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, size_t bytes, CUstream stream) {
  return driver_call("cuMemcpyPeerAsync", [&](Lock&) {
    const int to_device = books().contexts.find(to_context)->device;
    const int from_device = books().contexts.find(from_context)->device;
    issue_use(stream, "copy", {{to, to_device}, {from, from_device}}, bytes,
              [=] { std::memmove(pointer(to), pointer(from), bytes); });
    return CUDA_SUCCESS;
  });
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  return driver_call("cuMemsetD8Async", [&](Lock&) {
    issue_use(stream, "fill", {{to, current()->device}}, bytes,
              [=] { std::memset(pointer(to), value, bytes); });
    return CUDA_SUCCESS;
  });
}

// ---- Streams and events ----

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return driver_call("cuStreamCreate", [&](Lock&) {
    if (flags != CU_STREAM_NON_BLOCKING) {
      throw Complaint(CUDA_ERROR_INVALID_VALUE, "streams that block are not known here");
    }
    *stream = reinterpret_cast<CUstream>(
        books().streams.add(std::make_shared<DoubleStream>(DoubleStream{.context = working()})));
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  return driver_call("cuStreamDestroy_v2", [&](Lock&) {
    books().check_not_captured(*stream_of(stream), "it is destroyed");
    books().streams.remove(stream);  // What it still has to do is done.
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return driver_call("cuStreamWaitEvent", [&](Lock&) {
    if (flags != 0) throw Complaint(CUDA_ERROR_INVALID_VALUE, "flags must be 0");
    working();
    const DoubleEventPtr waited = books().events.find(event);
    const DoubleStreamPtr waiting = stream_of(stream);
    if (wait_in_capture(waiting, *waited)) return CUDA_SUCCESS;
    books().issue(waiting, {.name = "wait",
                            .event = waited,
                            .version = waited->recorded,
                            .kind = Command::Kind::wait});
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamSynchronize(CUstream handle) {
  return driver_call("cuStreamSynchronize", [&](Lock& lock) {
    const DoubleStreamPtr stream = stream_of(handle);
    books().check_not_captured(*stream, "a wait of the host");
    books().wait_for(*stream, lock);
    return stream->context->lost;
  });
}

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  return driver_call("cuEventCreate", [&](Lock&) {
    *event = reinterpret_cast<CUevent>(books().events.add(std::make_shared<DoubleEvent>(
        DoubleEvent{.context = working(), .is_timed = (flags & CU_EVENT_DISABLE_TIMING) == 0})));
    return CUDA_SUCCESS;
  });
}

CUresult cuEventDestroy_v2(CUevent event) {
  return driver_call("cuEventDestroy_v2", [&](Lock&) {
    books().events.remove(event);
    return CUDA_SUCCESS;
  });
}

CUresult cuEventRecord(CUevent handle, CUstream stream) {
  return driver_call("cuEventRecord", [&](Lock&) {
    const DoubleContextPtr context = working();
    const DoubleEventPtr event = books().events.find(handle);
    if (event->context != context) {
      throw Complaint(CUDA_ERROR_INVALID_HANDLE, "the event is of another context than the stream");
    }
    const DoubleStreamPtr recording = stream_of(stream);
    if (record_in_capture(*recording, *event)) return CUDA_SUCCESS;
    books().issue(recording, {.name = "record",
                              .event = event,
                              .version = ++event->recorded,
                              .kind = Command::Kind::record});
    return CUDA_SUCCESS;
  });
}

CUresult cuEventQuery(CUevent handle) {
  return driver_call("cuEventQuery", [&](Lock&) {
    const DoubleEventPtr event = books().events.find(handle);
    check_not_captured(*event);
    if (event->context->lost != CUDA_SUCCESS) return event->context->lost;
    return event->reached >= event->recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent begin_handle, CUevent end_handle) {
  return driver_call("cuEventElapsedTime", [&](Lock&) {
    const DoubleEventPtr begin = books().events.find(begin_handle);
    const DoubleEventPtr end = books().events.find(end_handle);
    for (const DoubleEventPtr& event : {begin, end}) {
      if (!event->is_timed || event->recorded == 0) {
        throw Complaint(CUDA_ERROR_INVALID_HANDLE, "the event has no time");
      }
      if (event->reached < event->recorded) return CUDA_ERROR_NOT_READY;
    }
    *milliseconds = std::chrono::duration<float, std::milli>(end->time - begin->time).count();
    return CUDA_SUCCESS;
  });
}

// ---- Programs ----

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count,
                            CUjit_option* options, void** values) {
  return driver_call("cuModuleLoadDataEx", [&](Lock&) {
    const DoubleContextPtr context = working();
    const char* const text = static_cast<const char*>(image);
    if (std::strncmp(text,
                     "\x7f"
                     "ELF",
                     4) == 0)
      return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (std::strstr(text, ".version") == nullptr) return CUDA_ERROR_INVALID_IMAGE;
    try {
      auto loaded = std::make_shared<DoubleModule>();
      loaded->context = context;
      loaded->program = ptx::parse(text);
      *module = reinterpret_cast<CUmodule>(books().modules.add(std::move(loaded)));
    } catch (const ptx::PtxError& error) {
      char* log = nullptr;
      size_t size = 0;
      for (unsigned i = 0; i < count; ++i) {
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER) log = static_cast<char*>(values[i]);
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
          size = reinterpret_cast<size_t>(values[i]);
      }
      if (log != nullptr && size > 0) std::snprintf(log, size, "%s", error.what());
      return CUDA_ERROR_INVALID_PTX;
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleUnload(CUmodule module) {
  return driver_call("cuModuleUnload", [&](Lock&) {
    books().modules.find(module)->context.reset();  // Its functions are no longer good.
    books().modules.remove(module);
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* name) {
  return driver_call("cuModuleGetFunction", [&](Lock&) {
    const std::shared_ptr<DoubleModule> module = books().modules.find(handle);
    const auto found = module->program->kernels.find(name);
    if (found == module->program->kernels.end()) return CUDA_ERROR_NOT_FOUND;
    *function = reinterpret_cast<CUfunction>(books().functions.add(std::make_shared<DoubleFunction>(
        DoubleFunction{module->context, module, found->second.get()})));
    return CUDA_SUCCESS;
  });
}

CUresult cuLaunchKernel(CUfunction handle, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,
                        unsigned threads_x, unsigned threads_y, unsigned threads_z,
                        unsigned shared_bytes, CUstream stream_handle, void** parameters,
                        void** extra) {
  return driver_call("cuLaunchKernel", [&](Lock&) {
    const DoubleContextPtr context = working();
    const std::shared_ptr<DoubleFunction> function = books().functions.find(handle);
    if (function->module->context == nullptr) {
      throw Complaint(CUDA_ERROR_INVALID_HANDLE, "the kernel's module was unloaded");
    }
    if (function->context != context) {
      throw Complaint(CUDA_ERROR_INVALID_CONTEXT, "the kernel is not of the current context");
    }
    const ptx::PtxKernel& kernel = *function->kernel;
    const uint64_t threads = uint64_t{threads_x} * threads_y * threads_z;
    const uint64_t blocks = uint64_t{blocks_x} * blocks_y * blocks_z;
    if (extra != nullptr || shared_bytes != 0 || blocks == 0 || threads == 0 || threads > 1024 ||
        blocks_x > 0x7fffffff || blocks_y > 0xffff || blocks_z > 0xffff) {
      throw Complaint(CUDA_ERROR_INVALID_VALUE,
                      fmt::format("{} blocks of {} threads", blocks, threads));
    }
    if (kernel.shared_bytes > 48 << 10) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    ptx::PtxLaunch launch{.blocks = {blocks_x, blocks_y, blocks_z},
                          .threads = {threads_x, threads_y, threads_z},
                          .parameters = std::vector<char>(kernel.parameter_bytes + 1),
                          .order = books().settings.reverse != 0 ? ptx::ThreadOrder::reverse
                                                                 : ptx::ThreadOrder::forward};
    for (size_t i = 0; i < kernel.parameters.size(); ++i) {
      std::memcpy(launch.parameters.data() + kernel.parameters[i].offset, parameters[i],
                  kernel.parameters[i].bytes);
    }
    auto run = [function, context, launch = std::move(launch)] {
      const ptx::FindRange find_range = [&](uint64_t address) -> ptx::PtxRange {
        for (const auto& variable : function->module->program->variables) {
          const auto begin = reinterpret_cast<uint64_t>(variable->data());
          const uint64_t end = begin + variable->size() * sizeof(uint64_t);
          if (address >= begin && address < end) return {begin, end};
        }
        const Lock lock(books().mutex);
        return books().range_of(address, *context);
      };
      const uint64_t executed = ptx::run(*function->kernel, launch, find_range);
      const Lock lock(books().mutex);
      books().counts["instructions"] += static_cast<long long>(executed);
      ++books().counts["kernels"];
    };
    books().issue(stream_of(stream_handle), {.name = "kernel", .run = std::move(run)});
    return CUDA_SUCCESS;
  });
}

}  // namespace tandem::doubles::cuda

// ---- For tests ----

namespace {

using tandem::doubles::cuda::Books;

}  // namespace

TANDEM_EXPORTED int tandem_double_set(const char* name, long long value) {
  using tandem::doubles::cuda::DoubleSettings;
  constexpr std::pair<const char*, long long DoubleSettings::*> kNames[] = {
      {"devices", &DoubleSettings::devices},
      {"capability", &DoubleSettings::capability},
      {"driver", &DoubleSettings::driver},
      {"memory", &DoubleSettings::memory},
      {"pools", &DoubleSettings::pools},
      {"peers", &DoubleSettings::peers},
      {"reverse", &DoubleSettings::reverse},
      {"seed", &DoubleSettings::seed},
      {"delay", &DoubleSettings::delay},
      {"cudnn", &DoubleSettings::cudnn},
      {"nccl", &DoubleSettings::nccl},
      {"epilogues", &DoubleSettings::epilogues},
      {"nccl_connects", &DoubleSettings::nccl_connects}};
  Books& books = Books::instance();
  const std::lock_guard lock(books.mutex);
  for (const auto& [known, setting] : kNames) {
    if (std::strcmp(known, name) != 0) continue;
    books.settings.*setting = value;
    books.changed.notify_all();
    return 1;
  }
  return 0;
}

TANDEM_EXPORTED long long tandem_double_count(const char* name) {
  Books& books = Books::instance();
  const std::lock_guard lock(books.mutex);
  const std::pair<const char*, size_t> live[] = {
      {"memory", books.live_memory()},
      {"streams", books.streams.size()},
      {"events", books.events.size()},
      {"modules", books.modules.size()},
      {"pinned", books.pinned.size()},
      {"contexts", books.contexts.size()},
      {"graphs", books.graphs.size() + books.executable_graphs.size()},
      {"handles", tandem::doubles::cuda::library_handles()},
      {"communicators", tandem::doubles::cuda::nccl_communicators()}};
  for (const auto& [known, count] : live) {
    if (std::strcmp(known, name) == 0) return static_cast<long long>(count);
  }
  for (const char* known :
       {"kernels", "instructions", "pageable", "complaints", "products", "convolutions",
        "nondeterministic", "sums", "aborts", "replays", "epilogues"}) {
    if (std::strcmp(known, name) == 0) return books.counts[known];
  }
  return -1;
}

TANDEM_EXPORTED void tandem_double_fail(const char* function, int n, int error) {
  Books& books = Books::instance();
  const std::lock_guard lock(books.mutex);
  books.fail(function, n, static_cast<tandem::devices::cuda::CUresult>(error));
}

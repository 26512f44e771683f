#include "device/opencl/opencl_command_buffer.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace tandem::devices::opencl {
namespace {

/// Version 0.9.5 of the extension gave the commands another argument.
constexpr cl_uint kFirstOtherVersion = (9u << 12) + 5;

/// As OpenCL 3 has it; our headers are asked for 1.2.
constexpr cl_device_info kExtensionsWithVersion = 0x1060;
struct NameVersion {
  cl_uint version;
  char name[64];
};

bool has_extension(cl_device_id device) {
  size_t bytes = 0;
  const auto ask = [&](size_t room, void* to, size_t* size) {
    return api()->clGetDeviceInfo(device, kExtensionsWithVersion, room, to, size) == CL_SUCCESS;
  };
  if (!ask(0, nullptr, &bytes)) return false;
  std::vector<NameVersion> extensions(bytes / sizeof(NameVersion));
  if (!ask(bytes, extensions.data(), nullptr)) return false;
  return std::ranges::any_of(extensions, [](const NameVersion& extension) {
    return std::strcmp(extension.name, CL_KHR_COMMAND_BUFFER_EXTENSION_NAME) == 0 &&
           extension.version < kFirstOtherVersion;
  });
}

bool runs_beside_itself(cl_device_id device) {
  cl_device_command_buffer_capabilities_khr able = 0;
  return api()->clGetDeviceInfo(device, CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR, sizeof able,
                                &able, nullptr) == CL_SUCCESS &&
         (able & CL_COMMAND_BUFFER_CAPABILITY_SIMULTANEOUS_USE_KHR) != 0;
}

}  // namespace

std::unique_ptr<const CommandBufferApi> find_command_buffers(cl_device_id device) {
  cl_platform_id platform = nullptr;
  if (!has_extension(device) || !runs_beside_itself(device) ||
      api()->clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, nullptr) !=
          CL_SUCCESS) {
    return nullptr;
  }
  auto found = std::make_unique<CommandBufferApi>();
  const auto find = [&]<class Function>(const char* name, Function& function) {
    function =
        reinterpret_cast<Function>(api()->clGetExtensionFunctionAddressForPlatform(platform, name));
    return function != nullptr;
  };
  const bool complete = find("clCreateCommandBufferKHR", found->create) &&
                        find("clReleaseCommandBufferKHR", found->release) &&
                        find("clFinalizeCommandBufferKHR", found->finalize) &&
                        find("clEnqueueCommandBufferKHR", found->enqueue) &&
                        find("clCommandNDRangeKernelKHR", found->kernel) &&
                        find("clCommandCopyBufferKHR", found->copy) &&
                        find("clCommandFillBufferKHR", found->fill);
  return complete ? std::move(found) : nullptr;
}

CommandBuffer::CommandBuffer(const CommandBufferApi& functions, cl_command_queue queue)
    : functions_(functions) {
  constexpr cl_command_buffer_properties_khr kProperties[] = {
      CL_COMMAND_BUFFER_FLAGS_KHR, CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR, 0};
  cl_int status = CL_SUCCESS;
  buffer_ = functions_.create(1, &queue, kProperties, &status);
  check(status, "clCreateCommandBufferKHR");
}

template <class... Arguments>
void CommandBuffer::add(const char* name, cl_int (*function)(Arguments...), auto... arguments) {
  const cl_sync_point_khr before = last_;
  const cl_uint waits = count_++ == 0 ? 0 : 1;
  check(function(buffer_, nullptr, arguments..., waits, waits == 0 ? nullptr : &before, &last_,
                 nullptr),
        name);
}

void CommandBuffer::add_kernel(cl_kernel kernel, size_t items, size_t group) {
  add("clCommandNDRangeKernelKHR", functions_.kernel, nullptr, kernel, 1, nullptr, &items, &group);
}

void CommandBuffer::add_copy(cl_mem to, size_t to_offset, cl_mem from, size_t from_offset,
                             size_t bytes) {
  add("clCommandCopyBufferKHR", functions_.copy, from, to, from_offset, to_offset, bytes);
}

void CommandBuffer::add_fill(cl_mem to, size_t offset, uint8_t value, size_t bytes) {
  add("clCommandFillBufferKHR", functions_.fill, to, &value, size_t{1}, offset, bytes);
}

void CommandBuffer::finalize() {
  check(functions_.finalize(buffer_), "clFinalizeCommandBufferKHR");
}

void CommandBuffer::enqueue(cl_command_queue queue) const {
  check(functions_.enqueue(1, &queue, buffer_, 0, nullptr, nullptr), "clEnqueueCommandBufferKHR");
}

}  // namespace tandem::devices::opencl

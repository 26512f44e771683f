/// The seam of a GPU backend: what OpenCL and CUDA must be able to do, and nothing else. Everything
/// above it (memory, queues, compiled kernels) is written once, in this folder.
///
///   Driver    one physical device: its memory, its compiler, its streams
///   Stream    commands that run in the order in which they were issued
///   Mark      a point in a stream that the host and other streams can wait for
///   Module    compiled kernels
///
/// A failing call throws an Error that names the driver's function and what it answered. A Driver
/// may be used by any thread, a Stream by one at a time. A Kernel may be launched on several
/// streams at the same time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/gpu/vendor_library.h"

namespace tandem::devices::gpu {

/// What is known of a device before it is opened.
struct Description {
  std::string name;    ///< "NVIDIA GeForce RTX 4090"
  std::string vendor;  ///< "NVIDIA Corporation"
  std::string driver;  ///< "OpenCL 3.0 PoCL 3.1"
  size_t memory = 0;
  size_t most_at_once = 0;  ///< The bytes of the largest allocation.
  size_t local_memory = 0;  ///< The bytes that the items of a group share.
  int units = 1;            ///< Groups of items that run at the same time.
  bool is_cpu = false;      ///< Its items are best few and long: see KernelForm::serial.
  bool shares_host_memory = false;
  std::string unusable{};  ///< Why no GPU:n is made of it; empty where one is.
};

/// How kernels are written for a device. A text has both forms (kernels/gpu/dialect).
enum class KernelForm {
  serial,    ///< An item takes a run of elements, or a row: CPUs.
  parallel,  ///< Items take elements in turn, and a group of them a row: GPUs.
};

/// How bytes get from one device to another.
enum class Link {
  host,    ///< Through the host's memory.
  driver,  ///< As their driver does it.
  pcie,    ///< One reads the other's memory, by PCI Express,
  nvlink,  ///< or by a faster link.
};

/// A kernel that can be launched.
class Kernel {
 public:
  virtual ~Kernel() = default;
};

/// Each argument of a kernel is eight bytes: an allocation, a whole number or a float64.
struct KernelArgument {
  Memory memory = nullptr;  ///< Null: `bits` is a number.
  uint64_t bits = 0;
};

struct Grid {
  int64_t groups = 1;
  int group_size = 1;
};

class Mark {
 public:
  virtual ~Mark() = default;

  /// Throws Unavailable when the commands before it have failed.
  virtual bool is_reached() const = 0;
};

/// When one command ran, by a clock of the device.
struct Timing {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
};
class TimedCommand {
 public:
  virtual ~TimedCommand() = default;

  /// The command has run.
  virtual Timing timing() const = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;

  virtual void launch(const Kernel& kernel, const Grid& grid,
                      std::span<const KernelArgument> arguments) = 0;

  /// Copies from and to host memory, which is left alone until they have been made.
  virtual void write(const Location& to, const void* from, size_t bytes) = 0;
  virtual void read(void* to, const Location& from, size_t bytes) = 0;

  /// Both ends are of drivers that reach each other.
  virtual void copy(const Location& to, const Location& from, size_t bytes) = 0;
  virtual void fill(const Location& to, uint8_t value, size_t bytes) = 0;

  /// A mark behind all commands so far. They begin to run even if nobody waits. `used` is one of
  /// this stream's that nobody else has, or null: it may be set anew.
  virtual std::shared_ptr<Mark> mark(std::shared_ptr<Mark> used) = 0;

  /// Commands from now on run after `mark`, of a driver that is reached.
  virtual void wait(const Mark& mark) = 0;

  /// The last command's times, once it has run; null where the device does not tell.
  virtual std::shared_ptr<TimedCommand> last_timing() = 0;

  /// From now on the times of commands are wanted, or not.
  virtual void set_timed(bool timed) = 0;
};

/// Commands of a stream that are kept, to be run again and again as one.
class CapturedCommands {
 public:
  virtual ~CapturedCommands() = default;

  /// Issues them on `stream`, of the same driver, where they may still run from before.
  virtual void run(Stream& stream) const = 0;
};

/// While it lives, what is issued on its stream is kept instead of run.
class StreamCapture {
 public:
  virtual ~StreamCapture() = default;

  /// Its commands throw Unimplemented where they are none that can be kept.
  virtual Stream& stream() = 0;

  /// Ends it.
  virtual std::shared_ptr<const CapturedCommands> finish() = 0;
};

class Module {
 public:
  virtual ~Module() = default;

  /// Throws NotFound.
  virtual std::shared_ptr<Kernel> kernel(const std::string& name) = 0;

  /// What Driver::load takes; empty where the device does not tell.
  virtual std::string binary() const = 0;
};

class Driver {
 public:
  virtual ~Driver() = default;

  virtual const Description& description() const = 0;

  /// It lives as long as the process, whichever devices are made of it.
  virtual bool is_permanent() const { return false; }

  /// Null when there is no more.
  virtual Memory allocate(size_t bytes) = 0;

  /// In order with the commands that were issued before.
  virtual void release(Memory memory) noexcept = 0;

  virtual std::shared_ptr<Stream> create_stream() = 0;

  /// The dialect in which it takes kernels: "opencl", "cuda".
  virtual std::string_view dialect() const = 0;

  /// Throws InvalidArgument with the compiler's log.
  virtual std::shared_ptr<Module> compile(const std::string& text) = 0;

  /// Null where `binary` was not made for this device and driver.
  virtual std::shared_ptr<Module> load(const std::string& binary) = 0;

  /// What else decides about a compiled kernel: options, versions. Part of a cache's key.
  virtual std::string compiler() const = 0;

  /// Memory of the host that copies are fastest with.
  virtual std::shared_ptr<char[]> staging(size_t bytes) = 0;

  /// Copies and waits work between the two without the host.
  virtual bool reaches(const Driver& other) const = 0;

  /// How bytes get to `other`.
  virtual Link link_to(const Driver& other) const {
    return reaches(other) ? Link::driver : Link::host;
  }

  /// Begins to capture commands. One thread at a time does. Null where the device cannot.
  virtual std::unique_ptr<StreamCapture> capture() { return nullptr; }

  /// Libraries of the device's vendor. Null where there is none: Tandem's own kernels serve.
  virtual std::shared_ptr<ProductLibrary> products() { return nullptr; }
  virtual std::shared_ptr<ConvolutionLibrary> convolutions() { return nullptr; }
};

using DriverPtr = std::shared_ptr<Driver>;

}  // namespace tandem::devices::gpu

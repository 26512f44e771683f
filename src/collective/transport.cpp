#include "collective/transport.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "core/plugin.h"
#include "tandem/error.h"

namespace tandem::collective {
namespace {

bool may_read_neighbours() {
  const char* text = std::getenv("TANDEM_READ_NEIGHBOURS");
  const std::string_view said = text == nullptr ? "1" : text;
  if (said == "0" || said == "1") return said == "1";
  throw InvalidArgument(
      fmt::format("transport: TANDEM_READ_NEIGHBOURS is '{}', 0 and 1 are accepted", said));
}

}  // namespace

std::unique_ptr<Transport> open_transport(const TransportOptions& asked) {
  TransportOptions options = asked;
  options.read_neighbours = asked.read_neighbours && may_read_neighbours();
  if (options.kind != "auto" && options.kind != "tcp" && options.kind != "shm") {
    throw InvalidArgument(
        fmt::format("transport: there is no '{}'; there are auto, tcp and shm", options.kind));
  }
  // UCX reads these when it is loaded. It must not print, must not catch signals nor replace
  // malloc. What comes over TCP it takes in as large pieces as our blocks are: in 64 KB, its own
  // choice, sums of 33 MB take a third longer.
  for (const auto& [name, value] : {std::pair{"UCX_LOG_LEVEL", "fatal"},
                                    {"UCX_HANDLE_ERRORS", "none"},
                                    {"UCX_DEBUG_SIGNO", "0"},  // It would be SIGHUP.
                                    {"UCX_MEM_EVENTS", "n"},
                                    {"UCX_POSIX_ERROR_HANDLING", "y"},
                                    {"UCX_TCP_RX_SEG_SIZE", "256k"},
                                    {"UCX_WARN_UNUSED_ENV_VARS", "n"}}) {
    setenv(name, value, 0);
  }
  using Open = Transport* (*)(const TransportOptions&, std::string&);
  const auto open =
      reinterpret_cast<Open>(core::plugin_function("ucx", "tandem_open_ucx", "libucx-dev"));
  std::string error;
  std::unique_ptr<Transport> transport(open(options, error));
  if (transport == nullptr) throw Unavailable(fmt::format("transport {}: {}", options.kind, error));
  return transport;
}

}  // namespace tandem::collective

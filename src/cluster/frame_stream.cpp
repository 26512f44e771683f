#include "cluster/frame_stream.h"

#include "core/plugin.h"

namespace tandem::cluster {

FramePlugin& frame_plugin() {
  using Open = FramePlugin* (*)();
  static FramePlugin* const plugin = reinterpret_cast<Open>(
      core::plugin_function("grpc", "tandem_open_grpc", "libgrpc++-dev libssl-dev"))();
  return *plugin;
}

}  // namespace tandem::cluster

/// UCX ends the process where one of its assertions does not hold; version 1.13 does so when a peer
/// dies while they connect over TCP. This plugin has the function that UCX calls for that. UCX's
/// libraries are loaded with the plugin and find it before their own, and it throws instead.
///
/// What UCX was doing is then half done: nobody may call it again for that transport.
#pragma once

#include <memory>
#include <string>

#include "collective/transport.h"

namespace tandem::collective::ucx {

/// Is thrown through UCX, by whatever was called of it.
struct FailedAssertion {
  std::string text;  ///< "UCX: tcp_cm.c:84: Assertion `ep->events == 0' failed"
};

/// The same transport, in which no call throws: after a failed assertion all peers have failed, and
/// the transport is abandoned.
std::unique_ptr<Transport> survive_assertions(std::unique_ptr<Transport> transport);

}  // namespace tandem::collective::ucx

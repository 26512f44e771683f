/// Which files of TLS the environment names.
#pragma once

#include "cluster/cluster_config.h"
#include "cluster/frame_stream.h"

namespace tandem::cluster {

/// TANDEM_TLS_CA, TANDEM_TLS_CERT and TANDEM_TLS_KEY. Throws InvalidArgument where only some are
/// set.
TlsFiles tls_from(const Environment& environment);

}  // namespace tandem::cluster

#include "cluster/tls_files.h"

#include "tandem/error.h"

namespace tandem::cluster {

TlsFiles tls_from(const Environment& environment) {
  const auto value = [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? "" : found->second;
  };
  TlsFiles tls{value("TANDEM_TLS_CA"), value("TANDEM_TLS_CERT"), value("TANDEM_TLS_KEY")};
  const bool any = !tls.authority.empty() || !tls.certificate.empty() || !tls.key.empty();
  if (any && (tls.authority.empty() || tls.certificate.empty() || tls.key.empty())) {
    throw InvalidArgument(
        "cluster: TANDEM_TLS_CA, TANDEM_TLS_CERT and TANDEM_TLS_KEY are set together or not at "
        "all");
  }
  return tls;
}

}  // namespace tandem::cluster

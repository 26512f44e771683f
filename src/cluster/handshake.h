/// Who may join: each side proves that it knows the cluster's secret, which is never sent, before
/// anything else is said.
///
///   member       hello: cluster, purpose, rank, size, nonce
///   coordinator  challenge: nonce, HMAC(secret, "coordinator", all of hello, both nonces)
///   member       proof: HMAC(secret, "member", the same)
#pragma once

#include <string>

#include "cluster/cluster_config.h"

namespace tandem::cluster {

struct Introduction {
  std::string cluster;
  std::string purpose;  ///< "join" or "beat <generation>".
  int rank = 0;
  int size = 0;
  std::string member_nonce;
  std::string coordinator_nonce;
};

/// 32 random bytes.
std::string make_nonce();

/// `side` is "coordinator" or "member".
std::string proof_of(const std::string& secret, const char* side, const Introduction& introduction);

/// In a time that does not depend on where they differ.
bool equal_proofs(const std::string& a, const std::string& b);

/// The secret that the environment names: the file descriptor TANDEM_SECRET_FD, which is read once,
/// or the file TANDEM_SECRET_FILE, which only its owner may read; empty without either. Throws
/// InvalidArgument, which names the variable.
std::string secret_from(const Environment& environment);

/// Throws FailedPrecondition where others than this machine could connect, there is no secret and
/// TANDEM_INSECURE is not 1.
void check_may_listen(const HostPort& address, const std::string& secret,
                      const Environment& environment);

}  // namespace tandem::cluster

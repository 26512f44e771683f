#include "cluster/handshake.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <mutex>

#include "cluster/frame.h"
#include "cluster/frame_stream.h"
#include "tandem/error.h"
#include "tandem/log.h"

namespace tandem::cluster {
namespace {

constexpr size_t kMostSecretBytes = 4096;

std::string read_all(int file) {
  std::string text(kMostSecretBytes, '\0');
  size_t length = 0;
  while (length < text.size()) {
    const ssize_t count = read(file, text.data() + length, text.size() - length);
    if (count <= 0) break;
    length += static_cast<size_t>(count);
  }
  text.resize(length);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

std::string secret_of_descriptor(const std::string& number) {
  // It can be read once; later joins of this process want it, too.
  static std::mutex mutex;
  static std::string secret;
  const std::lock_guard lock(mutex);
  if (!secret.empty()) return secret;
  int file = -1;
  std::from_chars(number.data(), number.data() + number.size(), file);
  if (file >= 0) {
    secret = read_all(file);
    close(file);
  }
  if (secret.empty()) {
    throw InvalidArgument(fmt::format("TANDEM_SECRET_FD: no secret can be read from '{}'", number));
  }
  return secret;
}

std::string secret_of_file(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw InvalidArgument(fmt::format("TANDEM_SECRET_FILE: '{}' cannot be read", path));
  struct stat status = {};
  fstat(file, &status);
  const std::string secret = (status.st_mode & 077) == 0 ? read_all(file) : "";
  close(file);
  if ((status.st_mode & 077) != 0) {
    throw InvalidArgument(
        fmt::format("TANDEM_SECRET_FILE: others may read '{}', whose mode is {:o}; chmod 600 it",
                    path, status.st_mode & 0777));
  }
  if (secret.size() < 16) {
    throw InvalidArgument(fmt::format("TANDEM_SECRET_FILE: '{}' has {} bytes; 16 are the least",
                                      path, secret.size()));
  }
  return secret;
}

}  // namespace

std::string make_nonce() {
  std::string nonce(32, '\0');
  if (getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
    throw Unavailable("cluster: the system gives no random numbers");
  }
  return nonce;
}

std::string proof_of(const std::string& secret, const char* side,
                     const Introduction& introduction) {
  const Frame text{FrameType::proof,
                   {side, introduction.cluster, introduction.purpose,
                    std::to_string(introduction.rank), std::to_string(introduction.size),
                    introduction.member_nonce, introduction.coordinator_nonce}};
  const auto bytes = frame_plugin().hmac_sha256(secret, text.encode());
  return {bytes.begin(), bytes.end()};
}

bool equal_proofs(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  int difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == 0;
}

std::string secret_from(const Environment& environment) {
  const auto descriptor = environment.find("TANDEM_SECRET_FD");
  if (descriptor != environment.end()) return secret_of_descriptor(descriptor->second);
  const auto file = environment.find("TANDEM_SECRET_FILE");
  return file == environment.end() ? "" : secret_of_file(file->second);
}

void check_may_listen(const HostPort& address, const std::string& secret,
                      const Environment& environment) {
  if (is_loopback(address.host) || !secret.empty()) return;
  const auto insecure = environment.find("TANDEM_INSECURE");
  if (insecure == environment.end() || insecure->second != "1") {
    throw FailedPrecondition(
        fmt::format("cluster: ranks meet at {}, where other machines can connect, and there is no "
                    "secret to tell who may join. Put "
                    "16 or more random bytes into a file of mode 600 on each machine and name it "
                    "by TANDEM_SECRET_FILE, start by "
                    "`tandem run`, or set TANDEM_INSECURE=1 on a network that you trust",
                    address.str()));
  }
  logging::write(logging::Level::warning,
                 fmt::format("cluster: everybody who reaches {} may join: TANDEM_INSECURE is 1",
                             address.str()));
}

}  // namespace tandem::cluster

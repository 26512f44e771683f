#include "cluster/host_addresses.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>

#include "tandem/error.h"

namespace tandem::launcher {

std::string own_address_for(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "9", &hints, &found) != 0) {
    throw NotFound(fmt::format("run: the host '{}' is not known", host));
  }
  const int file = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  char text[NI_MAXHOST] = {};
  const bool known = connect(file, found->ai_addr, found->ai_addrlen) == 0 &&
                     getsockname(file, reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
                     getnameinfo(reinterpret_cast<sockaddr*>(&address), length, text, sizeof text,
                                 nullptr, 0, NI_NUMERICHOST) == 0;
  close(file);
  freeaddrinfo(found);
  if (!known) throw Unavailable(fmt::format("run: there is no way to the host '{}'", host));
  return text;
}

int free_port() {
  static std::mt19937 random(std::random_device{}());
  for (;;) {
    const int port = 12000 + static_cast<int>(random() % 18000);
    const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    address.sin_port = htons(static_cast<uint16_t>(port));
    const bool is_free = bind(file, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    close(file);
    if (is_free) return port;
  }
}

}  // namespace tandem::launcher

/// A port for servers of tests.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>
#include <set>

namespace tandem::harness {

/// A port of this machine that nobody listens at, that the system gives to no connection, and that
/// this program has not been given before.
inline int free_port() {
  static std::mt19937 random(static_cast<unsigned>(getpid()));
  static std::set<int> given;
  for (;;) {
    const int port = 12000 + static_cast<int>(random() % 18000);
    const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    const bool free = bind(file, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    close(file);
    if (free && given.insert(port).second) return port;
  }
}

}  // namespace tandem::harness

#include "cluster/reachability.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace tandem::cluster {

bool machine_answers(const std::string& address, std::chrono::milliseconds patience) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return false;
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found) != 0)
    return false;
  const int file = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  bool answers =
      file >= 0 && (connect(file, found->ai_addr, found->ai_addrlen) == 0 || errno == ECONNREFUSED);
  if (file >= 0 && !answers && errno == EINPROGRESS) {
    pollfd entry{file, POLLOUT, 0};
    if (poll(&entry, 1, static_cast<int>(patience.count())) == 1) {
      int error = 0;
      socklen_t length = sizeof error;
      getsockopt(file, SOL_SOCKET, SO_ERROR, &error, &length);
      answers = error == 0 || error == ECONNREFUSED || error == ECONNRESET;
    }
  }
  if (file >= 0) close(file);
  freeaddrinfo(found);
  return answers;
}

}  // namespace tandem::cluster

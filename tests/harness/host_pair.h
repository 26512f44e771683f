/// Two hosts made of network namespaces, with a cable between them.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tandem/error.h"

namespace tandem::harness {

inline bool run_command(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

/// Host 0 has the address .1, host 1 the address .2. They end with this object.
class HostPair {
 public:
  /// Throws Unavailable, which says why, where network namespaces cannot be made.
  HostPair() {
    if (geteuid() != 0) throw Unavailable("only root can make network namespaces");
    if (!run_command("command -v ip")) throw Unavailable("there is no command 'ip'");
    if (!make()) {
      remove();
      throw Unavailable("network namespaces cannot be made here");
    }
  }
  ~HostPair() { remove(); }
  HostPair(const HostPair&) = delete;
  HostPair& operator=(const HostPair&) = delete;

  std::string name(int host) const { return fmt::format("tandem{}_{}", number_, host); }
  std::string cable(int host) const { return fmt::format("td{}_{}", number_, host); }
  std::string address(int host) const { return fmt::format("10.77.1.{}", host + 1); }

  /// Runs a command on a host; true if it succeeds.
  bool in(int host, const std::string& command) const {
    return run_command(fmt::format("ip netns exec {} sh -c \"{}\"", name(host), command));
  }

  /// What is written before the words of a program that is to run there.
  std::vector<std::string> words_before(int host) const {
    return {"ip", "netns", "exec", name(host)};
  }

  /// Makes both directions as slow as `rate`, such as "100mbit". False where that cannot be done.
  bool slow_down(const std::string& rate, const std::string& burst) const {
    for (int host : {0, 1}) {
      if (!in(host, fmt::format("tc qdisc add dev {} root tbf rate {} burst {} latency 400ms",
                                cable(host), rate, burst))) {
        return false;
      }
    }
    return true;
  }

 private:
  bool make() const {
    if (!run_command("ip netns add " + name(0)) || !run_command("ip netns add " + name(1)) ||
        !run_command(fmt::format("ip link add {0} netns {1} type veth peer name {2} netns {3}",
                                 cable(0), name(0), cable(1), name(1)))) {
      return false;
    }
    for (int host : {0, 1}) {
      if (!in(host, fmt::format("ip addr add {}/24 dev {}", address(host), cable(host))) ||
          !in(host, "ip link set lo up") ||
          !in(host, fmt::format("ip link set {} up", cable(host)))) {
        return false;
      }
    }
    for (int host : {0, 1}) {  // A link is up some time after both of its ends.
      const std::string is_up = fmt::format("ip link show {} | grep -q 'state UP'", cable(host));
      for (int i = 0; i < 500 && !in(host, is_up); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
    return true;
  }

  void remove() const {
    for (int host : {0, 1}) run_command("ip netns del " + name(host));
  }

  const pid_t number_ = getpid();  // Processes that make hosts run side by side.
};

}  // namespace tandem::harness

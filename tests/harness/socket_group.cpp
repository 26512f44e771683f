#include "harness/socket_group.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <deque>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <thread>

#include "collective/tree.h"
#include "harness/temp_folder.h"
#include "tandem/tandem.h"

namespace tandem::harness {
namespace {

using Clock = std::chrono::steady_clock;

size_t bytes_of(const op::Piece& piece) {
  return static_cast<size_t>(piece.count) * size_of(piece.dtype);
}

std::string packed(std::span<const op::Piece> pieces) {
  std::string bytes;
  for (const op::Piece& piece : pieces) {
    bytes.append(static_cast<const char*>(piece.data), bytes_of(piece));
  }
  return bytes;
}

void unpack(const std::string& bytes, std::span<const op::Piece> pieces) {
  size_t at = 0;
  for (const op::Piece& piece : pieces) {
    std::memcpy(piece.data, bytes.data() + at, bytes_of(piece));
    at += bytes_of(piece);
  }
}

template <class T>
void sum_piece(const std::vector<std::string>& all, size_t at, int64_t count, char* to) {
  for (int64_t i = 0; i < count; ++i) {
    const auto value = [&](int rank, int) {
      T element;
      std::memcpy(&element,
                  all[static_cast<size_t>(rank)].data() + at + static_cast<size_t>(i) * sizeof(T),
                  sizeof(T));
      return element;
    };
    const T sum = collective::tree_sum(0, static_cast<int>(all.size()), value,
                                       [](T a, T b, int) -> T { return a + b; });
    std::memcpy(to + static_cast<size_t>(i) * sizeof(T), &sum, sizeof(T));
  }
}

std::string summed(const std::vector<std::string>& all, std::span<const op::Piece> pieces) {
  std::string sums = all[0];
  size_t at = 0;
  for (const op::Piece& piece : pieces) {
    char* to = sums.data() + at;
    switch (piece.dtype) {
      case DType::float32:
        sum_piece<float>(all, at, piece.count, to);
        break;
      case DType::float64:
        sum_piece<double>(all, at, piece.count, to);
        break;
      case DType::int32:
        sum_piece<int32_t>(all, at, piece.count, to);
        break;
      case DType::int64:
        sum_piece<int64_t>(all, at, piece.count, to);
        break;
      default:
        throw Unimplemented("socket group: a sum of a type that has none");
    }
    at += bytes_of(piece);
  }
  return sums;
}

std::string gathered(const std::vector<std::string>& all, std::span<const op::Piece> pieces) {
  std::string result = all[0];
  size_t at = 0;
  for (const op::Piece& piece : pieces) {
    const size_t size = size_of(piece.dtype);
    for (size_t rank = 0; rank < all.size(); ++rank) {
      const auto [begin, end] =
          op::part_of_piece(piece.count, static_cast<int>(rank), static_cast<int>(all.size()));
      result.replace(at + static_cast<size_t>(begin) * size,
                     static_cast<size_t>(end - begin) * size, all[rank],
                     at + static_cast<size_t>(begin) * size,
                     static_cast<size_t>(end - begin) * size);
    }
    at += bytes_of(piece);
  }
  return result;
}

constexpr const char* kAbort = "abort";
const std::string kHasRun = "the body has run as rank ";

}  // namespace

/// What is before the bytes of each message.
struct SocketGroup::Frame {
  char kind[96] = {};
  uint64_t bytes = 0;
};

/// Messages between two ranks: a thread sends them, so that nobody waits for the receiver.
class SocketGroup::Line {
 public:
  explicit Line(int socket) : socket_(socket), thread_([this] { run(); }) {}
  ~Line() {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
    close(socket_);
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  void send(uint32_t key, const std::string& bytes) {
    const uint64_t head[2] = {key, bytes.size()};
    {
      const std::lock_guard lock(mutex_);
      out_.push_back(std::string(reinterpret_cast<const char*>(head), sizeof head) + bytes);
    }
    changed_.notify_all();
  }

  /// Takes a message if there is one, after a look at the socket; `is_open` becomes false where the
  /// other end is closed.
  bool take(uint32_t key, std::string& bytes, bool& is_open) {
    const std::lock_guard lock(reading_);
    if (found(key, bytes)) return true;
    pollfd polled{socket_, POLLIN, 0};
    if (::poll(&polled, 1, 20) > 0) is_open = read_one();
    return found(key, bytes);
  }

 private:
  bool found(uint32_t key, std::string& bytes) {
    auto& waiting = arrived_[key];
    if (waiting.empty()) return false;
    bytes = std::move(waiting.front());
    waiting.pop_front();
    return true;
  }

  bool read_one() {
    uint64_t head[2] = {};
    if (!read_all(head, sizeof head)) return false;
    std::string bytes(head[1], '\0');
    if (!read_all(bytes.data(), bytes.size())) return false;
    arrived_[static_cast<uint32_t>(head[0])].push_back(std::move(bytes));
    return true;
  }

  bool read_all(void* to, size_t bytes) const {
    for (size_t at = 0; at < bytes;) {
      const ssize_t got = recv(socket_, static_cast<char*>(to) + at, bytes - at, 0);
      if (got <= 0) return false;
      at += static_cast<size_t>(got);
    }
    return true;
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return is_ending_ || !out_.empty(); });
      if (out_.empty()) return;
      const std::string message = std::move(out_.front());
      out_.pop_front();
      lock.unlock();
      for (size_t at = 0; at < message.size();) {
        const ssize_t sent =
            ::send(socket_, message.data() + at, message.size() - at, MSG_NOSIGNAL);
        if (sent < 0) return;  // Who reads from it finds out.
        at += static_cast<size_t>(sent);
      }
      lock.lock();
    }
  }

  const int socket_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> out_;
  bool is_ending_ = false;
  std::mutex reading_;
  std::map<uint32_t, std::deque<std::string>> arrived_;
  std::thread thread_;
};

SocketGroup::SocketGroup(int rank, int size, std::vector<int> sockets,
                         const std::vector<int>& lines)
    : rank_(rank), size_(size), sockets_(std::move(sockets)) {
  lines_.resize(static_cast<size_t>(size));
  for (size_t i = 0; i < lines.size(); ++i) {
    const size_t peer = i < static_cast<size_t>(rank) ? i : i + 1;
    lines_[peer] = std::make_unique<Line>(lines[i]);
  }
}

SocketGroup::~SocketGroup() {
  for (int socket : sockets_) close(socket);
}

std::string SocketGroup::describe(int rank) const {
  return fmt::format("rank {} (worker {}, localhost)", rank, rank);
}

void SocketGroup::check() {
  const std::lock_guard lock(failing_);
  if (!failure_.empty()) throw Unavailable(failure_);
}

void SocketGroup::fail(const std::string& what) {
  {
    const std::lock_guard lock(failing_);
    if (failure_.empty()) failure_ = what;
  }
  if (rank_ == 0) {
    for (int r = 1; r < size_; ++r) send(r, kAbort, failure_);
  }
  throw Unavailable(failure_);
}

int SocketGroup::socket_of(int rank) const {
  return sockets_[rank_ == 0 ? static_cast<size_t>(rank - 1) : 0];
}

void SocketGroup::send(int rank, const std::string& kind, const std::string& bytes) {
  const std::lock_guard lock(sending_);
  Frame frame;
  std::strncpy(frame.kind, kind.c_str(), sizeof(frame.kind) - 1);
  frame.bytes = bytes.size();
  std::string message(reinterpret_cast<const char*>(&frame), sizeof(frame));
  message += bytes;
  for (size_t at = 0; at < message.size();) {
    const ssize_t sent =
        ::send(socket_of(rank), message.data() + at, message.size() - at, MSG_NOSIGNAL);
    if (sent < 0) return;  // Who reads from it finds out.
    at += static_cast<size_t>(sent);
  }
}

SocketGroup::Line& SocketGroup::line_to(int rank) const {
  return *lines_[static_cast<size_t>(rank)];
}

void SocketGroup::send(const op::PeerMessage& message) {
  check();
  line_to(message.peer).send(message.key, packed(message.pieces));
}

void SocketGroup::receive(const op::PeerMessage& message) {
  const auto deadline = Clock::now() + config::wait_deadline() - std::chrono::seconds(1);
  std::string bytes;
  bool is_open = true;
  while (!line_to(message.peer).take(message.key, bytes, is_open)) {
    watch_others();  // Who gives up says so before it leaves.
    if (!is_open) fail(fmt::format("{} is gone", describe(message.peer)));
    if (Clock::now() > deadline) {
      throw DeadlineExceeded(fmt::format("message '{}': waited too long for {}", message.name,
                                         describe(message.peer)));
    }
  }
  unpack(bytes, message.pieces);
}

/// Looks whether somebody gives up.
void SocketGroup::watch_others() {
  const std::lock_guard lock(watching_);
  check();
  for (size_t i = 0; i < sockets_.size(); ++i) {
    const int from = rank_ == 0 ? static_cast<int>(i) + 1 : 0;
    Frame frame;
    const ssize_t seen = recv(sockets_[i], &frame, sizeof(frame), MSG_PEEK | MSG_DONTWAIT);
    if (seen == 0) fail(fmt::format("{} is gone", describe(from)));
    if (seen == sizeof(frame) && std::string(frame.kind) == kAbort) receive(from, kAbort);
  }
}

/// Returns when something came from `rank`. Rank 0 also looks whether another gives up.
void SocketGroup::wait_for(int rank) {
  const auto deadline = Clock::now() + config::wait_deadline() - std::chrono::seconds(1);
  for (;;) {
    check();
    std::vector<pollfd> polled;
    for (int socket : sockets_) polled.push_back({socket, POLLIN, 0});
    ::poll(polled.data(), polled.size(), 20);
    for (size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      const int from = rank_ == 0 ? static_cast<int>(i) + 1 : 0;
      if (from == rank) return;
      Frame frame;
      const ssize_t seen = recv(polled[i].fd, &frame, sizeof(frame), MSG_PEEK | MSG_DONTWAIT);
      if (seen == 0) fail(fmt::format("{} is gone", describe(from)));
      if (seen == sizeof(frame) && std::string(frame.kind) == kAbort) receive(from, kAbort);
    }
    if (Clock::now() > deadline) {
      throw DeadlineExceeded(fmt::format("waited too long for {}", describe(rank)));
    }
  }
}

std::string SocketGroup::receive(int rank, const std::string& kind) {
  const auto read_all = [&](void* to, size_t bytes) {
    for (size_t at = 0; at < bytes;) {
      const ssize_t got = recv(socket_of(rank), static_cast<char*>(to) + at, bytes - at, 0);
      if (got <= 0) fail(fmt::format("{} is gone", describe(rank)));
      at += static_cast<size_t>(got);
    }
  };
  if (kind != kAbort) wait_for(rank);
  Frame frame;
  read_all(&frame, sizeof(frame));
  std::string bytes(frame.bytes, '\0');
  read_all(bytes.data(), bytes.size());
  if (std::string(frame.kind) == kAbort) {
    fail(rank_ == 0 ? fmt::format("{}: {}", describe(rank), bytes) : bytes);
  }
  if (std::string(frame.kind) != kind.substr(0, sizeof(frame.kind) - 1)) {
    fail(fmt::format("{} is at '{}', {} at '{}'", describe(rank), frame.kind, describe(rank_),
                     kind));
  }
  return bytes;
}

op::Group::Ticket SocketGroup::start(const op::Exchange& exchange) {
  check();
  ++exchanges_;
  names_.emplace_back(exchange.name);
  this->exchange(exchange);
  return 0;
}

void SocketGroup::exchange(const op::Exchange& exchange) {
  const std::string own = packed(exchange.pieces);
  const std::string kind =
      fmt::format("{} {} {} bytes", static_cast<int>(exchange.kind), exchange.name, own.size());
  if (rank_ != 0) {
    send(0, kind, own);
    unpack(receive(0, kind), exchange.pieces);
    return;
  }
  std::vector<std::string> all{own};
  for (int r = 1; r < size_; ++r) all.push_back(receive(r, kind));
  std::string result;
  switch (exchange.kind) {
    case op::ExchangeKind::sum:
    case op::ExchangeKind::sum_parts:
      result = summed(all, exchange.pieces);
      break;
    case op::ExchangeKind::gather_parts:
      result = gathered(all, exchange.pieces);
      break;
    case op::ExchangeKind::broadcast:
      result = all[static_cast<size_t>(exchange.root)];
      break;
  }
  for (int r = 1; r < size_; ++r) send(r, kind, result);
  unpack(result, exchange.pieces);
}

std::vector<std::string> SocketGroup::gather_texts(std::string_view name, std::string text) {
  check();
  const std::string kind = fmt::format("texts {}", name);
  std::vector<std::string> texts{text};
  if (rank_ == 0) {
    for (int r = 1; r < size_; ++r) texts.push_back(receive(r, kind));
    for (int r = 1; r < size_; ++r) {
      for (const std::string& each : texts) send(r, kind, each);
    }
    return texts;
  }
  send(0, kind, text);
  texts.clear();
  for (int r = 0; r < size_; ++r) texts.push_back(receive(0, kind));
  return texts;
}

void SocketGroup::abort(std::string_view reason) {
  {
    const std::lock_guard lock(failing_);
    if (!failure_.empty()) return;
    failure_ = fmt::format("{}: {}", describe(rank_), reason);
  }
  if (rank_ != 0) {
    send(0, kAbort, std::string(reason));
  } else {
    for (int r = 1; r < size_; ++r) send(r, kAbort, failure_);
  }
}

namespace {

int calls = 0;  // How often this test has called ends_of_processes.

void count_call() {
  static const testing::TestInfo* counted = nullptr;
  const auto* now = testing::UnitTest::GetInstance()->current_test_info();
  if (counted != now) calls = 0;
  counted = now;
  ++calls;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::shared_ptr<SocketGroup> inherited_group() {
  const auto listed = [](const char* name) {
    std::vector<int> sockets;
    std::istringstream in(variable(name));
    for (int socket = 0; in >> socket;) sockets.push_back(socket);
    return sockets;
  };
  return std::make_shared<SocketGroup>(std::stoi(variable("TANDEM_TEST_RANK")),
                                       std::stoi(variable("TANDEM_TEST_SIZE")),
                                       listed("TANDEM_TEST_SOCKETS"), listed("TANDEM_TEST_LINES"));
}

/// What a process is connected by.
struct ProcessSockets {
  std::vector<int> exchanges{};
  std::vector<int> lines{};

  std::vector<int> all() const {
    std::vector<int> both = exchanges;
    both.insert(both.end(), lines.begin(), lines.end());
    return both;
  }
};

std::string list_of(const std::vector<int>& sockets) {
  std::string list;
  for (int socket : sockets) list += fmt::format("{} ", socket);
  return list;
}

/// Two ends of a new connection.
std::pair<int, int> new_pair() {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    throw Unavailable("socketpair failed");
  }
  return {pair[0], pair[1]};
}

std::vector<ProcessSockets> connected(int processes) {
  std::vector<ProcessSockets> sockets(static_cast<size_t>(processes));
  for (size_t r = 1; r < sockets.size(); ++r) {
    const auto [first, second] = new_pair();
    sockets[0].exchanges.push_back(first);
    sockets[r].exchanges.push_back(second);
  }
  for (size_t a = 0; a < sockets.size(); ++a) {
    for (size_t b = a + 1; b < sockets.size(); ++b) {
      const auto [first, second] = new_pair();
      sockets[a].lines.push_back(first);
      sockets[b].lines.push_back(second);
    }
  }
  return sockets;
}

/// Starts one process: it has the sockets and writes to `output`.
pid_t started(int rank, int size, const ProcessSockets& sockets, const std::string& output) {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  const std::string filter =
      fmt::format("--gtest_filter={}.{}", info->test_suite_name(), info->name());
  std::vector<std::string> variables;
  for (char** each = environ; *each != nullptr; ++each) variables.emplace_back(*each);
  variables.push_back(fmt::format("TANDEM_TEST_RANK={}", rank));
  variables.push_back(fmt::format("TANDEM_TEST_SIZE={}", size));
  variables.push_back(fmt::format("TANDEM_TEST_CALL={}", calls));
  variables.push_back(fmt::format("TANDEM_TEST_SOCKETS={}", list_of(sockets.exchanges)));
  variables.push_back(fmt::format("TANDEM_TEST_LINES={}", list_of(sockets.lines)));
  std::vector<char*> environment;
  for (std::string& each : variables) environment.push_back(each.data());
  environment.push_back(nullptr);
  std::string program = "/proc/self/exe";
  std::string argument = filter;
  char* arguments[] = {program.data(), argument.data(), nullptr};
  const int to = open(output.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
  const std::vector<int> inherited = sockets.all();
  const pid_t child = fork();
  if (child == 0) {
    dup2(to, 1);
    dup2(to, 2);
    for (int socket : inherited) fcntl(socket, F_SETFD, 0);
    execve(program.c_str(), arguments, environment.data());
    _exit(127);
  }
  close(to);
  return child;
}

std::string content_of(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

std::vector<ProcessEnd> ends_of_processes(
    int processes, const std::function<void(std::shared_ptr<SocketGroup>)>& body) {
  count_call();
  if (!variable("TANDEM_TEST_RANK").empty()) {
    if (calls != std::stoi(variable("TANDEM_TEST_CALL"))) return {};
    body(inherited_group());
    return {};
  }
  const TempFolder folder;
  const std::vector<ProcessSockets> sockets = connected(processes);
  std::vector<pid_t> children;
  std::vector<std::string> outputs;
  for (int r = 0; r < processes; ++r) {
    outputs.push_back((folder.path() / fmt::format("output_{}", r)).string());
    children.push_back(started(r, processes, sockets[static_cast<size_t>(r)], outputs.back()));
  }
  for (const ProcessSockets& own : sockets) {
    for (int socket : own.all()) close(socket);
  }
  std::vector<ProcessEnd> ends(children.size());
  const auto deadline = Clock::now() + std::chrono::seconds(150);
  for (size_t r = 0; r < children.size(); ++r) {
    int status = 0;
    bool has_ended = false;
    while (!has_ended && Clock::now() < deadline) {
      has_ended = waitpid(children[r], &status, WNOHANG) == children[r];
      if (!has_ended) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    if (!has_ended) {
      kill(children[r], SIGKILL);
      waitpid(children[r], &status, 0);
    }
    ends[r].code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    ends[r].output = content_of(outputs[r]);
  }
  return ends;
}

void in_processes(int processes, const std::function<void(std::shared_ptr<SocketGroup>)>& body) {
  const std::vector<ProcessEnd> ends =
      ends_of_processes(processes, [&](const std::shared_ptr<SocketGroup>& group) {
        try {
          body(group);
          std::cout << kHasRun << group->rank() << std::endl;
        } catch (const std::exception& error) {
          ADD_FAILURE() << "rank " << group->rank() << " threw: " << error.what();
        }
      });
  for (size_t r = 0; r < ends.size(); ++r) {
    EXPECT_EQ(ends[r].code, 0) << "rank " << r << " of " << processes << ":\n" << ends[r].output;
    EXPECT_NE(ends[r].output.find(kHasRun + std::to_string(r)), std::string::npos);
  }
}

}  // namespace tandem::harness

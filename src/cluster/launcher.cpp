#include "tandem/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <sstream>

#include "cluster/coordinator.h"
#include "tandem/error.h"

namespace tandem::launcher {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLastLines = 20;
constexpr std::chrono::seconds kPatienceForEnd{
    8};  // Until the others of a failed run are asked to end.
constexpr std::chrono::seconds kPatienceForSignal{5};

bool is_here(const std::string& host) { return cluster::is_loopback(host); }

/// "'it'\''s'": a word for a shell.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string name_of_signal(int number) {
  const char* name = sigabbrev_np(number);
  return name == nullptr ? fmt::format("signal {}", number) : fmt::format("SIG{}", name);
}

/// This machine's address as `host` sees it.
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

/// Two ends that children do not inherit.
struct Pipe {
  int read = -1;
  int write = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw ResourceExhausted("run: no pipe can be made");
    read = ends[0];
    write = ends[1];
  }
};

/// What a child prints on one of its outputs.
struct Output {
  int file = -1;
  int to = STDOUT_FILENO;
  std::string unfinished;
};

struct Worker {
  int rank = 0;
  std::string host;
  pid_t process = -1;
  bool running = false;
  int code = 0;
  std::string cause;  // "SIGKILL", "exit code 3"
  Output outputs[2];
  std::deque<std::string> last_lines;
};

class Launcher {
 public:
  explicit Launcher(const WorkersOptions& options) : options_(options) {
    check();
    block_signals();
    make_secret();
    make_coordinator();
  }

  int run() {
    for (int rank = 0; rank < options_.workers; ++rank) start(rank);
    while (
        std::ranges::any_of(workers_, [](const auto& w) { return w->running || has_output(*w); }))
      look();
    return finish();
  }

  ~Launcher() {
    for (const auto& worker : workers_) {
      if (worker->running) kill(-worker->process, SIGKILL);
    }
    close(signals_);
    sigprocmask(SIG_SETMASK, &former_mask_, nullptr);
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

 private:
  static bool has_output(const Worker& worker) {
    return worker.outputs[0].file >= 0 || worker.outputs[1].file >= 0;
  }

  void check() const {
    if (options_.command.empty()) throw InvalidArgument("run: no program is named");
    if (options_.workers < 1)
      throw InvalidArgument(fmt::format("run: {} workers", options_.workers));
    if (static_cast<int>(options_.hosts.size()) > options_.workers) {
      throw InvalidArgument(fmt::format("run: {} hosts are more than {} workers",
                                        options_.hosts.size(), options_.workers));
    }
  }

  std::string host_of(int rank) const {
    if (options_.hosts.empty()) return "localhost";
    return options_.hosts[static_cast<size_t>(rank) * options_.hosts.size() /
                          static_cast<size_t>(options_.workers)];
  }

  /// They are read from a file descriptor, between other events.
  void block_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCHLD})
      sigaddset(&set, number);
    sigprocmask(SIG_BLOCK, &set, &former_mask_);
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigprocmask(SIG_BLOCK, &pipe, nullptr);
    signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  }

  void make_secret() {
    for (const char byte : cluster::make_nonce())
      secret_ += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    cluster_ = fmt::format("run {} {}", getpid(), secret_.substr(0, 8));
    // What of it is public must not be part of it.
    secret_ = secret_.substr(8);
  }

  void make_coordinator() {
    std::string address = "127.0.0.1";
    for (const std::string& host : options_.hosts) {
      if (!is_here(host)) address = own_address_for(host);
    }
    const bool local = cluster::is_loopback(address);
    coordinator_ = std::make_unique<cluster::Coordinator>(cluster::CoordinatorOptions{
        .listen = local ? "127.0.0.1:0" : "[::]:0",
        .cluster = cluster_,
        .size = options_.workers,
        .secret = secret_,
        .watches_processes = true,
        .log = [](const std::string& text) { fmt::print(stderr, "tandem run: {}\n", text); }});
    address_ = cluster::HostPort{address, coordinator_->port()}.str();
  }

  int local_workers() const {
    int count = 0;
    for (int r = 0; r < options_.workers; ++r) count += is_here(host_of(r)) ? 1 : 0;
    return count;
  }

  /// The cores of the `number`th worker of this host.
  cpu_set_t cores_for(int number) const {
    cpu_set_t all;
    CPU_ZERO(&all);
    sched_getaffinity(0, sizeof all, &all);
    std::vector<int> cores;
    for (int c = 0; c < CPU_SETSIZE; ++c) {
      if (CPU_ISSET(c, &all)) cores.push_back(c);
    }
    const auto count = static_cast<int>(cores.size());
    const int workers = local_workers();
    if (count == 0) return all;
    const bool suffice = workers <= count;
    const int begin = suffice ? number * count / workers : number % count;
    const int end = suffice ? (number + 1) * count / workers : begin + 1;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = begin; i < end; ++i) CPU_SET(cores[static_cast<size_t>(i)], &set);
    return set;
  }

  std::vector<std::string> variables_of(int rank) const {
    std::vector<std::string> variables = {fmt::format("TANDEM_RANK={}", rank),
                                          fmt::format("TANDEM_WORLD_SIZE={}", options_.workers),
                                          "TANDEM_COORDINATOR=" + address_,
                                          "TANDEM_CLUSTER=" + cluster_,
                                          "TANDEM_HOSTED=1",
                                          "TANDEM_SECRET_FD=3"};
    cpu_set_t all;
    CPU_ZERO(&all);
    sched_getaffinity(0, sizeof all, &all);
    if (is_here(host_of(rank)) && local_workers() > CPU_COUNT(&all))
      variables.emplace_back("TANDEM_SPIN=0");
    return variables;
  }

  /// What ssh runs on a host: it reads the secret from its input and hands it on as descriptor 3.
  std::string remote_script(int rank) const {
    std::string script = fmt::format("cd {} 2>/dev/null; IFS= read -r s; printf %s \"$s\" | env",
                                     quoted(current_folder()));
    for (const std::string& variable : variables_of(rank))
      script += fmt::format(" {}", quoted(variable));
    script += " sh -c 'exec 3<&0 </dev/null; exec \"$@\"' sh";
    for (const std::string& word : options_.command) script += fmt::format(" {}", quoted(word));
    return script;
  }

  static std::string current_folder() {
    std::unique_ptr<char, void (*)(void*)> folder(getcwd(nullptr, 0), std::free);
    return folder == nullptr ? "." : folder.get();
  }

  std::vector<std::string> words_of(int rank) const {
    const std::string host = host_of(rank);
    if (is_here(host)) return options_.command;
    std::vector<std::string> words;
    std::istringstream ssh(options_.ssh);
    for (std::string word; ssh >> word;) words.push_back(word);
    words.insert(words.end(), {"-o", "BatchMode=yes", host, remote_script(rank)});
    return words;
  }

  void start(int rank) {
    auto worker = std::make_unique<Worker>();
    worker->rank = rank;
    worker->host = host_of(rank);
    const bool here = is_here(worker->host);
    Pipe out;
    Pipe err;
    Pipe secret;
    // Before there is a reader, who might end before it reads.
    write_all(secret.write, secret_ + "\n");
    close(secret.write);
    std::vector<std::string> words = words_of(rank);
    std::vector<std::string> variables;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      if (std::strncmp(*entry, "TANDEM_SECRET", 13) != 0) variables.emplace_back(*entry);
    }
    for (const std::string& variable : variables_of(rank)) {
      if (here) variables.push_back(variable);
    }
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    environment.push_back(nullptr);
    const cpu_set_t cores = cores_for(local_started_);
    if (here) ++local_started_;
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const pid_t parent = getpid();
    const pid_t process = fork();
    if (process == 0) {  // Only what is safe in a child of a process with threads.
      setpgid(0, 0);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(127);
      sigprocmask(SIG_SETMASK, &former_mask_, nullptr);
      dup2(here ? nothing : secret.read, STDIN_FILENO);
      dup2(out.write, STDOUT_FILENO);
      dup2(err.write, STDERR_FILENO);
      if (here) {
        if (secret.read == 3) {
          fcntl(3, F_SETFD, 0);
        } else {
          dup2(secret.read, 3);
        }
        sched_setaffinity(0, sizeof cores, &cores);
      }
      execvpe(arguments[0], arguments.data(), environment.data());
      constexpr char kWords[] = "tandem run: the program cannot be started\n";
      static_cast<void>(!write(STDERR_FILENO, kWords, sizeof kWords - 1));
      _exit(127);
    }
    close(nothing);
    close(out.write);
    close(err.write);
    close(secret.read);
    worker->process = process;
    worker->running = process > 0;
    worker->outputs[0] = {out.read, STDOUT_FILENO, ""};
    worker->outputs[1] = {err.read, STDERR_FILENO, ""};
    workers_.push_back(std::move(worker));
    if (process < 0) throw ResourceExhausted("run: no process can be started");
  }

  /// Waits for the next events and handles them.
  void look() {
    std::vector<pollfd> entries = {{signals_, POLLIN, 0}};
    std::vector<std::pair<Worker*, Output*>> owners;
    for (const auto& worker : workers_) {
      for (Output& output : worker->outputs) {
        if (output.file < 0) continue;
        entries.push_back({output.file, POLLIN, 0});
        owners.emplace_back(worker.get(), &output);
      }
    }
    poll(entries.data(), entries.size(), 100);
    for (size_t i = 0; i < owners.size(); ++i) {
      if (entries[i + 1].revents != 0) read_output(*owners[i].first, *owners[i].second);
    }
    read_signals();
    reap();
    if (!failed_ && coordinator_->verdict()) failed_ = Clock::now();
    end_the_rest();
  }

  void read_output(Worker& worker, Output& output) {
    char bytes[16384];
    const ssize_t count = read(output.file, bytes, sizeof bytes);
    if (count > 0) {
      output.unfinished.append(bytes, static_cast<size_t>(count));
      for (size_t end; (end = output.unfinished.find('\n')) != std::string::npos;) {
        print(worker, output.to, output.unfinished.substr(0, end));
        output.unfinished.erase(0, end + 1);
      }
      return;
    }
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (!output.unfinished.empty()) print(worker, output.to, output.unfinished);
    close(output.file);
    output.file = -1;
  }

  /// After a failure lines are held back, so that its report comes before what others say of it.
  void print(Worker& worker, int to, const std::string& line) {
    std::string text = fmt::format("[{}] {}\n", worker.rank, line);
    worker.last_lines.push_back(text);
    if (worker.last_lines.size() > kLastLines) worker.last_lines.pop_front();
    if (failed_) {
      held_.emplace_back(to, std::move(text));
    } else {
      write_all(to, text);
    }
  }

  static void write_all(int to, const std::string& text) {
    size_t at = 0;
    while (at < text.size()) {
      const ssize_t count = write(to, text.data() + at, text.size() - at);
      if (count < 0 && errno != EINTR && errno != EAGAIN) return;
      if (count > 0) at += static_cast<size_t>(count);
    }
  }

  void read_signals() {
    signalfd_siginfo info{};
    while (read(signals_, &info, sizeof info) == sizeof info) {
      const auto number = static_cast<int>(info.ssi_signo);
      if (number == SIGCHLD) continue;
      if (number == SIGTSTP) {  // Control-Z: workers stop and go on with this process.
        signal_all(SIGSTOP);
        raise(SIGSTOP);
        signal_all(SIGCONT);
        continue;
      }
      const bool again = number == SIGINT && interrupted_;
      interrupted_ = interrupted_ || number == SIGINT;
      signal_all(again ? SIGKILL : number);
    }
  }

  void signal_all(int number) const {
    for (const auto& worker : workers_) {
      if (worker->running) kill(-worker->process, number);
    }
  }

  void reap() {
    for (const auto& worker : workers_) {
      int status = 0;
      if (!worker->running || waitpid(worker->process, &status, WNOHANG) != worker->process)
        continue;
      worker->running = false;
      const bool killed = WIFSIGNALED(status);
      worker->code = killed ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      worker->cause =
          killed ? name_of_signal(WTERMSIG(status)) : fmt::format("exit code {}", worker->code);
      coordinator_->report_exit(worker->rank, worker->cause);
      if (worker->code == 0) continue;
      if (first_ == nullptr) first_ = worker.get();
      if (!failed_) failed_ = Clock::now();
    }
  }

  /// The others of a failed run end by their own error; those that do not are made to.
  void end_the_rest() {
    if (!failed_ || Clock::now() < *failed_ + kPatienceForEnd) return;
    signal_all(Clock::now() < *failed_ + kPatienceForEnd + kPatienceForSignal ? SIGTERM : SIGKILL);
    for (const auto& worker : workers_) {
      if (Clock::now() < *failed_ + kPatienceForEnd + 2 * kPatienceForSignal) continue;
      for (Output& output : worker->outputs) {  // Somebody else holds them.
        if (output.file >= 0 && !worker->running) {
          close(output.file);
          output.file = -1;
        }
      }
    }
  }

  int finish() {
    if (!failed_) return 0;
    const auto verdict = coordinator_->verdict();
    const Worker* culprit = first_;
    if (verdict && verdict->rank >= 0 && workers_[static_cast<size_t>(verdict->rank)]->code != 0) {
      culprit = workers_[static_cast<size_t>(verdict->rank)].get();
    }
    if (culprit != nullptr) {
      write_all(STDERR_FILENO, fmt::format("tandem run: rank {} on {} failed first: {}\n",
                                           culprit->rank, culprit->host, culprit->cause));
    }
    if (verdict)
      write_all(STDERR_FILENO, fmt::format("tandem run: {}: {}\n", verdict->kind, verdict->text));
    if (culprit != nullptr && !culprit->last_lines.empty()) {
      write_all(STDERR_FILENO,
                fmt::format("tandem run: the last lines of rank {}:\n", culprit->rank));
      for (const std::string& line : culprit->last_lines) write_all(STDERR_FILENO, line);
      write_all(STDERR_FILENO, "tandem run: what was printed meanwhile:\n");
    }
    for (const auto& [to, text] : held_) write_all(to, text);
    return culprit == nullptr ? 0 : culprit->code;
  }

  const WorkersOptions& options_;
  sigset_t former_mask_{};
  int signals_ = -1;
  std::string secret_;
  std::string cluster_;
  std::string address_;
  std::unique_ptr<cluster::Coordinator> coordinator_;
  std::vector<std::unique_ptr<Worker>> workers_;
  int local_started_ = 0;
  bool interrupted_ = false;
  std::optional<Clock::time_point> failed_;
  const Worker* first_ = nullptr;  // The first that ended by a failure.
  std::vector<std::pair<int, std::string>> held_;
};

}  // namespace

int run_workers(const WorkersOptions& options) { return Launcher(options).run(); }

}  // namespace tandem::launcher

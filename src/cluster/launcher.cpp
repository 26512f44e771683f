#include "tandem/cluster/launcher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>

#include "cluster/coordinator.h"
#include "cluster/host_addresses.h"
#include "cluster/started_process.h"
#include "tandem/error.h"

namespace tandem::launcher {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLastLines = 20;
constexpr std::chrono::seconds kPatienceForEnd{
    8};  // Until the others of a failed run are asked to end.
constexpr std::chrono::seconds kPatienceForSignal{5};
constexpr int kMostRestarts = 100;  // A parameter server is restarted so often,
constexpr int kMostQuickEnds = 3;   // and so often in a row where it ends by itself at once.
constexpr std::chrono::seconds kQuickEnd{5};

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

/// What a child prints on one of its outputs.
struct Output {
  int file = -1;
  int to = STDOUT_FILENO;
  std::string unfinished;
};

/// A process that is to run.
struct Worker {
  int rank = 0;
  std::string job = "worker";
  int task = 0;
  std::string label;  // "0", or where jobs differ "ps 1": it stands before each line.
  std::string host;
  int restarts = 0;
  int quick_ends = 0;
  Clock::time_point started{};
  pid_t process = -1;
  bool running = false;
  int code = 0;
  std::string cause;  // "SIGKILL", "exit code 3"
  Output outputs[2];
  std::deque<std::string> last_lines;
};

/// A line that is printed when the report has been.
struct HeldLine {
  const Worker* of = nullptr;
  int to = STDOUT_FILENO;
  std::string text;
};

class Launcher {
 public:
  explicit Launcher(const WorkersOptions& options) : options_(options) {
    check();
    block_signals();
    make_secret();
    make_tasks();
    has_servers() ? make_addresses() : make_coordinator();
  }

  int run() {
    for (const auto& worker : workers_) start(*worker);
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

  bool has_servers() const { return options_.servers > 0; }

  void check() const {
    if (options_.servers < 0) {
      throw InvalidArgument(fmt::format("run: {} parameter servers", options_.servers));
    }
    if (options_.command.empty()) throw InvalidArgument("run: no program is named");
    if (options_.workers < 1)
      throw InvalidArgument(fmt::format("run: {} workers", options_.workers));
    if (static_cast<int>(options_.hosts.size()) > options_.workers) {
      throw InvalidArgument(fmt::format("run: {} hosts are more than {} workers",
                                        options_.hosts.size(), options_.workers));
    }
  }

  /// The host of one of `count` tasks.
  std::string host_of(int task, int count) const {
    if (options_.hosts.empty()) return "localhost";
    return options_
        .hosts[static_cast<size_t>(task) * options_.hosts.size() / static_cast<size_t>(count)];
  }

  void make_tasks() {
    const auto add = [this](const char* job, int count) {
      for (int task = 0; task < count; ++task) {
        auto worker = std::make_unique<Worker>();
        worker->rank = static_cast<int>(workers_.size());
        worker->job = job;
        worker->task = task;
        worker->label = has_servers() ? fmt::format("{} {}", job, task) : std::to_string(task);
        worker->host = host_of(task, count);
        workers_.push_back(std::move(worker));
      }
    };
    if (has_servers()) add("chief", 1);
    add("worker", options_.workers);
    add("ps", options_.servers);
  }

  /// Each task has an address at which others may find it.
  void make_addresses() {
    const bool is_local = std::ranges::all_of(
        workers_, [](const std::unique_ptr<Worker>& worker) { return is_here(worker->host); });
    const std::string here = is_local ? "127.0.0.1" : own_address_for(first_far_host());
    std::map<std::string, std::vector<std::string>> addresses;
    std::set<int> taken;
    for (const auto& worker : workers_) {
      int port = free_port();
      while (!taken.insert(port).second) port = free_port();
      const std::string host = is_here(worker->host) ? here : worker->host;
      addresses[worker->job].push_back(fmt::format("\"{}\"", cluster::HostPort{host, port}.str()));
    }
    std::vector<std::string> jobs;
    for (const auto& [job, own] : addresses) {
      jobs.push_back(fmt::format("\"{}\": [{}]", job, fmt::join(own, ", ")));
    }
    address_ = fmt::format("{{{}}}", fmt::join(jobs, ", "));
  }

  std::string first_far_host() const {
    const auto far = std::ranges::find_if(options_.hosts,
                                          [](const std::string& host) { return !is_here(host); });
    return *far;
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
    return static_cast<int>(std::ranges::count_if(workers_, [](const auto& worker) {
      return worker->job == "worker" && is_here(worker->host);
    }));
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

  std::vector<std::string> variables_of(const Worker& worker) const {
    std::vector<std::string> variables = {"TANDEM_SECRET_FD=3"};
    if (has_servers()) {
      variables.push_back(
          fmt::format(R"(TF_CONFIG={{"cluster": {}, "task": {{"type": "{}", "index": {}}}}})",
                      address_, worker.job, worker.task));
    } else {
      variables.insert(variables.end(), {fmt::format("TANDEM_RANK={}", worker.rank),
                                         fmt::format("TANDEM_WORLD_SIZE={}", options_.workers),
                                         "TANDEM_COORDINATOR=" + address_,
                                         "TANDEM_CLUSTER=" + cluster_, "TANDEM_HOSTED=1"});
    }
    cpu_set_t all;
    CPU_ZERO(&all);
    sched_getaffinity(0, sizeof all, &all);
    const int local = local_workers() + options_.servers;
    if (is_here(worker.host) && local > CPU_COUNT(&all)) variables.emplace_back("TANDEM_SPIN=0");
    return variables;
  }

  /// What ssh runs on a host: it reads the secret from its input and hands it on as descriptor 3.
  std::string remote_script(const Worker& worker) const {
    std::string script = fmt::format("cd {} 2>/dev/null; IFS= read -r s; printf %s \"$s\" | env",
                                     quoted(current_folder()));
    for (const std::string& variable : variables_of(worker))
      script += fmt::format(" {}", quoted(variable));
    script += " sh -c 'exec 3<&0 </dev/null; exec \"$@\"' sh";
    for (const std::string& word : options_.command) script += fmt::format(" {}", quoted(word));
    return script;
  }

  static std::string current_folder() {
    std::unique_ptr<char, void (*)(void*)> folder(getcwd(nullptr, 0), std::free);
    return folder == nullptr ? "." : folder.get();
  }

  std::vector<std::string> words_of(const Worker& worker) const {
    if (is_here(worker.host)) return options_.command;
    std::vector<std::string> words;
    std::istringstream ssh(options_.ssh);
    for (std::string word; ssh >> word;) words.push_back(word);
    words.insert(words.end(), {"-o", "BatchMode=yes", worker.host, remote_script(worker)});
    return words;
  }

  void start(Worker& worker) {
    const bool here = is_here(worker.host);
    // What computes has cores of its own.
    const bool has_cores = here && worker.job == "worker";
    const StartedProcess child = start_process(
        {.words = words_of(worker),
         .variables = environment_of(worker),
         .secret = secret_,
         .reads_secret_as_input = !here,
         .signal_mask = former_mask_,
         .cores = has_cores ? std::optional(cores_for(local_started_++)) : std::nullopt});
    worker.process = child.process;
    worker.running = true;
    worker.started = Clock::now();
    worker.outputs[0] = {child.output, STDOUT_FILENO, ""};
    worker.outputs[1] = {child.errors, STDERR_FILENO, ""};
  }

  /// This process's variables, and those of the worker where it does not get them through ssh.
  std::vector<std::string> environment_of(const Worker& worker) const {
    std::vector<std::string> variables;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      if (std::strncmp(*entry, "TANDEM_SECRET", 13) != 0 && !is_replaced(*entry)) {
        variables.emplace_back(*entry);
      }
    }
    if (is_here(worker.host))
      std::ranges::copy(variables_of(worker), std::back_inserter(variables));
    return variables;
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
    if (!failed_ && coordinator_ && coordinator_->verdict()) failed_ = Clock::now();
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
    std::string text = fmt::format("[{}] {}\n", worker.label, line);
    worker.last_lines.push_back(text);
    if (worker.last_lines.size() > kLastLines) worker.last_lines.pop_front();
    if (failed_) {
      held_.push_back({&worker, to, std::move(text)});
    } else {
      write_all(to, text);
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
      if (killed && is_ending_) worker->cause += ", sent by tandem run";
      if (coordinator_) coordinator_->report_exit(worker->rank, worker->cause);
      if (has_servers() ? survives(*worker) : worker->code == 0) continue;
      if (first_ == nullptr) first_ = worker.get();
      if (!failed_) failed_ = Clock::now();
    }
  }

  bool is_running(const std::string& job) const {
    return std::ranges::any_of(
        workers_, [&](const auto& worker) { return worker->job == job && worker->running; });
  }

  /// Whether a run with parameter servers goes on without this process, or with it anew.
  bool survives(Worker& worker) {
    if (worker.job == "chief") {
      ended_ = Clock::now();  // All end with it.
      return worker.code == 0;
    }
    if (failed_ || !is_running("chief") || worker.code == 0 || interrupted_) return true;
    if (worker.job == "worker") {
      report(fmt::format("{} on {} ended: {}; the others go on", worker.label, worker.host,
                         worker.cause));
      return is_running("worker");
    }
    // What it does would fail again.
    const bool is_quick = worker.code < 128 && Clock::now() - worker.started < kQuickEnd;
    worker.quick_ends = is_quick ? worker.quick_ends + 1 : 0;
    if (++worker.restarts > kMostRestarts || worker.quick_ends > kMostQuickEnds) return false;
    report(fmt::format("{} on {} ended: {}; it is started again", worker.label, worker.host,
                       worker.cause));
    for (Output& output : worker.outputs) {
      pollfd entry{output.file, POLLIN, 0};
      while (output.file >= 0 && poll(&entry, 1, 0) == 1) read_output(worker, output);
      if (output.file >= 0) close(output.file);
    }
    start(worker);
    return true;
  }

  std::string name_of(const Worker& worker) const {
    return has_servers() ? worker.label : fmt::format("rank {}", worker.rank);
  }

  /// Whether a variable of this process's environment is another one for the tasks.
  bool is_replaced(const char* entry) const {
    return has_servers() && std::strncmp(entry, "TF_CONFIG=", 10) == 0;
  }

  static void report(const std::string& text) {
    write_all(STDERR_FILENO, fmt::format("tandem run: {}\n", text));
  }

  /// The others of a failed run end by their own error; those that do not are made to.
  void end_the_rest() {
    const std::optional<Clock::time_point> since = failed_ ? failed_ : ended_;
    if (!since || Clock::now() < *since + kPatienceForEnd) return;
    is_ending_ = true;
    signal_all(Clock::now() < *since + kPatienceForEnd + kPatienceForSignal ? SIGTERM : SIGKILL);
    for (const auto& worker : workers_) {
      if (Clock::now() < *since + kPatienceForEnd + 2 * kPatienceForSignal) continue;
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
    const auto verdict = coordinator_ ? coordinator_->verdict() : std::nullopt;
    const Worker* culprit = first_;
    // Where nobody failed, as after Control-C, there is nothing to explain.
    if (first_ != nullptr && verdict && verdict->rank >= 0) {
      culprit = workers_[static_cast<size_t>(verdict->rank)].get();
    }
    if (culprit != nullptr) {
      report(fmt::format("{} on {} {} first: {}", name_of(*culprit), culprit->host,
                         culprit->code == 0 ? "ended" : "failed", culprit->cause));
    }
    if (verdict) report(fmt::format("{}: {}", verdict->kind, verdict->text));
    const size_t shown = print_last_lines(culprit);
    print_held(culprit, shown);
    if (culprit != nullptr && culprit->code != 0) return culprit->code;
    return first_ == nullptr ? 0
                             : first_->code;  // It ended without an error, too early for others.
  }

  /// Returns how many there were.
  size_t print_last_lines(const Worker* worker) const {
    if (worker == nullptr || worker->last_lines.empty()) return 0;
    report(fmt::format("the last lines of {}:", name_of(*worker)));
    for (const std::string& line : worker->last_lines) write_all(STDERR_FILENO, line);
    return worker->last_lines.size();
  }

  /// Prints the lines that were held back, without the last ones of a worker that were shown.
  void print_held(const Worker* of, size_t shown) {
    for (auto line = held_.rbegin(); line != held_.rend() && shown > 0; ++line) {
      if (line->of != of) continue;
      line->text.clear();
      --shown;
    }
    std::erase_if(held_, [](const HeldLine& line) { return line.text.empty(); });
    if (!held_.empty() && of != nullptr) report("what was printed meanwhile:");
    for (const HeldLine& line : held_) write_all(line.to, line.text);
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
  bool is_ending_ = false;  // Whether workers are being made to end.
  std::optional<Clock::time_point> failed_;
  std::optional<Clock::time_point> ended_;  // When the chief has.
  const Worker* first_ = nullptr;           // The first that ended by a failure.
  std::vector<HeldLine> held_;
};

}  // namespace

int run_workers(const WorkersOptions& options) { return Launcher(options).run(); }

}  // namespace tandem::launcher

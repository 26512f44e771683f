#include "cluster/cluster_config.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

namespace tandem::cluster {
namespace {

using nlohmann::json;

constexpr int kMostTasks = 1023;  // The tags of messages have room for so many ranks.

std::optional<std::string> value_of(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  if (found == environment.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

int parse_number(std::string_view text, const std::string& field, int low, int high) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || number < low ||
      number > high) {
    throw InvalidArgument(
        fmt::format("{}: '{}' is no number from {} to {}", field, text.substr(0, 80), low, high));
  }
  return number;
}

int number_of(const Environment& environment, const char* name, int low, int high) {
  const auto text = value_of(environment, name);
  if (!text) throw InvalidArgument(fmt::format("{}: is not set", name));
  return parse_number(*text, name, low, high);
}

/// A rank and a size that stand in two variables.
std::pair<int, int> place_of(const Environment& environment, const char* rank, const char* size) {
  const int count = number_of(environment, size, 1, kMostTasks);
  const int place = number_of(environment, rank, 0, std::numeric_limits<int>::max());
  if (place >= count) {
    throw InvalidArgument(
        fmt::format("{}: {} is not below {}, which is {}", rank, place, size, count));
  }
  return {place, count};
}

/// A port from 20000 to 39999 that depends on `text`: the same one for all processes of a start.
int port_for(std::string_view text) {
  uint32_t hash = 2166136261u;  // FNV-1a.
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return 20000 + static_cast<int>(hash % 20000);
}

Cluster workers_alone(std::string source, std::pair<int, int> place) {
  Cluster cluster;
  cluster.source = std::move(source);
  cluster.job = "worker";
  cluster.rank = cluster.task = place.first;
  cluster.size = place.second;
  return cluster;
}

/// Rank 0's address must lead other hosts to it.
void check_reachable(const std::vector<std::string>& addresses, const std::string& field) {
  bool some_remote = false;
  for (const std::string& address : addresses) {
    some_remote = some_remote || !is_loopback(parse_host_port(address, field).host);
  }
  for (size_t i = 0; some_remote && i < addresses.size(); ++i) {
    if (!is_loopback(parse_host_port(addresses[i], field).host)) continue;
    throw InvalidArgument(
        fmt::format("{}[{}]: '{}' is this machine for every machine, and other tasks are on others",
                    field, i, addresses[i]));
  }
}

std::string text_of(const json& value, const std::string& field) {
  if (!value.is_string()) throw InvalidArgument(fmt::format("{}: is no text", field));
  return value.get<std::string>();
}

int index_of(const json& value, const std::string& field) {
  if (value.is_string()) return parse_number(value.get<std::string>(), field, 0, kMostTasks);
  if (!value.is_number_integer()) throw InvalidArgument(fmt::format("{}: is no number", field));
  const auto number = value.get<int64_t>();
  if (number < 0 || number > kMostTasks ||
      (value.is_number_unsigned() && value.get<uint64_t>() > kMostTasks)) {
    throw InvalidArgument(
        fmt::format("{}: {} is no number from 0 to {}", field, value.dump(), kMostTasks));
  }
  return static_cast<int>(number);
}

/// A job's addresses: a list, or an object {"0": address, "1": ..} as sparse clusters have it.
std::vector<std::string> tasks_of(const json& value, const std::string& field) {
  std::vector<std::string> addresses;
  if (value.is_string()) return {value.get<std::string>()};
  if (!value.is_array() && !value.is_object()) {
    throw InvalidArgument(fmt::format("{}: is no list of addresses", field));
  }
  if (value.size() > kMostTasks) {
    throw InvalidArgument(
        fmt::format("{}: {} tasks are more than {}", field, value.size(), kMostTasks));
  }
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string name = std::to_string(i);
    if (value.is_object() && !value.contains(name)) {
      throw InvalidArgument(fmt::format("{}: has no task {}", field, i));
    }
    addresses.push_back(
        text_of(value.is_object() ? value.at(name) : value.at(i), fmt::format("{}[{}]", field, i)));
  }
  return addresses;
}

train::ClusterSpec spec_of(const json& jobs) {
  if (!jobs.is_object()) throw InvalidArgument("TF_CONFIG: cluster: is no object");
  train::ClusterSpec::Addresses addresses;
  for (const auto& [job, tasks] : jobs.items()) {
    if (job.empty()) throw InvalidArgument("TF_CONFIG: cluster: a job has no name");
    auto list = tasks_of(tasks, "TF_CONFIG: cluster: " + job);
    if (!list.empty()) addresses[job == "master" ? "chief" : job] = std::move(list);
  }
  try {
    return train::ClusterSpec(std::move(addresses));
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("TF_CONFIG: cluster: {}", error.what()));
  }
}

/// Fills in rank, size and coordinator from the addresses: the chief is rank 0, workers follow.
void number_ranks(Cluster& cluster, const std::string& field) {
  const int chiefs = cluster.spec.num_tasks("chief");
  const int workers = cluster.spec.num_tasks("worker");
  if (chiefs > 1)
    throw InvalidArgument(fmt::format("{}: chief: there are {} of it", field, chiefs));
  cluster.size = chiefs + workers;
  if (cluster.size == 0) throw InvalidArgument(field + ": names neither a chief nor a worker");
  cluster.spec.task_address(cluster.job, cluster.task);
  cluster.rank = cluster.job == "chief" ? 0 : chiefs + cluster.task;
  cluster.coordinator =
      parse_host_port(cluster.spec.task_address(chiefs > 0 ? "chief" : "worker", 0), field);
  std::vector<std::string> all;
  for (const char* job : {"chief", "worker"}) {
    if (cluster.spec.num_tasks(job) == 0) continue;
    const auto& tasks = cluster.spec.as_dict().at(job);
    all.insert(all.end(), tasks.begin(), tasks.end());
  }
  check_reachable(all, field);
  cluster.id = fmt::format("{} of {}", cluster.coordinator.str(), cluster.size);
}

void check_agreement(const Cluster& a, const Cluster& b) {
  if (a.rank == b.rank && a.size == b.size) return;
  throw InvalidArgument(fmt::format(
      "{} says rank {} of {}, but {} says rank {} of {}; unset the one that is not meant", a.source,
      a.rank, a.size, b.source, b.rank, b.size));
}

}  // namespace

std::string HostPort::str() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

HostPort parse_host_port(std::string_view text, const std::string& field) {
  const auto refuse = [&](const char* why) {
    throw InvalidArgument(fmt::format("{}: '{}' is no address such as 'host:2222': {}", field,
                                      text.substr(0, 80), why));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) refuse("it has no port");
  std::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    refuse("an address with colons stands in brackets");
  }
  const auto is_part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_' ||
           c == ':' || c == '%';
  };
  if (host.empty()) refuse("it has no host");
  if (host.size() > 253 || !std::ranges::all_of(host, is_part)) refuse("its host is no name");
  if (host == "0.0.0.0" || host == "::") refuse("other processes cannot reach 'any address'");
  return {std::string(host), parse_number(text.substr(colon + 1), field + ": port", 1, 65535)};
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::string Cluster::task_name(int of) const {
  const int chiefs = spec.num_tasks("chief");
  if (of < chiefs) return fmt::format("chief {}", of);
  return fmt::format("worker {}", of - chiefs);
}

std::optional<TaskConfig> task_from_tf_config(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const json config = json::parse(text, nullptr, false);
  if (config.is_discarded()) throw InvalidArgument("TF_CONFIG: is no JSON");
  if (!config.is_object()) throw InvalidArgument("TF_CONFIG: is no object");
  const json* jobs = config.contains("cluster") ? &config.at("cluster") : nullptr;
  if (jobs == nullptr && config.contains("sparseCluster")) {
    const json& sparse = config.at("sparseCluster");
    if (!sparse.is_object()) throw InvalidArgument("TF_CONFIG: sparseCluster: is no object");
    jobs = sparse.contains("cluster") ? &sparse.at("cluster") : &sparse;
  }
  if (jobs == nullptr || jobs->empty()) return std::nullopt;
  TaskConfig found;
  found.spec = spec_of(*jobs);
  if (!config.contains("task")) throw InvalidArgument("TF_CONFIG: task: is missing");
  const json& task = config.at("task");
  if (!task.is_object()) throw InvalidArgument("TF_CONFIG: task: is no object");
  for (const char* field : {"type", "index"}) {
    if (!task.contains(field))
      throw InvalidArgument(fmt::format("TF_CONFIG: task: {}: is missing", field));
  }
  found.job = text_of(task.at("type"), "TF_CONFIG: task: type");
  if (found.job == "master") found.job = "chief";
  found.task = index_of(task.at("index"), "TF_CONFIG: task: index");
  return found;
}

std::optional<Cluster> cluster_from_tf_config(std::string_view text) {
  std::optional<TaskConfig> found = task_from_tf_config(text);
  if (!found) return std::nullopt;
  Cluster cluster;
  cluster.source = "TF_CONFIG";
  cluster.spec = std::move(found->spec);
  cluster.job = std::move(found->job);
  cluster.task = found->task;
  if (cluster.job != "chief" && cluster.job != "worker") {
    throw InvalidArgument(fmt::format(
        "TF_CONFIG: task: type: '{}' does not train; the types that do are chief and worker",
        cluster.job));
  }
  try {
    number_ranks(cluster, "TF_CONFIG: cluster");
  } catch (const InvalidArgument& error) {
    if (std::string_view(error.what()).starts_with("TF_CONFIG")) throw;
    error.rethrow_within("TF_CONFIG: task");
  }
  return cluster;
}

std::optional<Cluster> cluster_from_torchrun(const Environment& environment) {
  if (!value_of(environment, "RANK") && !value_of(environment, "WORLD_SIZE")) return std::nullopt;
  Cluster cluster =
      workers_alone("RANK and WORLD_SIZE", place_of(environment, "RANK", "WORLD_SIZE"));
  const auto address = value_of(environment, "MASTER_ADDR");
  if (cluster.size == 1 && !address) return cluster;
  if (!address) throw InvalidArgument("MASTER_ADDR: is not set");
  int port = number_of(environment, "MASTER_PORT", 1, 65534);
  // There its own store already listens at MASTER_PORT.
  if (value_of(environment, "TORCHELASTIC_USE_AGENT_STORE") == "True") ++port;
  const bool bare_v6 = address->find(':') != std::string::npos && address->front() != '[';
  cluster.coordinator = parse_host_port(
      fmt::format("{}{}{}:{}", bare_v6 ? "[" : "", *address, bare_v6 ? "]" : "", port),
      "MASTER_ADDR");
  const auto local = value_of(environment, "LOCAL_WORLD_SIZE");
  if (local && is_loopback(cluster.coordinator.host) &&
      parse_number(*local, "LOCAL_WORLD_SIZE", 1, kMostTasks) < cluster.size) {
    throw InvalidArgument(fmt::format(
        "MASTER_ADDR: '{}' is this machine for every machine, and of {} ranks only {} are here",
        *address, cluster.size, *local));
  }
  const auto run = value_of(environment, "TORCHELASTIC_RUN_ID");
  const auto round = value_of(environment, "TORCHELASTIC_RESTART_COUNT");
  cluster.id =
      fmt::format("{} {} {}", cluster.coordinator.str(), run.value_or(""), round.value_or(""));
  return cluster;
}

std::optional<Cluster> cluster_from_open_mpi(const Environment& environment) {
  constexpr const char* kSize = "OMPI_COMM_WORLD_SIZE";
  if (!value_of(environment, kSize)) return std::nullopt;
  Cluster cluster = workers_alone("OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE",
                                  place_of(environment, "OMPI_COMM_WORLD_RANK", kSize));
  cluster.id = value_of(environment, "PMIX_NAMESPACE")
                   .value_or(value_of(environment, "OMPI_MCA_ess_base_jobid").value_or("mpirun"));
  if (const auto address = value_of(environment, "TANDEM_COORDINATOR")) {
    cluster.coordinator = parse_host_port(*address, "TANDEM_COORDINATOR");
    return cluster;
  }
  if (number_of(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", 1, kMostTasks) < cluster.size) {
    throw InvalidArgument(
        "TANDEM_COORDINATOR: is not set, and mpirun does not say where rank 0 runs; name its host "
        "and a free "
        "port: mpirun -x TANDEM_COORDINATOR=host:2222 ..");
  }
  cluster.coordinator = {"127.0.0.1", port_for(cluster.id)};
  return cluster;
}

std::optional<Cluster> cluster_from_slurm(const Environment& environment, int port_base) {
  // Batch scripts have ranks without being a step's task.
  if (!value_of(environment, "SLURM_STEP_ID") || !value_of(environment, "SLURM_PROCID")) {
    return std::nullopt;
  }
  const char* count =
      value_of(environment, "SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  Cluster cluster = workers_alone("Slurm", place_of(environment, "SLURM_PROCID", count));
  const char* list =
      value_of(environment, "SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
  const char* counts = value_of(environment, "SLURM_STEP_TASKS_PER_NODE")
                           ? "SLURM_STEP_TASKS_PER_NODE"
                           : "SLURM_TASKS_PER_NODE";
  const auto hosts = expand_host_list(value_of(environment, list).value_or(""), list);
  const auto tasks = expand_task_counts(value_of(environment, counts).value_or(""), counts);
  if (hosts.size() != tasks.size()) {
    throw InvalidArgument(fmt::format("{}: tells the tasks of {} hosts, {} names {}", counts,
                                      tasks.size(), list, hosts.size()));
  }
  train::ClusterSpec::Addresses addresses;
  for (size_t host = 0; host < hosts.size(); ++host) {
    if (tasks[host] > kMostTasks)
      throw InvalidArgument(fmt::format("{}: {} tasks are too many", counts, tasks[host]));
    for (int i = 0; i < tasks[host]; ++i) {
      addresses["worker"].push_back(fmt::format("{}:{}", hosts[host], port_base + i));
    }
  }
  if (static_cast<int>(addresses["worker"].size()) != cluster.size) {
    throw InvalidArgument(fmt::format("{}: names {} tasks, {} is {}", counts,
                                      addresses["worker"].size(), count, cluster.size));
  }
  try {
    cluster.spec = train::ClusterSpec(std::move(addresses));
  } catch (const InvalidArgument& error) {
    error.rethrow_within(list);
  }
  number_ranks(cluster, list);
  cluster.id = fmt::format("{}.{}", value_of(environment, "SLURM_JOB_ID").value_or(""),
                           *value_of(environment, "SLURM_STEP_ID"));
  return cluster;
}

std::optional<Cluster> cluster_from_launcher(const Environment& environment) {
  if (!value_of(environment, "TANDEM_RANK") && !value_of(environment, "TANDEM_WORLD_SIZE")) {
    return std::nullopt;
  }
  Cluster cluster =
      workers_alone("tandem run", place_of(environment, "TANDEM_RANK", "TANDEM_WORLD_SIZE"));
  const auto address = value_of(environment, "TANDEM_COORDINATOR");
  if (!address && cluster.size > 1) throw InvalidArgument("TANDEM_COORDINATOR: is not set");
  if (address) cluster.coordinator = parse_host_port(*address, "TANDEM_COORDINATOR");
  cluster.id = value_of(environment, "TANDEM_CLUSTER").value_or("");
  cluster.hosted = value_of(environment, "TANDEM_HOSTED").value_or("") == "1";
  return cluster;
}

std::optional<Cluster> cluster_from(const Environment& environment) {
  if (auto launched = cluster_from_launcher(environment)) return launched;
  const auto torchrun = cluster_from_torchrun(environment);
  if (auto config = cluster_from_tf_config(value_of(environment, "TF_CONFIG").value_or(""))) {
    if (torchrun) check_agreement(*config, *torchrun);
    return config;
  }
  if (torchrun) return torchrun;
  if (auto mpi = cluster_from_open_mpi(environment)) return mpi;
  return cluster_from_slurm(environment);
}

Cluster cluster_from_resolver(const cluster_resolver::ClusterResolver& resolver) {
  Cluster cluster;
  cluster.source = "the cluster resolver";
  cluster.spec = resolver.cluster_spec();
  cluster.job = resolver.task_type();
  cluster.task = resolver.task_id();
  if (cluster.spec.empty()) {
    cluster.job = "worker";
    return cluster;
  }
  if (cluster.job != "chief" && cluster.job != "worker") {
    throw InvalidArgument(fmt::format(
        "cluster resolver: task type '{}' does not train; the types that do are chief and worker",
        cluster.job));
  }
  number_ranks(cluster, "cluster resolver");
  return cluster;
}

Environment process_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::optional<Cluster> cluster_from_environment() { return cluster_from(process_environment()); }

bool is_configured() { return cluster_from_environment().has_value(); }

}  // namespace tandem::cluster

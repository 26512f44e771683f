/// Which processes take part in a training, and which of them this one is: read from the variables
/// that schedulers and launchers set, or said in code. Values of their own; any thread may use
/// them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/error.h"
#include "tandem/export.h"

namespace tandem {

/// Another process, or another thread of this one, gave up what all were doing. The message begins
/// with who it was, and says why.
class TANDEM_API Aborted : public internal::ErrorOf<Aborted> {
 public:
  static constexpr const char* kName = "Aborted";
  using ErrorOf::ErrorOf;
};

namespace train {

/// The tasks of each job and their addresses, "host:port".
class TANDEM_API ClusterSpec {
 public:
  using Addresses = std::map<std::string, std::vector<std::string>>;

  ClusterSpec() = default;

  /// Throws InvalidArgument, which names the job and the task, for an address that is none or that
  /// two tasks have.
  explicit ClusterSpec(Addresses addresses);

  /// The names of the jobs, in the order of the alphabet.
  std::vector<std::string> jobs() const;

  /// How many tasks a job has; 0 if there is no such job.
  int num_tasks(const std::string& job) const;

  /// Throws InvalidArgument if there is no such task.
  const std::string& task_address(const std::string& job, int task) const;

  const Addresses& as_dict() const { return addresses_; }
  bool empty() const { return addresses_.empty(); }
  bool operator==(const ClusterSpec&) const = default;

 private:
  Addresses addresses_;
};

}  // namespace train

namespace cluster_resolver {

/// Finds out which tasks there are and which one this process is.
class TANDEM_API ClusterResolver {
 public:
  virtual ~ClusterResolver();
  virtual train::ClusterSpec cluster_spec() const = 0;
  virtual std::string task_type() const = 0;
  virtual int task_id() const = 0;

  /// The address of a task, by default of this one.
  std::string master(std::optional<std::string> task_type = {},
                     std::optional<int> task_id = {}) const;
};

using ClusterResolverPtr = std::shared_ptr<const ClusterResolver>;

/// What the code says.
class TANDEM_API SimpleClusterResolver final : public ClusterResolver {
 public:
  SimpleClusterResolver(train::ClusterSpec spec, std::string task_type, int task_id);
  train::ClusterSpec cluster_spec() const override { return spec_; }
  std::string task_type() const override { return task_type_; }
  int task_id() const override { return task_id_; }

 private:
  train::ClusterSpec spec_;
  std::string task_type_;
  int task_id_;
};

/// What TF_CONFIG says, read when this is made. A type and a number given here take precedence.
class TANDEM_API TFConfigClusterResolver final : public ClusterResolver {
 public:
  /// Throws InvalidArgument, which names the field, if TF_CONFIG is set and wrong.
  explicit TFConfigClusterResolver(std::optional<std::string> task_type = {},
                                   std::optional<int> task_id = {});
  train::ClusterSpec cluster_spec() const override { return spec_; }
  std::string task_type() const override { return task_type_; }
  int task_id() const override { return task_id_; }

 private:
  train::ClusterSpec spec_;
  std::string task_type_;
  int task_id_ = 0;
};

/// What srun says of the step that this process is part of, read when this is made.
class TANDEM_API SlurmClusterResolver final : public ClusterResolver {
 public:
  struct Options {
    /// How many tasks each job has, in this order; without any all are workers.
    std::vector<std::pair<std::string, int>> jobs;
    /// The port of a host's first task. Its next task has the next port.
    int port_base = 8888;
  };

  /// Throws InvalidArgument, which names the variable, outside of a step of srun.
  explicit SlurmClusterResolver(const Options& options);
  SlurmClusterResolver();
  train::ClusterSpec cluster_spec() const override { return spec_; }
  std::string task_type() const override { return task_type_; }
  int task_id() const override { return task_id_; }

 private:
  train::ClusterSpec spec_;
  std::string task_type_;
  int task_id_ = 0;
};

}  // namespace cluster_resolver
}  // namespace tandem

/// `tandem run`: a program as several processes that train together.
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>

#include "commands.h"
#include "tandem/cluster/launcher.h"

namespace tandem::tools {
namespace {

struct WorkersArguments {
  launcher::WorkersOptions workers;
  std::string hosts;
};

void run(WorkersArguments& arguments) {
  std::istringstream hosts(arguments.hosts);
  for (std::string host; std::getline(hosts, host, ',');) {
    if (!host.empty()) arguments.workers.hosts.push_back(host);
  }
  std::exit(launcher::run_workers(arguments.workers));
}

}  // namespace

void add_run(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("run", "Runs a program as several processes that train together");
  const auto arguments = std::make_shared<WorkersArguments>();
  command->add_option("--workers", arguments->workers.workers, "How many processes")
      ->required()
      ->check(CLI::Range(1, 1023));
  command
      ->add_option("--ps", arguments->workers.servers,
                   "How many parameter servers besides; a chief is started then, too")
      ->check(CLI::Range(0, 1023));
  command->add_option("--hosts", arguments->hosts,
                      "The hosts that they run on, such as a,b; this one without");
  command->add_option("--ssh", arguments->workers.ssh,
                      "The command that reaches hosts, ssh without");
  command
      ->add_option("program", arguments->workers.command, "After --, the program and its arguments")
      ->required();
  command->callback([arguments] { run(*arguments); });
}

}  // namespace tandem::tools

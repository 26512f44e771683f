/// The `tandem` command.
#include <cstdio>
#include <exception>
#include <string>

#include "commands.h"
#include "tandem/error.h"

namespace {

/// CLI11 says of a command that it does not know only that one is required.
void check_command(const CLI::App& program, int count, char** words) {
  if (count < 2 || words[1][0] == '-') return;
  std::string known;
  for (const CLI::App* command : program.get_subcommands({})) {
    if (command->check_name(words[1])) return;
    known += " " + command->get_name();
  }
  throw CLI::ParseError(
      "there is no command '" + std::string(words[1]) + "'; the commands are" + known,
      CLI::ExitCodes::ExtrasError);
}

}  // namespace

int main(int count, char** words) {
  CLI::App program("Training neural networks on all the devices you have", "tandem");
  program.set_version_flag("--version", "tandem " TANDEM_VERSION);
  program.require_subcommand(1);
  tandem::tools::add_devices(program);
  tandem::tools::add_run(program);
  tandem::tools::add_tune(program);
  try {
    check_command(program, count, words);
    program.parse(count, words);
  } catch (const CLI::ParseError& error) {
    return program.exit(error);
  } catch (const tandem::Error& error) {
    std::fprintf(stderr, "tandem: %s: %s\n", error.kind(), error.what());
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tandem: %s\n", error.what());
    return 1;
  }
  return 0;
}

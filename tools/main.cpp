/// The `tandem` command.
#include <cstdio>
#include <exception>

#include "commands.h"
#include "tandem/error.h"

int main(int count, char** words) {
  CLI::App program("Training neural networks on all the devices you have", "tandem");
  program.require_subcommand(1);
  tandem::tools::add_devices(program);
  tandem::tools::add_tune(program);
  try {
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

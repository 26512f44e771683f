/// The subcommands of `tandem`, a file each. Each function adds its command to the program.
#pragma once

#include <CLI/CLI.hpp>

namespace tandem::tools {

void add_devices(CLI::App& program);
void add_run(CLI::App& program);
void add_tune(CLI::App& program);

}  // namespace tandem::tools

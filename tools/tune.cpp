/// `tandem tune`: which provider is fastest here.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "commands.h"
#include "tandem/providers.h"

namespace tandem::tools {
namespace {

struct TuneArguments {
  std::string out;
  int64_t largest = 1024;
  bool gpus = false;
};

void run_on_gpus() {
  const auto results = providers::tune_gpus();
  for (const providers::GpuTuneResult& result : results) {
    std::printf("%s: %s; CLBlast takes %.2f times as long as our own kernels\n",
                result.device.c_str(), result.provider.c_str(), result.ratio);
  }
  if (results.empty()) std::printf("no GPU of OpenCL, or no CLBlast: there is nothing to choose\n");
}

void run(const TuneArguments& options) {
  if (options.gpus) run_on_gpus();
  if (options.out.empty()) return;
  const bool live = isatty(STDERR_FILENO) != 0;
  providers::TuneOptions tuning{.largest = options.largest};
  tuning.progress = [live](int done, int all) {
    if (live) std::fprintf(stderr, "\rmeasured %d of %d classes of products", done, all);
    if (live && done == all) std::fprintf(stderr, "\n");
  };
  const providers::TuneResult result = providers::tune(options.out, tuning);
  std::printf("%d classes of products measured; in %d another provider is clearly faster\n",
              result.classes, result.different);
  std::printf("a product takes %.0f %% of the time it takes with the static table, on average\n",
              100 / result.gain);
  std::printf("written to %s; use it with TANDEM_PROVIDERS=%s or providers::use_table\n",
              options.out.c_str(), options.out.c_str());
}

}  // namespace

void add_tune(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("tune", "Measures the providers of matrix products on this machine");
  const auto options = std::make_shared<TuneArguments>();
  const auto* const out = command->add_option("--out", options->out, "The file to write");
  command->add_flag("--gpus", options->gpus,
                    "Measure GPUs, too, and keep the answer in the cache folder of kernels");
  command->add_option("--largest", options->largest, "Sizes are measured up to this")
      ->check(CLI::Range(16, 8192));
  command->callback([options, out] {
    if (!options->gpus && out->empty()) throw CLI::RequiredError("--out or --gpus");
    run(*options);
  });
}

}  // namespace tandem::tools

#include "keras/training/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>

namespace tandem::keras {
namespace {

constexpr int kBarWidth = 20;
constexpr auto kInterval = std::chrono::milliseconds(200);

/// "5ms", "3s", "1:02", "350us": as Keras writes it.
std::string duration(double seconds) {
  if (seconds >= 60) {
    const auto whole = static_cast<int64_t>(seconds);
    if (whole >= 3600) {
      return fmt::format("{}:{:02}:{:02}", whole / 3600, whole % 3600 / 60, whole % 60);
    }
    return fmt::format("{}:{:02}", whole / 60, whole % 60);
  }
  if (seconds >= 1) return fmt::format("{:.0f}s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.0f}ms", seconds * 1e3);
  return fmt::format("{:.0f}us", seconds * 1e6);
}

std::string bar(double part) {
  const int full = std::clamp(static_cast<int>(part * kBarWidth), 0, kBarWidth);
  std::string text;
  for (int i = 0; i < kBarWidth; ++i) text += i < full ? "━" : "─";
  return text;
}

std::string numbers(const Logs& logs) {
  std::string text;
  for (const auto& [name, value] : logs) {
    const bool tiny = value != 0 && std::abs(value) < 1e-3;
    text += tiny ? fmt::format(" - {}: {:.4e}", name, value)
                 : fmt::format(" - {}: {:.4f}", name, value);
  }
  return text;
}

}  // namespace

Progress::Show Progress::shown(const std::ostream* output, Verbose verbose) {
  if (verbose == Verbose::silent) return Show::nothing;
  if (verbose == Verbose::bar) return Show::bar;
  if (verbose == Verbose::line) return Show::line;
  return output == nullptr && isatty(STDOUT_FILENO) != 0 ? Show::bar : Show::line;
}

Progress::Progress(std::ostream* output, Verbose verbose)
    : out_(output == nullptr ? std::cout : *output), show_(shown(output, verbose)) {}

void Progress::begin_epoch(int epoch, int epochs) {
  if (show_ == Show::nothing) return;
  out_ << fmt::format("Epoch {}/{}\n", epoch + 1, epochs) << std::flush;
}

void Progress::begin(std::optional<int64_t> steps) {
  steps_ = steps;
  start_ = Clock::now();
  shown_ = start_;
  width_ = 0;
}

std::string Progress::line(int64_t done, const Logs& logs, bool finished, int64_t samples) const {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const double each = done > 0 ? seconds / static_cast<double>(done) : 0;
  const std::string count =
      steps_ ? fmt::format("{}/{}", done, *steps_) : fmt::format("{}/Unknown", done);
  if (show_ == Show::line) {
    return fmt::format("{} - {} - {}/step - {:.0f} samples/s{}", count, duration(seconds),
                       duration(each), static_cast<double>(samples) / std::max(seconds, 1e-9),
                       numbers(logs));
  }
  const double part = !steps_ || *steps_ == 0
                          ? (finished ? 1 : 0)
                          : static_cast<double>(done) / static_cast<double>(*steps_);
  if (!finished) {
    const double left = steps_ ? each * static_cast<double>(*steps_ - done) : seconds;
    return fmt::format("{} {} {} {}/step{}", count, bar(part), duration(left), duration(each),
                       numbers(logs));
  }
  return fmt::format("{} {} {} {}/step - {:.0f} samples/s{}", count, bar(1), duration(seconds),
                     duration(each), static_cast<double>(samples) / std::max(seconds, 1e-9),
                     numbers(logs));
}

void Progress::step(int64_t done, const LogsFn& logs) {
  if (show_ != Show::bar) return;
  const auto now = Clock::now();
  if (now - shown_ < kInterval) return;
  shown_ = now;
  std::string text = line(done, logs(), false, 0);
  const size_t width = text.size();
  if (width < width_) text.append(width_ - width, ' ');
  width_ = width;
  out_ << '\r' << text << std::flush;
}

void Progress::end(int64_t done, int64_t samples, const Logs& logs) {
  if (show_ == Show::nothing) return;
  std::string text = line(done, logs, true, samples);
  if (text.size() < width_) text.append(width_ - text.size(), ' ');
  out_ << (show_ == Show::bar ? "\r" : "") << text << "\n" << std::flush;
}

void Progress::end_of_training(const std::string& summary) {
  if (show_ != Show::nothing) out_ << summary << std::flush;
}

}  // namespace tandem::keras

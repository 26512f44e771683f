/// Slurm's short ways to write lists: of hosts, and of how many tasks each host has.
#include <fmt/format.h>

#include <charconv>

#include "cluster/cluster_config.h"

namespace tandem::cluster {
namespace {

constexpr int kMostHosts = 1 << 16;

[[noreturn]] void refuse(const std::string& field, std::string_view text, const char* why) {
  throw InvalidArgument(fmt::format("{}: '{}' {}", field, text.substr(0, 80), why));
}

int number_in(std::string_view digits, const std::string& field, std::string_view text) {
  int number = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number < 0) {
    refuse(field, text, "has something else where a number should be");
  }
  return number;
}

/// The parts of `text` between commas that are not within brackets.
std::vector<std::string_view> split_at_commas(std::string_view text, const std::string& field) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  bool inside = false;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') {
      if (inside) refuse(field, text, "has a bracket within brackets");
      inside = true;
    } else if (i < text.size() && text[i] == ']') {
      if (!inside) refuse(field, text, "closes a bracket that is not open");
      inside = false;
    } else if (i == text.size() || (text[i] == ',' && !inside)) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  if (inside) refuse(field, text, "does not close its bracket");
  return parts;
}

/// Appends prefix + each number of "01-03" + suffix; numbers keep their leading zeros.
void expand_range(std::string_view prefix, std::string_view range, std::string_view suffix,
                  const std::string& field, std::vector<std::string>& names) {
  const size_t dash = range.find('-');
  const std::string_view low = range.substr(0, dash);
  const std::string_view high = dash == std::string_view::npos ? low : range.substr(dash + 1);
  const int first = number_in(low, field, range);
  const int last = number_in(high, field, range);
  if (last < first) refuse(field, range, "counts downwards");
  if (last - first >= kMostHosts) refuse(field, range, "names too many hosts");
  for (int i = first; i <= last; ++i) {
    names.push_back(fmt::format("{}{:0{}}{}", prefix, i, low.size(), suffix));
  }
}

void expand_name(std::string_view part, const std::string& field, std::vector<std::string>& names) {
  const size_t open = part.find('[');
  if (open == std::string_view::npos) {
    names.emplace_back(part);
    return;
  }
  const size_t close = part.find(']', open);
  const std::string_view suffix = part.substr(close + 1);
  if (suffix.find('[') != std::string_view::npos) {
    refuse(field, part, "has brackets twice, which is not understood");
  }
  for (const std::string_view range :
       split_at_commas(part.substr(open + 1, close - open - 1), field)) {
    expand_range(part.substr(0, open), range, suffix, field, names);
  }
}

}  // namespace

std::vector<std::string> expand_host_list(std::string_view text, const std::string& field) {
  std::vector<std::string> names;
  for (const std::string_view part : split_at_commas(text, field)) {
    if (part.empty()) refuse(field, text, "has an empty name");
    expand_name(part, field, names);
    if (names.size() > kMostHosts) refuse(field, text, "names too many hosts");
  }
  return names;
}

std::vector<int> expand_task_counts(std::string_view text, const std::string& field) {
  std::vector<int> counts;
  for (const std::string_view part : split_at_commas(text, field)) {
    const size_t open = part.find("(x");
    int times = 1;
    if (open != std::string_view::npos) {
      if (part.back() != ')') refuse(field, text, "does not close its parenthesis");
      times = number_in(part.substr(open + 2, part.size() - open - 3), field, text);
    }
    const int count = number_in(part.substr(0, open), field, text);
    if (times > kMostHosts || counts.size() + static_cast<size_t>(times) > kMostHosts) {
      refuse(field, text, "names too many hosts");
    }
    counts.insert(counts.end(), static_cast<size_t>(times), count);
  }
  return counts;
}

}  // namespace tandem::cluster

#include "keras/models/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace tandem::keras {
namespace {

/// Broken between words. The lines hold ASCII but for an ellipsis, which is one column wide.
std::vector<std::string> wrapped(const std::string& text, size_t width) {
  std::vector<std::string> lines;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!lines.empty() && lines.back().size() + 1 + word.size() <= width) {
      lines.back() += fmt::format(" {}", word);
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

std::string cell(const std::string& text, const TextTable::Column& column) {
  if (text.size() > column.width) return fmt::format("{}…", text.substr(0, column.width - 1));
  return column.right ? fmt::format("{:>{}}", text, column.width)
                      : fmt::format("{:<{}}", text, column.width);
}

}  // namespace

std::string TextTable::border(const Border& border) const {
  std::string text = border.left;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (i > 0) text += border.middle;
    for (size_t n = 0; n < columns_[i].width + 2; ++n) text += border.line;
  }
  return fmt::format("{}{}\n", text, border.right);
}

std::string TextTable::lines(const std::vector<std::string>& row, const char* bar) const {
  std::vector<std::vector<std::string>> cells;
  size_t height = 1;
  for (size_t i = 0; i < columns_.size(); ++i) {
    cells.push_back(wrapped(row[i], columns_[i].width));
    height = std::max(height, cells.back().size());
  }
  std::string text;
  for (size_t line = 0; line < height; ++line) {
    for (size_t i = 0; i < columns_.size(); ++i) {
      const std::string part = line < cells[i].size() ? cells[i][line] : "";
      text += fmt::format("{} {} ", bar, cell(part, columns_[i]));
    }
    text += fmt::format("{}\n", bar);
  }
  return text;
}

std::string TextTable::str() const {
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  std::string text = border({"┏", "━", "┳", "┓"}) + lines(titles, "┃");
  text += border({"┡", "━", "╇", "┩"});
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (i > 0) text += border({"├", "─", "┼", "┤"});
    text += lines(rows_[i], "│");
  }
  return text + border({"└", "─", "┴", "┘"});
}

}  // namespace tandem::keras

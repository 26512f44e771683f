/// A table of text as Keras prints it, in a box of fixed width.
#pragma once

#include <string>
#include <vector>

namespace tandem::keras {

class TextTable {
 public:
  struct Column {
    std::string title;
    /// The width of the text. Longer text goes on in the next line, longer words end in "…".
    size_t width;
    bool right = false;
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// A text for each column, in ASCII.
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  /// The table, with a line feed at the end of each line.
  std::string str() const;

 private:
  struct Border {
    const char *left, *line, *middle, *right;
  };
  std::string border(const Border& border) const;
  std::string lines(const std::vector<std::string>& row, const char* bar) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tandem::keras

// A text table whose columns fit their content: header, a line of dashes, rows; two spaces between columns.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace kvrelay::cli {

// Colours of the article: orange is computed for the first time, purple computed again, green read from the cache.
enum class Color { kNone, kOrange, kPurple, kGreen, kRed };

std::string Colored(const std::string& text, Color color, bool enabled);

struct Cell {
  std::string text;
  Color color = Color::kNone;
};

enum class Align { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kLeft;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns);

  // REQUIRES: one cell for each column.
  void AddRow(std::vector<Cell> row);
  void Print(std::ostream& out, bool color) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace kvrelay::cli

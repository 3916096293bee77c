#include "cli/table.h"

#include <algorithm>
#include <ostream>
#include <utility>

#include "cli/text.h"
#include "common/base/check.h"

namespace kvrelay::cli {
namespace {

const char* Escape(Color color) {
  switch (color) {
    case Color::kOrange:
      return "\033[38;5;208m";
    case Color::kPurple:
      return "\033[38;5;135m";
    case Color::kGreen:
      return "\033[38;5;35m";
    case Color::kRed:
      return "\033[31m";
    case Color::kNone:
      break;
  }
  return "";
}

void PrintRow(std::ostream& out, const std::vector<Column>& columns, const std::vector<size_t>& widths,
              const std::vector<Cell>& row, bool color) {
  std::string line;
  size_t end = 0;  // length of the line without trailing blanks
  for (size_t i = 0; i < columns.size(); ++i) {
    const std::string padding(widths[i] - DisplayWidth(row[i].text), ' ');
    if (i > 0) line += "  ";
    if (columns[i].align == Align::kRight) line += padding;
    line += Colored(row[i].text, row[i].color, color);
    if (!row[i].text.empty()) end = line.size();
    if (columns[i].align == Align::kLeft) line += padding;
  }
  out << line.substr(0, end) << '\n';
}

}  // namespace

std::string Colored(const std::string& text, Color color, bool enabled) {
  if (!enabled || color == Color::kNone || text.empty()) return text;
  return Escape(color) + text + "\033[0m";
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::AddRow(std::vector<Cell> row) {
  KV_CHECK(row.size() == columns_.size(), "a row has one cell for each column");
  rows_.push_back(std::move(row));
}

void Table::Print(std::ostream& out, bool color) const {
  std::vector<size_t> widths;
  std::vector<Cell> titles;
  std::vector<Cell> dashes;
  for (size_t i = 0; i < columns_.size(); ++i) {
    size_t width = DisplayWidth(columns_[i].title);
    for (const std::vector<Cell>& row : rows_) width = std::max(width, DisplayWidth(row[i].text));
    widths.push_back(width);
    titles.push_back({columns_[i].title});
    dashes.push_back({std::string(width, '-')});
  }
  PrintRow(out, columns_, widths, titles, false);
  PrintRow(out, columns_, widths, dashes, false);
  for (const std::vector<Cell>& row : rows_) PrintRow(out, columns_, widths, row, color);
}

}  // namespace kvrelay::cli

#include "cli/inspect/attention_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace veery::cli {
namespace {

constexpr int64_t kMaxCells = 256;  // along an axis
constexpr int kLevels = 16;
constexpr int kFont = 10;             // pixels
constexpr double kLetter = 0.62;      // width of a letter over the size of a monospaced font
constexpr size_t kLongestLabel = 14;  // letters
constexpr int kMargin = 14, kTitle = 44;
constexpr int kPanelTitle = 16;

std::string xml(std::string_view text) {
  std::string result;
  for (const char c : text) switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default: result += c;
    }
  return result;
}

size_t letters(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

// Truncates long labels and makes spaces visible.
std::string label(std::string_view token) {
  std::string result;
  size_t count = 0;
  for (size_t i = 0; i < token.size(); ++i) {
    const bool starts = (token[i] & 0xC0) != 0x80;
    if (starts && count++ == kLongestLabel) return result + "…";
    if (token[i] == ' ')
      result += "·";
    else
      result += token[i];
  }
  return result;
}

/// The layout of the picture, in pixels.
struct Grid {
  int64_t positions = 0, per_cell = 1, cells = 0, cell = 1;
  int64_t columns = 1, rows = 1;
  int64_t label_every = 1;
  int labels = 0;  ///< width of the widest label

  int64_t panel() const { return cells * cell; }
  int64_t x(int64_t column) const { return kMargin + labels + 6 + column * (panel() + kMargin); }
  int64_t y(int64_t row) const {
    return kTitle + labels + 6 + kPanelTitle + row * (panel() + kMargin + kPanelTitle);
  }
  int64_t width() const { return x(columns); }
  int64_t height() const { return y(rows) + 10; }
};

Grid lay_out(const AttentionPicture& picture, std::span<const std::string> labels) {
  Grid grid;
  grid.positions = std::ssize(picture.tokens);
  grid.per_cell = (grid.positions + kMaxCells - 1) / kMaxCells;
  grid.cells = (grid.positions + grid.per_cell - 1) / grid.per_cell;
  grid.cell = std::clamp<int64_t>(320 / grid.cells, 1, 20);
  const int64_t heads = std::ssize(picture.heads);
  // At most 1600 pixels wide, so that the picture fits a screen.
  const int64_t most = std::max<int64_t>(1, 1600 / (grid.panel() + kMargin));
  grid.columns = std::clamp<int64_t>(
      static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(heads)))), 1, most);
  grid.rows = (heads + grid.columns - 1) / grid.columns;
  grid.label_every = (kFont + grid.cell) / grid.cell;
  if (grid.cell >= kFont) grid.label_every = 1;
  size_t widest = 0;
  for (int64_t c = 0; c < grid.cells; c += grid.label_every)
    widest = std::max(widest, letters(labels[static_cast<size_t>(c * grid.per_cell)]));
  grid.labels = static_cast<int>(std::ceil(static_cast<double>(widest) * kLetter * kFont));
  return grid;
}

// From nearly white over blue to nearly black.
std::string color(int level) {
  const double t = static_cast<double>(level) / kLevels;
  const auto mix = [&](double light, double middle, double dark) {
    const double value =
        t < 0.5 ? light + (middle - light) * 2 * t : middle + (dark - middle) * (2 * t - 1);
    return static_cast<int>(std::lround(value));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(230, 66, 8), mix(240, 130, 24), mix(250, 198, 68));
}

int level_of(float probability) {
  return std::clamp(static_cast<int>(std::lround(kLevels * std::sqrt(double{probability}))), 0,
                    kLevels);
}

// Draws the cells of one map, one path per level; equal neighbours in a row are one rectangle.
void draw_cells(std::string& out, const Grid& grid, std::span<const float> map) {
  std::vector<std::string> paths(kLevels + 1);
  const auto cell = [&](int64_t row, int64_t column) {
    float most = 0;
    const int64_t last_row = std::min(grid.positions, (row + 1) * grid.per_cell);
    const int64_t last = std::min(grid.positions, (column + 1) * grid.per_cell);
    for (int64_t r = row * grid.per_cell; r < last_row; ++r)
      for (int64_t c = column * grid.per_cell; c < last; ++c)
        most = std::max(most, map[static_cast<size_t>(r * grid.positions + c)]);
    return level_of(most);
  };
  for (int64_t row = 0; row < grid.cells; ++row)
    for (int64_t column = 0, end = 0; column < grid.cells; column = end) {
      const int level = cell(row, column);
      for (end = column + 1; end < grid.cells && cell(row, end) == level;) ++end;
      paths[static_cast<size_t>(level)] +=
          fmt::format("M{} {}h{}v{}h-{}z", column * grid.cell, row * grid.cell,
                      (end - column) * grid.cell, grid.cell, (end - column) * grid.cell);
    }
  for (int level = 1; level <= kLevels; ++level)
    if (const std::string& path = paths[static_cast<size_t>(level)]; !path.empty())
      out += fmt::format("<path fill=\"{}\" d=\"{}\"/>\n", color(level), path);
}

void draw_labels(std::string& out, const Grid& grid, std::span<const std::string> labels) {
  for (int64_t c = 0; c < grid.cells; c += grid.label_every) {
    const std::string text = xml(labels[static_cast<size_t>(c * grid.per_cell)]);
    const double middle = (static_cast<double>(c) + 0.5) * static_cast<double>(grid.cell);
    for (int64_t row = 0; row < grid.rows; ++row)
      out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", grid.x(0) - 5,
                         static_cast<double>(grid.y(row)) + middle + 0.35 * kFont, text);
    for (int64_t column = 0; column < grid.columns; ++column)
      out += fmt::format("<text transform=\"translate({} {}) rotate(-90)\">{}</text>\n",
                         static_cast<double>(grid.x(column)) + middle + 0.35 * kFont,
                         grid.y(0) - kPanelTitle - 5, text);
  }
}

void draw_legend(std::string& out) {
  out += fmt::format("<g transform=\"translate({} 26)\">", kMargin);
  for (int level = 0; level <= kLevels; ++level)
    out += fmt::format("<rect x=\"{}\" width=\"8\" height=\"8\" fill=\"{}\"/>", 8 * level,
                       level == 0 ? "#ffffff" : color(level));
  out += fmt::format(
      "<rect width=\"{0}\" height=\"8\" fill=\"none\" stroke=\"#999\"/><text x=\"{1}\" y=\"8\">0 "
      "to 1, by the root</text></g>\n",
      8 * (kLevels + 1), 8 * (kLevels + 1) + 6);
}

}  // namespace

std::string draw_attention(const AttentionPicture& picture) {
  std::vector<std::string> labels;
  const bool many = std::ssize(picture.tokens) > kMaxCells;
  for (size_t i = 0; i < picture.tokens.size(); ++i)
    labels.push_back((many ? fmt::format("{}: ", i) : "") + label(picture.tokens[i]));
  const Grid grid = lay_out(picture, labels);
  const int64_t width = std::max<int64_t>(
      grid.width(),
      2 * kMargin + static_cast<int64_t>(8.5 * static_cast<double>(letters(picture.title))));
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" font-family=\"DejaVu Sans Mono, Consolas, monospace\" font-size=\"{2}\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
      "<text x=\"{3}\" y=\"18\" font-size=\"13\" font-weight=\"bold\">{4}</text>\n",
      width, grid.height(), kFont, kMargin, xml(picture.title));
  draw_legend(out);
  draw_labels(out, grid, labels);
  const auto size = static_cast<size_t>(grid.positions * grid.positions);
  for (size_t i = 0; i < picture.heads.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    out += fmt::format(
        "<g transform=\"translate({} {})\" shape-rendering=\"crispEdges\">\n"
        "<text y=\"-5\" font-weight=\"bold\">head {}</text>\n",
        grid.x(at % grid.columns), grid.y(at / grid.columns), picture.heads[i]);
    draw_cells(out, grid, picture.maps.subspan(i * size, size));
    out += fmt::format("<rect width=\"{0}\" height=\"{0}\" fill=\"none\" stroke=\"#999\"/></g>\n",
                       grid.panel());
  }
  return out + "</svg>\n";
}

}  // namespace veery::cli

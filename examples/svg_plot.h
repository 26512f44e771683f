/// Small plots as SVG files: lines, and bars.
#pragma once

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace example {

struct Series {
  std::string name;
  std::vector<double> x, y;
};

enum class Marks { lines, bars };

class SvgPlot {
 public:
  SvgPlot(std::string title, std::string x_label, std::string y_label)
      : title_(std::move(title)), x_label_(std::move(x_label)), y_label_(std::move(y_label)) {}

  void add(Series series) { series_.push_back(std::move(series)); }
  bool is_empty() const { return series_.empty(); }

  /// Writes the plot. Returns false where the file cannot be written.
  bool write(const std::string& path, Marks marks) const {
    std::ofstream file(path);
    const double most_x = largest(&Series::x);
    const double most_y = largest(&Series::y);
    file << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"640\" height=\"400\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"640\" height=\"400\" fill=\"white\"/>\n";
    file << text(320, 20, title_, "middle") << text(320, 392, x_label_, "middle")
         << text(14, 40, y_label_, "start");
    file << "<path d=\"M60 50V350H620\" stroke=\"black\" fill=\"none\"/>\n";
    file << text(60, 366, "0", "middle") << text(620, 366, number(most_x), "middle")
         << text(55, 54, number(most_y), "end") << text(55, 354, "0", "end");
    for (size_t i = 0; i < series_.size(); ++i) {
      const Series& one = series_[i];
      const char* color = kColors[i % std::size(kColors)];
      file << text(480, 66 + 16 * static_cast<double>(i), one.name, "start", color);
      if (marks == Marks::bars) {
        draw_bars(file, i, color, most_x, most_y);
        continue;
      }
      file << "<polyline fill=\"none\" stroke=\"" << color << "\" stroke-width=\"2\" points=\"";
      for (size_t k = 0; k < one.x.size(); ++k) {
        file << 60 + 560 * one.x[k] / most_x << ',' << 350 - 300 * one.y[k] / most_y << ' ';
      }
      file << "\"/>\n";
    }
    file << "</svg>\n";
    return static_cast<bool>(file.flush());
  }

 private:
  static constexpr const char* kColors[] = {"#1f77b4", "#ff7f0e", "#2ca02c", "#d62728"};

  double largest(std::vector<double> Series::*values) const {
    double most = 1e-9;
    for (const Series& one : series_) {
      for (const double value : one.*values) most = std::max(most, value);
    }
    return most;
  }

  void draw_bars(std::ofstream& file, size_t series, const char* color, double most_x,
                 double most_y) const {
    const double place = 560 / (most_x + 1);
    const double width = 0.8 * place / static_cast<double>(series_.size());
    const Series& one = series_[series];
    for (size_t k = 0; k < one.x.size(); ++k) {
      const double height = 300 * one.y[k] / most_y;
      file << "<rect x=\"" << 60 + place * one.x[k] + width * static_cast<double>(series)
           << "\" y=\"" << 350 - height << "\" width=\"" << width << "\" height=\"" << height
           << "\" fill=\"" << color << "\"/>\n";
    }
  }

  static std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", value);
    return text;
  }

  static std::string text(double x, double y, const std::string& words, const char* anchor,
                          const char* color = "black") {
    return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor +
           "\" fill=\"" + color + "\">" + words + "</text>\n";
  }

  const std::string title_, x_label_, y_label_;
  std::vector<Series> series_;
};

}  // namespace example

#include "lightmill/clusters/reduce/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/clusters/reduce/canvas_internal.hpp"

namespace lightmill::clusters {
namespace {

using detail::Canvas;
using detail::Colour;

constexpr Colour k_paper{255, 255, 255};
constexpr Colour k_ink{32, 32, 38};
constexpr Colour k_faint{222, 224, 229};
constexpr Colour k_note{96, 98, 108};
constexpr Colour k_body{166, 202, 232};
constexpr Colour k_edge{16, 84, 148};
constexpr int k_title = 3;  // scales of the font
constexpr int k_words = 2;
constexpr int k_tick = 6;  // pixels

// From dark to light in steps that look equal, also to the colour-blind (viridis).
Colour heat(double part) {
    constexpr std::array<Colour, 10> k_stops{{{68, 1, 84},
                                              {72, 40, 120},
                                              {62, 73, 137},
                                              {49, 104, 142},
                                              {38, 130, 142},
                                              {31, 158, 137},
                                              {53, 183, 121},
                                              {110, 206, 88},
                                              {181, 222, 43},
                                              {253, 231, 37}}};
    const double at = std::clamp(part, 0.0, 1.0) * (k_stops.size() - 1);
    const auto i = std::min(static_cast<std::size_t>(at), k_stops.size() - 2);
    const double share = at - static_cast<double>(i);
    const auto mix = [&](std::uint8_t a, std::uint8_t b) {
        return static_cast<std::uint8_t>(std::lround(a + share * (b - a)));
    };
    return {mix(k_stops[i].red, k_stops[i + 1].red), mix(k_stops[i].green, k_stops[i + 1].green),
            mix(k_stops[i].blue, k_stops[i + 1].blue)};
}

// 1234567 → "1 234 567".
std::string grouped(std::uint64_t number) {
    const auto digits = fmt::format("{}", number);
    std::string text;
    for (std::size_t i = 0; i < digits.size(); ++i) {
        if (i > 0 && (digits.size() - i) % 3 == 0) text += ' ';
        text += digits[i];
    }
    return text;
}

// At most about `most` round numbers within [low, high].
std::vector<double> ticks(double low, double high, int most) {
    const double rough = (high - low) / std::max(most, 1);
    const double decade = std::pow(10, std::floor(std::log10(rough)));
    const double factor = rough / decade;
    const double step = decade * (factor <= 1 ? 1 : factor <= 2 ? 2 : factor <= 5 ? 5 : 10);
    std::vector<double> values;
    for (double at = std::ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step)
        values.push_back(std::abs(at) < step * 1e-6 ? 0 : at);
    return values;
}

// A tick's number, short: 20000000 → 2e7.
std::string label(double value) {
    const double size = std::abs(value);
    if (size >= 1e6 || (size > 0 && size < 1e-3)) {
        const int power = static_cast<int>(std::floor(std::log10(size) + 1e-9));
        return fmt::format("{:g}e{}", value / std::pow(10, power), power);
    }
    return fmt::format("{:g}", value);
}

// The rectangle that data are drawn in, and what its sides mean.
struct Axes {
    int left, top, width, height;
    double x_low, x_high, y_low, y_high;  // y_low at the bottom

    [[nodiscard]] int x(double value) const {
        return left + static_cast<int>(std::lround((value - x_low) / (x_high - x_low) * width));
    }
    [[nodiscard]] int y(double value) const {
        return top + height - static_cast<int>(std::lround((value - y_low) / (y_high - y_low) * height));
    }
};

void draw_title(Canvas& canvas, const std::string& title) {
    // Smaller where it would not fit.
    int scale = k_title;
    while (scale > 1 && Canvas::text_width(title, scale) > canvas.width() - 20) --scale;
    canvas.text((canvas.width() - Canvas::text_width(title, scale)) / 2, 18, title, scale, k_ink);
}

void draw_x_tick(Canvas& canvas, const Axes& axes, double at, const std::string& words) {
    const int x = axes.x(at);
    canvas.fill(x, axes.top + axes.height, 1, k_tick, k_ink);
    canvas.text(x - Canvas::text_width(words, k_words) / 2, axes.top + axes.height + k_tick + 6, words,
                k_words, k_ink);
}
void draw_y_tick(Canvas& canvas, const Axes& axes, double at, const std::string& words) {
    const int y = axes.y(at);
    canvas.fill(axes.left - k_tick, y, k_tick, 1, k_ink);
    canvas.text(axes.left - k_tick - 6 - Canvas::text_width(words, k_words),
                y - Canvas::text_height(k_words) / 2, words, k_words, k_ink);
}
void draw_axis_names(Canvas& canvas, const Axes& axes, const std::string& x_name, const std::string& y_name) {
    canvas.text(axes.left + (axes.width - Canvas::text_width(x_name, k_words)) / 2,
                axes.top + axes.height + k_tick + 34, x_name, k_words, k_ink);
    canvas.text_upwards(12, axes.top + (axes.height + Canvas::text_width(y_name, k_words)) / 2, y_name,
                        k_words, k_ink);
}

void require_size(const PlotOptions& options) {
    if (options.width < 400 || options.height < 300 || options.width > 10'000 || options.height > 10'000) {
        throw OptionError("plot size", fmt::format("{} x {}", options.width, options.height),
                          "400 x 300 to 10000 x 10000 pixels");
    }
}

}  // namespace

void plot_spectrum(const Spectrum& spectrum, const std::string& path, const PlotOptions& options) {
    require_size(options);
    const auto counts = spectrum.counts();
    const auto bins = static_cast<std::int64_t>(counts.size());
    // The part of the axis that holds something, and a little more.
    std::int64_t first = 0, last = bins;
    while (last > 0 && counts[static_cast<std::size_t>(last - 1)] == 0) --last;
    while (first < last && counts[static_cast<std::size_t>(first)] == 0) ++first;
    if (first == last) first = 0, last = bins;
    const auto room = std::max<std::int64_t>((last - first) / 20, 1);
    // From zero where that is on the axis and not far away.
    const auto zero = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(std::floor((0 - spectrum.edge(0)) / (spectrum.edge(1) - spectrum.edge(0)))),
        0, bins);
    if (first > zero && first - zero < last - first) first = zero;
    first = std::max<std::int64_t>(first - (first == zero ? 0 : room), 0);
    last = std::min(last + room, bins);
    std::uint64_t most = 1;
    for (auto i = first; i < last; ++i) most = std::max(most, counts[static_cast<std::size_t>(i)]);

    Canvas canvas(options.width, options.height, k_paper);
    const double top =
        options.log_y ? std::log10(static_cast<double>(most)) + 0.15 : static_cast<double>(most) * 1.06;
    const double bottom = options.log_y ? std::log10(0.5) : 0;
    const Axes axes{110,
                    64,
                    options.width - 110 - 30,
                    options.height - 64 - 74,
                    spectrum.edge(first),
                    spectrum.edge(last),
                    bottom,
                    top};
    const auto x_ticks = ticks(axes.x_low, axes.x_high, axes.width / 110);
    struct Mark {
        double at;
        std::string words;
    };
    std::vector<Mark> y_marks;
    if (options.log_y) {
        for (int power = 0; power <= static_cast<int>(std::floor(top)); ++power)
            y_marks.push_back(
                {static_cast<double>(power), power < 4 ? fmt::format("{}", std::lround(std::pow(10, power)))
                                                       : fmt::format("1e{}", power)});
    } else {
        for (const auto at : ticks(0, top, axes.height / 60)) {
            if (at == std::floor(at)) y_marks.push_back({at, label(at)});
        }
    }
    for (const auto at : x_ticks) canvas.fill(axes.x(at), axes.top, 1, axes.height, k_faint);
    for (const auto& mark : y_marks) canvas.fill(axes.left, axes.y(mark.at), axes.width, 1, k_faint);

    // One bar a column of the picture: the fullest of its bins, so that no line is lost.
    const double per_column = static_cast<double>(last - first) / axes.width;
    int before = axes.top + axes.height;
    for (int column = 0; column < axes.width; ++column) {
        const auto from = first + static_cast<std::int64_t>(column * per_column);
        const auto to = std::clamp(first + static_cast<std::int64_t>(std::ceil((column + 1) * per_column)),
                                   from + 1, last);
        std::uint64_t count = 0;
        for (auto i = from; i < to; ++i) count = std::max(count, counts[static_cast<std::size_t>(i)]);
        const double value = options.log_y ? (count == 0 ? bottom : std::log10(static_cast<double>(count)))
                                           : static_cast<double>(count);
        const int y = axes.y(value);
        canvas.fill(axes.left + column, y, 1, axes.top + axes.height - y, k_body);
        // The outline reaches to the column before it.
        canvas.fill(axes.left + column, std::min(y, before) - 1, 1, std::abs(y - before) + 2, k_edge);
        before = y;
    }
    canvas.frame(axes.left, axes.top, axes.width, axes.height, k_ink);
    for (const auto at : x_ticks) draw_x_tick(canvas, axes, at, label(at));
    for (const auto& mark : y_marks) draw_y_tick(canvas, axes, mark.at, mark.words);
    draw_axis_names(canvas, axes, "cluster sum (ADU)",
                    fmt::format("clusters per {:g} ADU", spectrum.edge(1) - spectrum.edge(0)));
    draw_title(canvas, options.title.empty()
                           ? fmt::format("Spectrum of {} clusters", grouped(spectrum.total()))
                           : options.title);
    const auto note =
        fmt::format("below {:g}: {}   from {:g}: {}", spectrum.edge(0), grouped(spectrum.underflow()),
                    spectrum.edge(bins), grouped(spectrum.overflow()));
    canvas.fill(axes.left + axes.width - 18 - Canvas::text_width(note, k_words), axes.top + 8,
                Canvas::text_width(note, k_words) + 10, Canvas::text_height(k_words) + 8, k_paper);
    canvas.text(axes.left + axes.width - 12 - Canvas::text_width(note, k_words), axes.top + 12, note, k_words,
                k_note);
    write_file(path, canvas.png());
}

void plot_hit_map(const HitMap& hit_map, const std::string& path, const PlotOptions& options) {
    require_size(options);
    const auto [rows, columns] = hit_map.shape();
    if (rows < 1 || columns < 1) throw OptionError("hit map", "no pixels", "at least one row and one column");
    const auto counts = hit_map.counts();
    std::uint64_t total = 0;
    for (const auto count : counts) total += count;
    const auto brightest = std::max_element(counts.begin(), counts.end());
    // The brightest thousandth does not set the scale: a few hot pixels would leave the rest dark.
    std::vector<std::uint32_t> sorted(counts.begin(), counts.end());
    const auto rank = static_cast<std::ptrdiff_t>((sorted.size() - 1) - (sorted.size() - 1) / 1000);
    std::nth_element(sorted.begin(), sorted.begin() + rank, sorted.end());
    const auto scale_top = std::max<std::uint32_t>(sorted[static_cast<std::size_t>(rank)], 1);
    const bool cut = *brightest > scale_top;

    Canvas canvas(options.width, options.height, k_paper);
    constexpr int k_left = 110, k_top = 64, k_bar_room = 150, k_below = 96;
    const int room_x = options.width - k_left - k_bar_room;
    const int room_y = options.height - k_top - k_below;
    // Square pixels, unless the image is so long that its short side would vanish.
    const double square = std::min(room_x / static_cast<double>(columns), room_y / static_cast<double>(rows));
    constexpr int k_least = 48;
    const int width =
        std::clamp(static_cast<int>(std::lround(square * static_cast<double>(columns))), k_least, room_x);
    const int height =
        std::clamp(static_cast<int>(std::lround(square * static_cast<double>(rows))), k_least, room_y);
    const Axes axes{k_left + (room_x - width) / 2, k_top + (room_y - height) / 2, width, height, 0,
                    static_cast<double>(columns),  static_cast<double>(rows),     0};

    // What lies under one pixel of the picture: the mean of the counts there.
    const auto range = [](int at, int size, std::int64_t of) {
        const auto from = std::min(at * of / size, of - 1);
        return std::pair{from, std::clamp((at + 1) * of / size, from + 1, of)};
    };
    for (int j = 0; j < height; ++j) {
        const auto [row, row_end] = range(j, height, rows);
        for (int i = 0; i < width; ++i) {
            const auto [column, column_end] = range(i, width, columns);
            double sum = 0;
            for (auto r = row; r < row_end; ++r) {
                for (auto c = column; c < column_end; ++c)
                    sum += counts[static_cast<std::size_t>(r * columns + c)];
            }
            const auto covered = static_cast<double>((row_end - row) * (column_end - column));
            canvas.dot(axes.left + i, axes.top + j, heat(sum / covered / scale_top));
        }
    }
    canvas.frame(axes.left, axes.top, axes.width, axes.height, k_ink);
    const auto whole = [](std::vector<double> values) {
        std::erase_if(values, [](double v) { return v != std::floor(v); });
        return values;
    };
    for (const auto at : whole(ticks(0, static_cast<double>(columns), std::max(width / 110, 1))))
        draw_x_tick(canvas, axes, at, label(at));
    for (const auto at : whole(ticks(0, static_cast<double>(rows), std::max(height / 60, 1))))
        draw_y_tick(canvas, axes, at, label(at));
    draw_axis_names(canvas, axes, "column (pixel)", "row (pixel)");

    const Axes bar{k_left + room_x + 30, k_top, 22, room_y, 0, 1, 0, static_cast<double>(scale_top)};
    for (int j = 0; j < bar.height; ++j)
        canvas.fill(bar.left, bar.top + j, bar.width, 1, heat(1 - static_cast<double>(j) / (bar.height - 1)));
    canvas.frame(bar.left, bar.top, bar.width, bar.height, k_ink);
    for (const auto at : whole(ticks(0, bar.y_high, bar.height / 60))) {
        const int y = std::min(bar.y(at), bar.top + bar.height - 1);
        canvas.fill(bar.left + bar.width, y, k_tick, 1, k_ink);
        canvas.text(bar.left + bar.width + k_tick + 5, y - Canvas::text_height(k_words) / 2, label(at),
                    k_words, k_ink);
    }
    const std::string bar_name = "clusters per pixel";
    canvas.text_upwards(options.width - 24,
                        bar.top + (bar.height + Canvas::text_width(bar_name, k_words)) / 2, bar_name, k_words,
                        k_ink);
    draw_title(canvas,
               options.title.empty() ? fmt::format("Hit map of {} clusters", grouped(total)) : options.title);
    if (cut) {
        const auto at = brightest - counts.begin();
        const auto note = fmt::format("colours end at {}; most: {} at row {}, column {}", scale_top,
                                      grouped(*brightest), at / columns, at % columns);
        canvas.text((options.width - Canvas::text_width(note, k_words)) / 2, options.height - 24, note,
                    k_words, k_note);
    }
    write_file(path, canvas.png());
}

}  // namespace lightmill::clusters

#include "lightmill/frames/source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/frames/dat.hpp"
#include "lightmill/frames/frame_numbers.hpp"
#include "lightmill/frames/hdf5.hpp"
#include "lightmill/frames/npy.hpp"
#include "lightmill/frames/raw.hpp"

namespace lightmill::frames {
namespace {

std::size_t to_size(std::int64_t n) {
    return static_cast<std::size_t>(n);
}

// Empty where two sources can stand one after another, else what differs.
std::string difference(const Description& a, const Description& b) {
    if (a.shape != b.shape) {
        return fmt::format("frames of {} × {} pixels against {} × {} in {}", b.shape.rows, b.shape.columns,
                           a.shape.rows, a.shape.columns, a.name);
    }
    if (a.absent_value != b.absent_value) return "another value for absent pixels than " + a.name;
    if (a.gain_bits != b.gain_bits) return "gain bits in one of the two only, as against " + a.name;
    if (a.module_rows != b.module_rows || a.module_columns != b.module_columns)
        return "modules that meet elsewhere than in " + a.name;
    return {};
}

class Concatenated final : public Source {
  public:
    explicit Concatenated(std::vector<std::unique_ptr<Source>> sources) : sources_(std::move(sources)) {
        description_ = sources_.front()->description();
        description_.count = 0;
        description_.files.clear();
        for (const auto& source : sources_) {
            const auto& d = source->description();
            if (const auto text = difference(sources_.front()->description(), d); !text.empty())
                throw OptionError(d.name, text, "files that agree; read them in separate runs");
            starts_.push_back(description_.count);
            description_.count += d.count;
            description_.bits = std::max(description_.bits, d.bits);
            description_.files.insert(description_.files.end(), d.files.begin(), d.files.end());
        }
        description_.name += fmt::format(" and {} more", sources_.size() - 1);
    }

    const Description& description() const noexcept override { return description_; }

    Block read(std::uint64_t first, std::uint64_t count, Storage& storage) override {
        require_inside(description_, first, count);
        // The source that holds `first`: the last one that starts at or before it.
        auto i = to_size(std::upper_bound(starts_.begin(), starts_.end(), first) - starts_.begin() - 1);
        const auto& shape = description_.shape;
        if (first + count <= starts_[i] + sources_[i]->description().count)
            return sources_[i]->read(first - starts_[i], count, storage);

        const auto pixels = to_size(shape.pixels());
        storage.infos.clear();
        storage.pixels.grow(count * pixels, 0);
        auto* out = storage.pixels.data();
        const auto total = count;
        for (; count > 0; ++i) {
            const auto part = std::min(count, starts_[i] + sources_[i]->description().count - first);
            if (part == 0) continue;
            const auto block = sources_[i]->read(first - starts_[i], part, part_);
            storage.infos.insert(storage.infos.end(), block.infos.begin(), block.infos.end());
            std::memcpy(out, block.pixels.data(), part * pixels * sizeof(Pixel));
            out += part * pixels;
            first += part;
            count -= part;
        }
        return {storage.infos,
                {storage.pixels.data(), {static_cast<std::int64_t>(total), shape.rows, shape.columns}}};
    }

    void recall(std::uint64_t first, std::span<const FrameInfo> infos) override {
        for (std::size_t i = 0; i < sources_.size(); ++i) {
            const auto begin = std::max(first, starts_[i]);
            const auto end = std::min(first + infos.size(), starts_[i] + sources_[i]->description().count);
            if (begin < end)
                sources_[i]->recall(begin - starts_[i], infos.subspan(begin - first, end - begin));
        }
    }

    Anomalies anomalies() const override {
        Anomalies all;
        for (const auto& source : sources_) add(all, source->anomalies());
        return all;
    }

  private:
    std::vector<std::unique_ptr<Source>> sources_;
    std::vector<std::uint64_t> starts_;  // the index of each source's first frame
    Description description_;
    Storage part_;
};

class Cropped final : public Source {
  public:
    Cropped(std::unique_ptr<Source> source, const Region& region)
        : source_(std::move(source)), region_(region), description_(source_->description()) {
        const auto [rows, columns] = description_.shape;
        const auto inside = [](std::int64_t first, std::int64_t last, std::int64_t size) {
            return 0 <= first && first < last && last <= size;
        };
        if (!inside(region.first_row, region.last_row, rows) ||
            !inside(region.first_column, region.last_column, columns)) {
            throw OptionError("roi",
                              fmt::format("{}:{},{}:{}", region.first_row, region.last_row,
                                          region.first_column, region.last_column),
                              fmt::format("first:last of rows within 0:{}, then of columns within 0:{}, none "
                                          "of them empty",
                                          rows, columns));
        }
        description_.shape = {region.last_row - region.first_row, region.last_column - region.first_column};
        move(description_.module_rows, region.first_row, region.last_row);
        move(description_.module_columns, region.first_column, region.last_column);
    }

    const Description& description() const noexcept override { return description_; }

    Block read(std::uint64_t first, std::uint64_t count, Storage& storage) override {
        const auto whole = source_->read(first, count, whole_);
        const auto [rows, columns] = description_.shape;
        storage.infos.assign(whole.infos.begin(), whole.infos.end());
        storage.pixels.grow(count * to_size(description_.shape.pixels()), 0);
        auto* out = storage.pixels.data();
        for (std::int64_t f = 0; f < whole.pixels.extent(0); ++f) {
            const Pixel* frame = out;
            for (std::int64_t r = 0; r < rows; ++r, out += columns) {
                std::memcpy(out, &whole.pixels(f, region_.first_row + r, region_.first_column),
                            to_size(columns) * sizeof(Pixel));
            }
            // Which pixels were lost is not known, only that they hold the absent value.
            if (auto& lost = storage.infos[to_size(f)].lost_pixels; lost > 0 && description_.absent_value) {
                lost =
                    std::min(lost, static_cast<std::uint32_t>(std::count(
                                       frame, static_cast<const Pixel*>(out), *description_.absent_value)));
            }
        }
        return {storage.infos, {storage.pixels.data(), {whole.pixels.extent(0), rows, columns}}};
    }

    void recall(std::uint64_t first, std::span<const FrameInfo> infos) override {
        source_->recall(first, infos);
    }
    Anomalies anomalies() const override { return source_->anomalies(); }

  private:
    static void move(std::vector<std::int64_t>& edges, std::int64_t first, std::int64_t last) {
        std::erase_if(edges, [&](auto edge) { return edge <= first || edge >= last; });
        for (auto& edge : edges) edge -= first;
    }

    std::unique_ptr<Source> source_;
    Region region_;
    Description description_;
    Storage whole_;
};

class Sliced final : public Source {
  public:
    Sliced(std::unique_ptr<Source> source, std::uint64_t first, std::uint64_t last)
        : source_(std::move(source)), first_(first), description_(source_->description()) {
        if (first > last || last > description_.count) {
            throw OptionError(
                "frames", fmt::format("{}:{}", first, last),
                fmt::format("first:last within 0:{}, the frames there are", description_.count));
        }
        description_.count = last - first;
    }

    const Description& description() const noexcept override { return description_; }
    Block read(std::uint64_t first, std::uint64_t count, Storage& storage) override {
        require_inside(description_, first, count);
        return source_->read(first_ + first, count, storage);
    }
    void recall(std::uint64_t first, std::span<const FrameInfo> infos) override {
        source_->recall(first_ + first, infos);
    }
    Anomalies anomalies() const override { return source_->anomalies(); }

  private:
    std::unique_ptr<Source> source_;
    std::uint64_t first_;
    Description description_;
};

// The first bytes of a file, at most 16.
std::string first_bytes(const std::string& path) {
    const auto file = open_for_reading(path);
    std::string bytes(static_cast<std::size_t>(std::min<std::int64_t>(16, size_bytes(file, path))), '\0');
    read_exact(file, path, 0, std::as_writable_bytes(std::span(bytes)));
    return bytes;
}

}  // namespace

void Source::recall(std::uint64_t, std::span<const FrameInfo>) {}

std::unique_ptr<Source> concatenate(std::vector<std::unique_ptr<Source>> sources) {
    if (sources.empty()) throw OptionError("data", "no source", "at least one");
    if (sources.size() == 1) return std::move(sources.front());
    return std::make_unique<Concatenated>(std::move(sources));
}

std::unique_ptr<Source> crop(std::unique_ptr<Source> source, const Region& region) {
    return std::make_unique<Cropped>(std::move(source), region);
}

std::unique_ptr<Source> slice(std::unique_ptr<Source> source, std::uint64_t first, std::uint64_t last) {
    return std::make_unique<Sliced>(std::move(source), first, last);
}

std::unique_ptr<Source> open(const std::string& path, const OpenOptions& options) {
    std::error_code error;
    const auto type = std::filesystem::status(path, error).type();
    // Opening a pipe would wait for its other end.
    if (type == std::filesystem::file_type::fifo || type == std::filesystem::file_type::socket)
        throw FormatError(path, -1, "found a pipe or socket, expected a regular file");
    const auto start = first_bytes(path);
    const auto extension = std::filesystem::path(path).extension().string();
    // Content first: a name can be anything.
    if (start.starts_with("\x93NUMPY") || extension == ".npy") return open_npy(path);
    if (start.starts_with("\x89HDF\r\n\x1a\n") || extension == ".h5" || extension == ".hdf5" ||
        extension == ".nxs")
        return open_hdf5(path, options.dataset);
    if (extension == ".json" || extension == ".raw" || start.starts_with("{")) return open_raw(path);
    if (extension == ".dat") return open_dat(path);
    throw FormatError(
        path, 0,
        fmt::format("found a file that starts with \"{}\" and ends in \"{}\"; expected a receiver's "
                    "master file (_master_N.json), .dat, .npy, or HDF5 (.h5, .hdf5, .nxs)",
                    start.substr(0, 8), extension));
}

}  // namespace lightmill::frames

#include "lightmill/frames/raw.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/frames/frame_numbers.hpp"
#include "lightmill/frames/master.hpp"
#include "lightmill/frames/scattered_read_internal.hpp"

namespace lightmill::frames {
namespace {

static_assert(std::endian::native == std::endian::little, "records are little-endian");

constexpr auto k_header_bytes = static_cast<std::int64_t>(sizeof(RawHeader));
constexpr std::int64_t k_none = -1;

std::size_t to_size(std::int64_t n) {
    return static_cast<std::size_t>(n);
}
std::uint64_t to_unsigned(std::int64_t n) {
    return static_cast<std::uint64_t>(n);
}

struct Subfile {
    std::uint64_t index = 0;  // the number after _f in its name
    std::int64_t first = 0;   // record, counted over the port's files
    std::int64_t records = 0;
    bool ordered_by_ends = false;  // taken for gapless because its first and last numbers say so
};

// A run of pixels that lie side by side in the stored image and in the frame.
struct Piece {
    std::int64_t offset;  // in the frame
    std::int64_t pixels;
};

struct Port {
    RawPort place;
    std::int64_t record_bytes = 0;
    std::vector<Piece> pieces;  // in stored order
    std::vector<Subfile> files;
    std::int64_t records = 0;
};

// Consecutive frame numbers in consecutive records of a port.
struct Run {
    std::uint64_t number = 0;
    std::int64_t record = 0;
    std::int64_t records = 0;
    [[nodiscard]] std::uint64_t end() const { return number + to_unsigned(records); }
    friend bool operator==(const Run&, const Run&) = default;
};

void append(std::vector<Run>& runs, const Run& run) {
    if (!runs.empty()) {
        auto& last = runs.back();
        if (last.end() == run.number && last.record + last.records == run.record) {
            last.records += run.records;
            return;
        }
    }
    runs.push_back(run);
}

// Frames whose records follow one another in every port that has them.
struct Segment {
    std::int64_t first = 0;  // frame
    std::int64_t frames = 0;
    std::uint64_t number = 0;           // of its first frame; unused where there is one port
    std::vector<std::int64_t> records;  // (ports) of its first frame, k_none where the port has none
};

class RawSource final : public Source {
  public:
    explicit RawSource(const std::string& path)
        : path_(path), name_(parse_raw_name(path)), master_(read_master(path)) {
        const auto place = layout(master_);
        description_.name = path;
        description_.format = "raw";
        description_.shape = place.shape;
        description_.bits = master_.bits;
        description_.absent_value = k_raw_absent;
        description_.gain_bits = master_.detector == Detector::jungfrau;
        description_.module_rows = place.module_rows;
        description_.module_columns = place.module_columns;
        for (std::int64_t i = 0; i < packets_per_image(master_); ++i)
            all_packets_[to_size(i / 8)] |= static_cast<std::uint8_t>(1U << (i % 8));
        for (const auto& port : place.ports) add_port(port);
        find_files();
        check_counts();
        index();
    }

    const Description& description() const noexcept override { return description_; }

    Block read(std::uint64_t first, std::uint64_t count, Storage& storage) override {
        const auto pixels = to_size(description_.shape.pixels());
        require_inside(description_, first, count);
        storage.pixels.grow(count * pixels, 0);
        do {
            storage.infos.assign(count, FrameInfo{});
        } while (!try_read(static_cast<std::int64_t>(first), storage));
        numbers_.see(first, storage.infos);
        return {storage.infos,
                {storage.pixels.data(),
                 {static_cast<std::int64_t>(count), description_.shape.rows, description_.shape.columns}}};
    }

    void recall(std::uint64_t first, std::span<const FrameInfo> infos) override {
        numbers_.see(first, infos);
    }

    Anomalies anomalies() const override {
        auto all = numbers_.anomalies();
        add(all, unordered_);
        return all;
    }

  private:
    // --- what there is -----------------------------------------------------------------------------

    void add_port(const RawPort& place) {
        Port port;
        port.place = place;
        port.record_bytes = k_header_bytes + place.shape.pixels() * master_.bits / 8;
        const auto columns = description_.shape.columns;
        if (place.shape.columns == columns && !place.flipped) {
            port.pieces.push_back({place.first_row * columns, place.shape.pixels()});
        } else {
            for (std::int64_t r = 0; r < place.shape.rows; ++r) {
                const auto row = place.first_row + (place.flipped ? place.shape.rows - 1 - r : r);
                port.pieces.push_back({row * columns + place.first_column, place.shape.columns});
            }
        }
        ports_.push_back(std::move(port));
    }

    [[noreturn]] void subfile_missing(std::int64_t port, std::uint64_t index, const std::string& why) const {
        throw IoError(name_.subfile(port, index), "open", ENOENT,
                      why + "; find this data file, it belongs beside the master file");
    }

    void find_files() {
        const auto found = find_subfiles(name_);
        if (const auto last = found.empty() ? 0 : found.rbegin()->first;
            last >= master_.ports_x * master_.ports_y) {
            throw FormatError(
                path_, -1,
                fmt::format("found data files of port {}, expected ports 0 to {} (\"Geometry\")", last,
                            master_.ports_x * master_.ports_y - 1));
        }
        const bool none_expected = found.empty() && master_.frames_in_file.value_or(1) == 0;
        // Runs may start at a sub-file above 0, but in all ports alike.
        std::uint64_t start = UINT64_MAX;
        for (const auto& port : ports_) {
            if (const auto at = found.find(port.place.index); at != found.end())
                start = std::min(start, at->second.front());
        }
        if (start == UINT64_MAX) start = 0;
        description_.files.push_back(path_);
        for (auto& port : ports_) {
            const auto at = found.find(port.place.index);
            if (at == found.end()) {
                if (none_expected) continue;
                subfile_missing(port.place.index, start,
                                fmt::format("port {} has no data file", port.place.index));
            }
            for (auto index : at->second) {
                if (const auto expected = start + port.files.size(); index != expected) {
                    subfile_missing(port.place.index, expected,
                                    fmt::format("sub-file {} of port {} is there", index, port.place.index));
                }
                add_file(port, index);
            }
        }
    }

    void add_file(Port& port, std::uint64_t index) {
        const auto path = name_.subfile(port.place.index, index);
        std::error_code error;
        if (!std::filesystem::is_regular_file(path, error))
            throw FormatError(path, -1, "found something that is not a regular file, expected a data file");
        const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(path, error));
        if (error) throw IoError(path, "stat", error.value());
        if (const auto rest = bytes % port.record_bytes; rest != 0) {
            throw FormatError(
                path, bytes - rest,
                fmt::format(
                    "found {} bytes after {} whole records, expected records of {} bytes ({} of "
                    "header, {} × {} pixels of {} bits); the file is truncated, or the master file is "
                    "another run's",
                    rest, bytes / port.record_bytes, port.record_bytes, k_header_bytes, port.place.shape.rows,
                    port.place.shape.columns, master_.bits));
        }
        port.files.push_back({index, port.records, bytes / port.record_bytes});
        port.records += port.files.back().records;
        description_.files.push_back(path);
    }

    // Sub-files that are missing at the end of a run leave no hole in their numbers.
    void check_counts() const {
        const auto* fullest = &ports_.front();
        for (const auto& port : ports_) {
            if (port.records > fullest->records) fullest = &port;
        }
        if (const auto expected = master_.frames_in_file.value_or(0);
            expected > to_unsigned(fullest->records)) {
            throw FormatError(
                path_, -1,
                fmt::format("found {} frames in {} data files of port {}, expected {} (\"Frames in "
                            "File\"); the last data files are missing or truncated",
                            fullest->records, fullest->files.size(), fullest->place.index, expected));
        }
    }

    // --- which record of which port belongs to which frame --------------------------------------

    void index() {
        if (ports_.size() == 1) {
            if (const auto n = ports_.front().records; n > 0) segments_.push_back({0, n, 0, {0}});
        } else {
            std::vector<std::vector<Run>> runs;
            for (auto& port : ports_) runs.push_back(scan(port));
            if (std::ranges::all_of(runs, [&](const auto& r) { return r == runs.front(); })) {
                for (const auto& run : runs.front())
                    add_segment(run.number, run.records, std::vector(ports_.size(), run.record));
            } else {
                check_last_files(runs);
                for (auto& r : runs) sort(r);
                merge(runs);
            }
        }
        if (!segments_.empty())
            description_.count = to_unsigned(segments_.back().first + segments_.back().frames);
    }

    void add_segment(std::uint64_t number, std::int64_t frames, std::vector<std::int64_t> records) {
        const auto first = segments_.empty() ? 0 : segments_.back().first + segments_.back().frames;
        segments_.push_back({first, frames, number, std::move(records)});
    }

    // The frame numbers of a port. A sub-file whose first and last numbers are as far apart as its
    // records is taken for gapless; try_read finds out and repairs.
    std::vector<Run> scan(Port& port) {
        std::vector<Run> runs;
        for (auto& file : port.files) {
            if (file.records == 0) continue;
            const auto first = number_of(port, file, 0);
            file.ordered_by_ends = file.records > 2 && number_of(port, file, file.records - 1) - first ==
                                                           to_unsigned(file.records - 1);
            if (file.ordered_by_ends) {
                append(runs, {first, file.first, file.records});
            } else {
                append(runs, {first, file.first, 1});
                for (std::int64_t r = 1; r < file.records; ++r)
                    append(runs, {number_of(port, file, r), file.first + r, 1});
            }
        }
        return runs;
    }

    std::uint64_t number_of(const Port& port, const Subfile& file, std::int64_t record) {
        std::uint64_t number = 0;
        const auto path = name_.subfile(port.place.index, file.index);
        read_exact(descriptor(path), path, record * port.record_bytes,
                   std::as_writable_bytes(std::span(&number, 1)));
        return number;
    }

    // A port that lost nothing up to the end of a sub-file and has nothing after it lacks a file.
    void check_last_files(const std::vector<std::vector<Run>>& runs) const {
        for (std::size_t a = 0; a < ports_.size(); ++a) {
            for (std::size_t b = 0; b < ports_.size(); ++b) {
                const auto files = ports_[a].files.size();
                if (files >= ports_[b].files.size() || ports_[b].files[files].first != ports_[a].records)
                    continue;
                std::vector<Run> start;
                for (auto run : runs[b]) {
                    run.records = std::min(run.records, ports_[a].records - run.record);
                    if (run.records > 0) start.push_back(run);
                }
                if (start == runs[a]) {
                    subfile_missing(
                        ports_[a].place.index, ports_[b].files[files].index,
                        fmt::format("port {} has it, and before it both have the same frames; where "
                                    "port {} really stopped there, an empty file says so",
                                    ports_[b].place.index, ports_[a].place.index));
                }
            }
        }
    }

    // Puts a port's runs in order of their numbers; of a number that comes twice one is kept.
    void sort(std::vector<Run>& runs) {
        const auto order = [](const Run& run) { return std::pair(run.number, run.record); };
        const auto follows = [](const Run& a, const Run& b) { return b.number < a.end(); };
        if (std::ranges::adjacent_find(runs, follows) == runs.end()) return;
        note(runs);
        std::ranges::sort(runs, {}, order);
        std::vector<Run> kept;
        for (auto run : runs) {
            if (!kept.empty() && run.number < kept.back().end()) {
                const auto known =
                    std::min(run.records, static_cast<std::int64_t>(kept.back().end() - run.number));
                run = {run.number + to_unsigned(known), run.record + known, run.records - known};
            }
            if (run.records > 0) kept.push_back(run);
        }
        runs = std::move(kept);
    }

    // Keeps what is unordered or repeated in one port, since delivery puts it in order.
    void note(const std::vector<Run>& runs) {
        FrameNumbers numbers;
        std::uint64_t at = 0;
        for (const auto& run : runs) {
            for (std::int64_t i = 0; i < run.records; ++i) {
                const FrameInfo info{run.number + to_unsigned(i), 0};
                numbers.see(at++, {&info, 1});
            }
        }
        const auto found = numbers.anomalies();
        // The same frame in several ports counts once.
        const auto join = [](std::uint64_t& count, std::vector<std::uint64_t>& list, std::uint64_t more,
                             const std::vector<std::uint64_t>& others) {
            std::vector<std::uint64_t> fresh;
            for (auto n : others) {
                if (std::ranges::find(list, n) == list.end()) fresh.push_back(n);
            }
            count += more - (others.size() - fresh.size());
            for (auto n : fresh) {
                if (list.size() < Anomalies::k_max_listed) list.push_back(n);
            }
        };
        join(unordered_.out_of_order_frames, unordered_.out_of_order, found.out_of_order_frames,
             found.out_of_order);
        join(unordered_.repeated_frames, unordered_.repeated, found.repeated_frames, found.repeated);
    }

    // Brings ports together by frame number: a frame is delivered where at least one port has it.
    void merge(const std::vector<std::vector<Run>>& runs) {
        struct Head {
            std::size_t run = 0;
            std::int64_t used = 0;  // records of that run
        };
        std::vector<Head> heads(runs.size());
        const auto number = [&](std::size_t p) {
            return runs[p][heads[p].run].number + to_unsigned(heads[p].used);
        };
        for (;;) {
            std::optional<std::uint64_t> next;
            for (std::size_t p = 0; p < runs.size(); ++p) {
                if (heads[p].run < runs[p].size()) next = std::min(next.value_or(UINT64_MAX), number(p));
            }
            if (!next) return;
            std::int64_t frames = INT64_MAX;
            std::vector<std::int64_t> records(runs.size(), k_none);
            for (std::size_t p = 0; p < runs.size(); ++p) {
                if (heads[p].run == runs[p].size()) continue;
                const auto& run = runs[p][heads[p].run];
                if (number(p) == *next) {
                    records[p] = run.record + heads[p].used;
                    frames = std::min(frames, run.records - heads[p].used);
                } else if (const auto ahead = number(p) - *next; ahead < to_unsigned(frames)) {
                    frames = static_cast<std::int64_t>(ahead);
                }
            }
            for (std::size_t p = 0; p < runs.size(); ++p) {
                if (records[p] == k_none) continue;
                heads[p].used += frames;
                if (heads[p].used == runs[p][heads[p].run].records) heads[p] = {heads[p].run + 1, 0};
            }
            add_segment(*next, frames, std::move(records));
        }
    }

    // --- reading ------------------------------------------------------------------------------------

    // False where the index had to be repaired: the frames are the same, their records are not.
    bool try_read(std::int64_t first, Storage& storage) {
        const auto count = static_cast<std::int64_t>(storage.infos.size());
        if (count == 0) return true;
        auto segment = std::ranges::upper_bound(segments_, first, {}, &Segment::first) - 1;
        for (std::int64_t done = 0; done < count; ++segment) {
            const auto inside = first + done - segment->first;
            const auto frames = std::min(count - done, segment->frames - inside);
            for (std::size_t p = 0; p < ports_.size(); ++p) {
                const auto record = segment->records[p];
                if (record == k_none) {
                    lose_images(ports_[p], done, frames, storage);
                    if (p == 0) number(*segment, inside, done, frames, storage);
                } else if (!read_port(p, *segment, record + inside, inside, done, frames, storage)) {
                    return false;
                }
            }
            done += frames;
        }
        return true;
    }

    static void number(const Segment& segment, std::int64_t inside, std::int64_t out, std::int64_t frames,
                       Storage& storage) {
        for (std::int64_t i = 0; i < frames; ++i)
            storage.infos[to_size(out + i)].number = segment.number + to_unsigned(inside + i);
    }

    void lose_images(const Port& port, std::int64_t out, std::int64_t frames, Storage& storage) const {
        for (std::int64_t i = 0; i < frames; ++i) {
            auto* frame = storage.pixels.data() + (out + i) * description_.shape.pixels();
            for (const auto& piece : port.pieces)
                std::fill_n(frame + piece.offset, piece.pixels, k_raw_absent);
            storage.infos[to_size(out + i)].lost_pixels +=
                static_cast<std::uint32_t>(port.place.shape.pixels());
        }
    }

    // `frames` records of a port, to frame `out` of the storage on.
    bool read_port(std::size_t p, const Segment& segment, std::int64_t record, std::int64_t inside,
                   std::int64_t out, std::int64_t frames, Storage& storage) {
        auto& port = ports_[p];
        while (frames > 0) {
            auto file = std::ranges::upper_bound(port.files, record, {}, &Subfile::first) - 1;
            const auto n = std::min(frames, file->first + file->records - record);
            const auto path = name_.subfile(port.place.index, file->index);
            const auto offset = (record - file->first) * port.record_bytes;
            const auto* headers = read_records(port, path, offset, out, n, storage);
            for (std::int64_t i = 0; i < n; ++i) {
                const auto& header = headers[i];
                auto& info = storage.infos[to_size(out + i)];
                check_type(header, path, offset + i * port.record_bytes);
                const auto expected = segment.number + to_unsigned(inside + i);
                if (ports_.size() > 1 && header.frame_number != expected) {
                    if (!file->ordered_by_ends) {
                        throw FormatError(
                            path, offset + i * port.record_bytes,
                            fmt::format("found frame number {}, expected {} as when the file was "
                                        "opened; it was changed since",
                                        header.frame_number, expected));
                    }
                    repair(p, *file);
                    return false;
                }
                info.number = header.frame_number;
                if (!all_caught(header)) lose_packets(port, header, out + i, storage);
            }
            record += n;
            inside += n;
            out += n;
            frames -= n;
        }
        return true;
    }

    const RawHeader* read_records(const Port& port, const std::string& path, std::int64_t offset,
                                  std::int64_t out, std::int64_t n, Storage& storage) {
        storage.scratch.grow(to_size(n) * sizeof(RawHeader), 0);
        auto* headers = reinterpret_cast<RawHeader*>(storage.scratch.data());
        const bool wide = master_.bits == 16;
        places_.clear();
        for (std::int64_t i = 0; i < n; ++i) {
            detail::add_piece(places_, headers + i, sizeof(RawHeader));
            auto* frame = storage.pixels.data() + (out + i) * description_.shape.pixels();
            for (const auto& piece : port.pieces) {
                auto* pixels = reinterpret_cast<std::byte*>(frame + piece.offset);
                const auto size = to_size(piece.pixels);
                // Bytes go to the upper half of their room and are widened from there, in place.
                if (wide) {
                    detail::add_piece(places_, pixels, size * sizeof(Pixel));
                } else {
                    places_.push_back({pixels + size, size});
                }
            }
        }
        detail::read_scattered(descriptor(path), path, offset, places_);
        for (std::int64_t i = 0; i < n && !wide; ++i) {
            auto* frame = storage.pixels.data() + (out + i) * description_.shape.pixels();
            for (const auto& piece : port.pieces) {
                auto* to = frame + piece.offset;
                const auto* from = reinterpret_cast<const std::uint8_t*>(to) + piece.pixels;
                for (std::int64_t k = 0; k < piece.pixels; ++k) to[k] = from[k];
            }
        }
        return headers;
    }

    // A record that is none (wrong size, another detector) shows here first.
    void check_type(const RawHeader& header, const std::string& path, std::int64_t offset) const {
        const auto expected = static_cast<std::uint8_t>(master_.detector);
        if (header.detector_type == expected || header.detector_type == 0) return;
        throw FormatError(
            path, offset + static_cast<std::int64_t>(offsetof(RawHeader, detector_type)),
            fmt::format("found detector type {}, expected {} ({}) in the header of a record; the "
                        "file is damaged, or the master file is another run's",
                        header.detector_type, expected, lightmill::frames::name(master_.detector)));
    }

    bool all_caught(const RawHeader& header) const {
        for (std::size_t i = 0; i < all_packets_.size(); ++i) {
            if ((header.packets[i] & all_packets_[i]) != all_packets_[i]) return false;
        }
        return true;
    }

    void lose_packets(const Port& port, const RawHeader& header, std::int64_t out, Storage& storage) const {
        const auto per_packet = packet_bytes(master_) * 8 / master_.bits;
        auto* frame = storage.pixels.data() + out * description_.shape.pixels();
        auto& lost = storage.infos[to_size(out)].lost_pixels;
        const auto& place = port.place;
        // Packets cut the whole image of the port, of which a part is stored.
        for (std::int64_t r = 0; r < place.shape.rows; ++r) {
            const auto row = place.first_row + (place.flipped ? place.shape.rows - 1 - r : r);
            auto* pixels = frame + row * description_.shape.columns + place.first_column;
            const auto start = (place.skipped_rows + r) * master_.port_shape.columns + place.skipped_columns;
            for (std::int64_t c = 0; c < place.shape.columns;) {
                const auto packet = (start + c) / per_packet;
                const auto end = std::min(place.shape.columns, (packet + 1) * per_packet - start);
                if ((header.packets[to_size(packet / 8)] >> (packet % 8) & 1) == 0) {
                    std::fill(pixels + c, pixels + end, k_raw_absent);
                    lost += static_cast<std::uint32_t>(end - c);
                }
                c = end;
            }
        }
    }

    // A sub-file was taken for gapless and is not: looks at all its numbers. The frames stay those
    // that its ends promised; a number that is not there is lost in this port.
    void repair(std::size_t p, Subfile& file) {
        auto& port = ports_[p];
        file.ordered_by_ends = false;
        std::vector<Run> runs;
        for (std::int64_t r = 0; r < file.records; ++r)
            append(runs, {number_of(port, file, r), file.first + r, 1});
        const auto first = runs.front().number;
        const auto end = first + to_unsigned(file.records);
        note(runs);
        std::vector<std::int64_t> record_of(to_size(file.records), k_none);
        for (const auto& run : runs) {
            for (std::int64_t i = 0; i < run.records; ++i) {
                const auto number = run.number + to_unsigned(i);
                if (number < first || number >= end) continue;
                auto& record = record_of[number - first];
                if (record == k_none) record = run.record + i;
            }
        }
        const auto old = std::exchange(segments_, {});
        for (const auto& segment : old) {
            const auto at = segment.records[p];
            if (at == k_none || at + segment.frames <= file.first || at >= file.first + file.records) {
                add_segment(segment.number, segment.frames, segment.records);
                continue;
            }
            for (std::int64_t i = 0; i < segment.frames; ++i) {
                auto records = segment.records;
                for (auto& record : records) record += record == k_none ? 0 : i;
                const auto number = segment.number + to_unsigned(i);
                if (at + i >= file.first && at + i < file.first + file.records)
                    records[p] = record_of[number - first];
                add_frame(number, records);
            }
        }
    }

    // One more frame: lengthens the last segment where it goes on in every port.
    void add_frame(std::uint64_t number, const std::vector<std::int64_t>& records) {
        if (!segments_.empty()) {
            auto& last = segments_.back();
            bool goes_on = number == last.number + to_unsigned(last.frames);
            for (std::size_t p = 0; p < records.size(); ++p) {
                goes_on =
                    goes_on && (last.records[p] == k_none ? records[p] == k_none
                                                          : records[p] == last.records[p] + last.frames);
            }
            if (goes_on) {
                ++last.frames;
                return;
            }
        }
        add_segment(number, 1, records);
    }

    // --- open files ---------------------------------------------------------------------------------

    // The descriptor of a data file; the one that was used longest ago makes room.
    const FileDescriptor& descriptor(const std::string& path) {
        const auto at = std::ranges::find(open_, path, &OpenFile::path);
        if (at != open_.end()) {
            std::rotate(open_.begin(), at, at + 1);
        } else {
            if (open_.size() == k_raw_open_files) open_.pop_back();
            open_.insert(open_.begin(), OpenFile{path, open_for_reading(path)});
        }
        return open_.front().file;
    }

    struct OpenFile {
        std::string path;
        FileDescriptor file;
    };

    std::string path_;
    RawName name_;
    RawMaster master_;
    Description description_;
    std::vector<Port> ports_;
    std::vector<Segment> segments_;
    std::array<std::uint8_t, 64> all_packets_{};  // the mask of an image that lost nothing
    std::vector<OpenFile> open_;                  // the last used one first
    std::vector<iovec> places_;
    FrameNumbers numbers_;
    Anomalies unordered_;  // seen in single ports; delivery put them in order
};

}  // namespace

std::unique_ptr<Source> open_raw(const std::string& master_path) {
    const auto extension = std::filesystem::path(master_path).extension();
    if (extension == ".raw") {
        const auto stem = std::filesystem::path(master_path).stem().string();
        if (stem.find("_master_") != std::string::npos) {
            throw FormatError(
                master_path, 0,
                "found the text master file of a receiver before version 7, expected the JSON one; "
                "read the run with the receiver version that wrote it, or write a "
                "_master_N.json with the keys of docs/formats/raw.md beside its data files");
        }
        throw FormatError(master_path, 0,
                          "found a receiver's data file, expected the run's master file; give "
                          "<base>_master_<number>.json, it finds the data files");
    }
    return std::make_unique<RawSource>(master_path);
}

}  // namespace lightmill::frames

#pragma once
// The finder's kernels as functions that host and device share, cut at their barriers into phases: every
// thread of a block ends a phase before the first begins the next. find_kernels.cu runs them on a GPU,
// find_kernels.cpp one thread after the other on the host. The arithmetic is the definition's
// (docs/algorithms/clusters.md), one IEEE operation at a time.
//
// A band of the image's rows lies in device memory with half a window of rows beyond it on both sides. The
// kernels see it padded: rows and columns of different modules are half a window apart, so that no window
// reaches from one into the other; tables lead from padded places to memory.

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define LIGHTMILL_BODY __host__ __device__ __forceinline__
#define LIGHTMILL_UNROLL _Pragma("unroll")
#else
#define LIGHTMILL_BODY inline
#define LIGHTMILL_UNROLL
#endif

namespace lightmill::clusters::detail {

inline constexpr int k_tile_columns = 32;  // a warp: its votes are a word of the photon map
inline constexpr int k_tile_rows = 16;
inline constexpr int k_tile_threads = k_tile_columns * k_tile_rows;

// Where the pixels of a band are.
struct BandPlan {
    // Row in the band's memory of padded row y at [y + half_height], −1 where there is none; up to
    // half_height beyond the last tile. Columns likewise.
    const std::int32_t* row_of;
    const std::int32_t* column_of;
    std::int32_t rows;         // padded rows that are the band's own
    std::int32_t words;        // of 32 padded columns, a row
    std::int32_t columns;      // of the image: one row's pixels in memory
    std::int32_t pixels;       // of the band in memory, one frame
    std::int32_t half_height;  // of the window
    std::int32_t half_width;
    std::int32_t first_row;  // image row of the band's first in memory

    LIGHTMILL_BODY std::int32_t map_words() const { return rows * words; }  // of one frame's photon map
};

// ---- judge: which pixels are photons, which are background, and what the model learns from these ----------

struct JudgeParameters {
    BandPlan plan;
    const std::uint16_t* frames;  // (frame_count × plan.pixels)
    std::int32_t frame_count;     // of one epoch
    const std::uint16_t* offset;  // X₀; these five (plan.pixels)
    const float* mean;            // m that judges, NaN where the pixel is absent from every frame
    const float* variance;
    float* learn_mean;  // the model that learns, where the launch is not a whole epoch
    float* learn_variance;
    float* next_mean;  // the next epoch's model, or null inside an epoch
    float* next_variance;
    bool begins;  // the epoch
    float threshold, cells, gain, keep;
    std::int32_t absent_value;  // −1: no value is
    std::int32_t gain_mask;
    bool ties_all;
    std::uint32_t* photons;      // (frame_count × map_words) a bit a padded pixel
    std::int32_t* residuals;     // (frame_count × plan.pixels) rounded; 0 where absent
    std::uint32_t* negatives;    // (plan.pixels) frames in which the pixel was negative
    unsigned long long* absent;  // of value, of gain bits
    // Of the launch that takes many frames of one epoch each: how many epochs each tile has behind it, and
    // how many that are before the launch. Its models: mean and next_mean judge in turn, the first one first.
    std::uint32_t* generations;
    std::uint32_t generation;
};

LIGHTMILL_BODY void add(std::uint32_t& sum, std::uint32_t value) {
    sum += value;
}
LIGHTMILL_BODY void add(unsigned long long& sum, unsigned long long value) {
#ifdef __CUDA_ARCH__
    atomicAdd(&sum, value);
#else
    sum += value;
#endif
}
LIGHTMILL_BODY std::int32_t round_to_nearest(float value) {  // half to even
#ifdef __CUDA_ARCH__
    return __float2int_rn(value);
#else
    return static_cast<std::int32_t>(std::lrint(value));
#endif
}
LIGHTMILL_BODY bool is_present(float value) {  // absent residuals are NaN
    return value == value;
}

// Width and Height of the window, or 0 where it is known at run time only. Items: pixels of tile and rim
// that a thread brings in; 4 are enough for 21×21.
template <int Width, int Height, unsigned Items>
struct Judge {
    const JudgeParameters& p;
    int tile_x, tile_y;
    float* shared;

    LIGHTMILL_BODY int half_width() const { return Width > 0 ? Width / 2 : p.plan.half_width; }
    LIGHTMILL_BODY int half_height() const { return Height > 0 ? Height / 2 : p.plan.half_height; }
    LIGHTMILL_BODY int width() const { return k_tile_columns + 2 * half_width(); }
    LIGHTMILL_BODY int height() const { return k_tile_rows + 2 * half_height(); }
    // Residuals of the tile and its rim, two of them in turn: a thread that is ahead fills the other one.
    LIGHTMILL_BODY float* residual(int frame) const { return shared + (frame & 1) * width() * height(); }
    // Column sums and maxima around each row of the tile.
    LIGHTMILL_BODY float* total() const { return shared + 2 * width() * height(); }
    LIGHTMILL_BODY float* maximum() const { return total() + width() * k_tile_rows; }
    static unsigned shared_bytes(const BandPlan& plan) {
        const int w = k_tile_columns + 2 * plan.half_width, h = k_tile_rows + 2 * plan.half_height;
        return static_cast<unsigned>((2 * w * h + 2 * w * k_tile_rows) * static_cast<int>(sizeof(float)));
    }

    // What a thread keeps between phases. Item 0 is its own pixel; the others are of the rim.
    struct Thread {
        std::int32_t address[Items];  // in the band's memory; −1: outside
        std::int32_t place[Items];    // in the tile; −1: no item
        float mean[Items];
        std::uint16_t offset[Items];
        std::uint16_t raw[Items];  // of the frame that is loaded next
        bool stores[Items];        // this thread stores the pixel's residual
        bool own;                  // there is a pixel, and it is the band's
        std::uint16_t raw_own;
        float q, learn_mean, learn_variance;
        std::uint32_t negatives, absent_value, absent_gain;
    };

    // What does not depend on the launch before.
    LIGHTMILL_BODY void begin(int thread, Thread& t) const {
        const int hw = half_width(), hh = half_height();
        const int rim = width() * height() - k_tile_threads;
        LIGHTMILL_UNROLL
        for (unsigned k = 0; k < Items; ++k) {
            int x = thread % k_tile_columns, y = thread / k_tile_columns;  // in the tile
            t.place[k] = -1;
            t.address[k] = -1;
            t.stores[k] = false;
            t.mean[k] = 0;
            t.offset[k] = 0;
            t.raw[k] = 0;
            if (k > 0) {
                int i = thread + (static_cast<int>(k) - 1) *
                                     k_tile_threads;  // in the rim: above, below, then left and right
                if (i >= rim) continue;
                const int above = hh * width();
                if (i < 2 * above) {
                    const int side = i / above;
                    i -= side * above;
                    y = i / width() - hh + side * (k_tile_rows + hh);
                    x = i % width() - hw;
                } else {
                    i -= 2 * above;
                    const int side = i / (hw * k_tile_rows);
                    i -= side * hw * k_tile_rows;
                    y = i / hw;
                    x = i % hw - hw + side * (k_tile_columns + hw);
                }
            }
            t.place[k] = (y + hh) * width() + x + hw;
            const int row = p.plan.row_of[tile_y * k_tile_rows + y + hh];
            const int column = p.plan.column_of[tile_x * k_tile_columns + x + hw];
            if (row < 0 || column < 0) continue;
            const std::int32_t at = row * p.plan.columns + column;
            t.address[k] = at;
            t.offset[k] = p.offset[at];
            t.raw[k] = p.frames[at];
            // Clusters at the band's edge hold residuals from beyond it.
            const int padded_row = tile_y * k_tile_rows + y;
            t.stores[k] =
                k == 0 || ((padded_row < 0 || padded_row >= p.plan.rows) && x >= 0 && x < k_tile_columns);
        }
        t.own = t.address[0] >= 0 && tile_y * k_tile_rows + thread / k_tile_columns < p.plan.rows;
        t.negatives = 0;
        t.absent_value = 0;
        t.absent_gain = 0;
    }
    // What does: the model.
    LIGHTMILL_BODY void begin_model(Thread& t) const {
        LIGHTMILL_UNROLL
        for (unsigned k = 0; k < Items; ++k) {
            if (t.address[k] >= 0) t.mean[k] = p.mean[t.address[k]];
        }
        if (!t.own) return;
        const auto at = t.address[0];
        t.q = p.threshold * p.variance[at];
        t.learn_mean = p.begins ? t.mean[0] : p.learn_mean[at];
        t.learn_variance = p.begins ? p.variance[at] : p.learn_variance[at];
    }

    LIGHTMILL_BODY void load(Thread& t, int frame) const {
        float* v = residual(frame);
        t.raw_own = t.raw[0];
        LIGHTMILL_UNROLL
        for (unsigned k = 0; k < Items; ++k) {
            if (t.place[k] < 0) continue;
            float value = NAN;
            if (t.address[k] >= 0) {
                const std::int32_t raw = t.raw[k];
                value = static_cast<float>(raw - static_cast<std::int32_t>(t.offset[k])) - t.mean[k];
                const bool counts = k == 0 && t.own && is_present(value);
                if (raw == p.absent_value) {
                    if (counts) ++t.absent_value;
                    value = NAN;
                } else if ((raw & p.gain_mask) != 0) {
                    if (counts) ++t.absent_gain;
                    value = NAN;
                }
                if (t.stores[k]) {
                    p.residuals[static_cast<std::int64_t>(frame) * p.plan.pixels + t.address[k]] =
                        is_present(value) ? round_to_nearest(value) : 0;
                }
                if (frame + 1 < p.frame_count) {
                    t.raw[k] = p.frames[static_cast<std::int64_t>(frame + 1) * p.plan.pixels + t.address[k]];
                }
            }
            v[t.place[k]] = value;
        }
    }

    LIGHTMILL_BODY void columns(int thread, int frame) const {
        const float* v = residual(frame);
        const int places = width() * k_tile_rows;
        for (int i = thread; i < places; i += k_tile_threads) {
            float sum = 0, most = -INFINITY;
            const int window = Height > 0 ? Height : 2 * p.plan.half_height + 1;
            LIGHTMILL_UNROLL
            for (int r = 0; r < window; ++r) {
                const float value = v[i + r * width()];
                if (is_present(value)) sum += value;
                most = fmaxf(most, value);
            }
            total()[i] = sum;
            maximum()[i] = most;
        }
    }

    // True where the thread's pixel is a photon.
    LIGHTMILL_BODY bool judge(int thread, Thread& t, int frame) const {
        if (!t.own) return false;
        const int x = thread % k_tile_columns, y = thread / k_tile_columns;
        const float* v = residual(frame);
        const float value = v[t.place[0]];
        if (!is_present(value)) return false;
        if (value < 0 && value * value > t.q) {
            ++t.negatives;
            return false;
        }
        float sum = 0, most = -INFINITY;
        const int window = Width > 0 ? Width : 2 * p.plan.half_width + 1;
        const int first = y * width() + x;
        LIGHTMILL_UNROLL
        for (int c = 0; c < window; ++c) {
            sum += total()[first + c];
            most = fmaxf(most, maximum()[first + c]);
        }
        const bool peak = most > 0 && most * most > t.q;
        const bool spread = sum > 0 && sum * sum > p.cells * t.q;
        if (!peak && !spread) {
            const float sample = static_cast<float>(static_cast<std::int32_t>(t.raw_own) -
                                                    static_cast<std::int32_t>(t.offset[0])) -
                                 t.learn_mean;
            t.learn_mean = t.learn_mean + sample * p.gain;
            t.learn_variance = p.keep * (t.learn_variance + (sample * sample) * p.gain);
            return false;
        }
        return value == most && (p.ties_all || !earlier_equal(v, t.place[0], value));
    }

    // An equal value before the centre, in raster order. Asked for maxima only, which are few.
    LIGHTMILL_BODY bool earlier_equal(const float* v, int place, float value) const {
        const int hw = half_width(), hh = half_height();
        bool equal = false;
        for (int r = -hh; r < 0; ++r) {
            for (int c = -hw; c <= hw; ++c) equal = equal || v[place + r * width() + c] == value;
        }
        for (int c = -hw; c < 0; ++c) equal = equal || v[place + c] == value;
        return equal;
    }

    LIGHTMILL_BODY std::int64_t map_word(int thread, int frame) const {
        return static_cast<std::int64_t>(frame) * p.plan.map_words() +
               (tile_y * k_tile_rows + thread / k_tile_columns) * p.plan.words + tile_x;
    }
    LIGHTMILL_BODY bool has_map_word(int thread) const {
        return tile_y * k_tile_rows + thread / k_tile_columns < p.plan.rows;
    }

    // The two models in turn, for frames that are epochs of their own.
    LIGHTMILL_BODY const float* judging(int frame) const { return frame % 2 == 0 ? p.mean : p.next_mean; }
    LIGHTMILL_BODY float* learning(int frame) const {
        return frame % 2 == 0 ? p.next_mean : const_cast<float*>(p.mean);
    }
    // After a frame that is an epoch of its own: the new mean is there for all, and the thread's own model
    // judges the next frame.
    LIGHTMILL_BODY void publish(Thread& t, int frame) const {
        if (!t.own) return;
        learning(frame)[t.address[0]] = t.learn_mean;
        t.mean[0] = t.learn_mean;
        t.q = p.threshold * t.learn_variance;
    }
    // Before one: the means of the rim, which other tiles have learned. They are not to come from a cache
    // that other processors' writes do not reach.
    LIGHTMILL_BODY void take_rim(Thread& t, int frame) const {
        LIGHTMILL_UNROLL
        for (unsigned k = 0; k < Items; ++k) {
            if (t.address[k] < 0 || (k == 0 && t.own)) continue;
#ifdef __CUDA_ARCH__
            t.mean[k] = __ldcg(judging(frame) + t.address[k]);
#else
            t.mean[k] = judging(frame)[t.address[k]];
#endif
        }
    }
    // After the last one.
    LIGHTMILL_BODY void end_many(Thread& t) const {
        if (!t.own) return;
        const auto at = t.address[0];
        (p.frame_count % 2 == 0 ? const_cast<float*>(p.variance) : p.next_variance)[at] = t.learn_variance;
        count(t);
    }

    LIGHTMILL_BODY void end(Thread& t) const {
        if (!t.own) return;
        const auto at = t.address[0];
        if (p.next_mean != nullptr) {
            p.next_mean[at] = t.learn_mean;
            p.next_variance[at] = t.learn_variance;
        } else {
            p.learn_mean[at] = t.learn_mean;
            p.learn_variance[at] = t.learn_variance;
        }
        count(t);
    }
    LIGHTMILL_BODY void count(const Thread& t) const {
        const auto at = t.address[0];
        if (t.negatives > 0) add(p.negatives[at], t.negatives);
        if (t.absent_value > 0) add(p.absent[0], static_cast<unsigned long long>(t.absent_value));
        if (t.absent_gain > 0) add(p.absent[1], static_cast<unsigned long long>(t.absent_gain));
    }
};

// ---- scan: where each word of a frame's photon map begins in its list of clusters -------------------------

LIGHTMILL_BODY std::uint32_t bits_in(std::uint32_t word) {
#ifdef __CUDA_ARCH__
    return static_cast<std::uint32_t>(__popc(word));
#else
    return static_cast<std::uint32_t>(__builtin_popcount(word));
#endif
}
LIGHTMILL_BODY int first_bit(std::uint32_t word) {
#ifdef __CUDA_ARCH__
    return __ffs(static_cast<int>(word)) - 1;
#else
    return __builtin_ctz(word);
#endif
}

// The photons of one frame's map, counted by one block: a thread takes consecutive words, and learns how many
// photons are before them. Three phases.
template <int Threads, int Groups>
struct MapCount {
    static constexpr int k_members = Threads / Groups;
    static constexpr int k_shared = Threads + Groups;  // numbers in `shared`
    const std::uint32_t* map;
    int words;
    std::uint32_t* shared;

    LIGHTMILL_BODY int share() const { return (words + Threads - 1) / Threads; }
    LIGHTMILL_BODY int first(int thread) const { return thread * share(); }
    LIGHTMILL_BODY int last(int thread) const {
        const int end = (thread + 1) * share();
        return end < words ? end : words;
    }
    LIGHTMILL_BODY void count(int thread) const {
        std::uint32_t sum = 0;
        for (int i = first(thread); i < last(thread); ++i) sum += bits_in(map[i]);
        shared[thread] = sum;
    }
    LIGHTMILL_BODY void sum_group(int thread) const {
        if (thread < Groups)
            shared[Threads + thread] = sum_before(thread * k_members, (thread + 1) * k_members);
    }
    // By one thread; returns the number of all photons.
    LIGHTMILL_BODY std::uint32_t sum_groups() const { return sum_before(Threads, Threads + Groups); }
    // Photons before the thread's first word.
    LIGHTMILL_BODY std::uint32_t before(int thread) const {
        return shared[Threads + thread / k_members] + shared[thread];
    }

  private:
    // Puts the sum of those before it in each place, and returns the sum of all.
    LIGHTMILL_BODY std::uint32_t sum_before(int first, int last) const {
        std::uint32_t sum = 0;
        for (int i = first; i < last; ++i) {
            const auto own = shared[i];
            shared[i] = sum;
            sum += own;
        }
        return sum;
    }
};

inline constexpr int k_scan_threads = 256;
using ScanCount = MapCount<k_scan_threads, 16>;

struct ScanParameters {
    BandPlan plan;
    const std::uint32_t* photons;      // (frames × map_words)
    std::uint32_t* starts;             // (frames × map_words) clusters of the frame before the word
    std::uint32_t* counts;             // (frames) clusters, on the device
    std::uint32_t* host_counts;        // the same, in page-locked memory of the host
    const unsigned long long* absent;  // two numbers, given on to the host
    unsigned long long* host_absent;
};

// One block a frame.
struct Scan {
    const ScanParameters& p;
    int frame;
    ScanCount map;

    LIGHTMILL_BODY Scan(const ScanParameters& parameters, int of_frame, std::uint32_t* shared)
        : p(parameters),
          frame(of_frame),
          map{parameters.photons + static_cast<std::int64_t>(of_frame) * parameters.plan.map_words(),
              parameters.plan.map_words(), shared} {}

    LIGHTMILL_BODY void sum_groups(int thread) const {
        if (thread > 0) return;
        const auto sum = map.sum_groups();
        p.counts[frame] = sum;
        p.host_counts[frame] = sum;
        if (frame == 0) {
            p.host_absent[0] = p.absent[0];
            p.host_absent[1] = p.absent[1];
        }
    }
    LIGHTMILL_BODY void write(int thread) const {
        auto sum = map.before(thread);
        auto* starts = p.starts + static_cast<std::int64_t>(frame) * p.plan.map_words();
        for (int i = map.first(thread); i < map.last(thread); ++i) {
            starts[i] = sum;
            sum += bits_in(map.map[i]);
        }
    }
};

// ---- list: the photon map as a list of places, in raster order, frame after frame ------------------------

inline constexpr int k_list_threads = 256;

struct ListParameters {
    BandPlan plan;
    std::int32_t frame_count;
    const std::uint32_t* photons;
    const std::uint32_t* starts;
    const std::uint32_t* counts;
    std::uint64_t capacity;  // clusters; where there are more they are counted, not written
    std::uint64_t* places;   // frame · 2^40 + padded row · 2^20 + padded column
    // Rows of the centres in the image, then columns, then at cells_at() the cells: packed, so that one copy
    // brings all of it.
    std::uint32_t* list;
    unsigned long long* total;  // clusters of all frames
};

// Where the cells of so many clusters begin in a list, in 32-bit words.
LIGHTMILL_BODY std::uint64_t cells_at(std::uint64_t clusters) {
    return (2 * clusters + 15) / 16 * 16;
}

LIGHTMILL_BODY void list_word(const ListParameters& p, int frame, int word) {
    if (word >= p.plan.map_words()) return;
    const bool last = frame == p.frame_count - 1 && word == p.plan.map_words() - 1;
    const auto at = static_cast<std::int64_t>(frame) * p.plan.map_words() + word;
    auto bits = p.photons[at];
    if (bits == 0 && !last) return;
    std::uint64_t k = p.starts[at], total = 0;
    for (int f = 0; f < p.frame_count; ++f) {
        if (f < frame) k += p.counts[f];
        total += p.counts[f];
    }
    if (last) *p.total = total;
    if (total > p.capacity) return;
    // What lies between columns and cells is copied with them.
    for (auto i = 2 * total; last && i < cells_at(total); ++i) p.list[i] = 0;
    const int y = word / p.plan.words;
    const int first_x = word % p.plan.words * 32;
    const auto row = static_cast<std::uint32_t>(p.plan.row_of[y + p.plan.half_height] + p.plan.first_row);
    for (; bits != 0; bits &= bits - 1, ++k) {
        const int x = first_x + first_bit(bits);
        p.places[k] = (static_cast<std::uint64_t>(frame) << 40) | (static_cast<std::uint64_t>(y) << 20) |
                      static_cast<std::uint64_t>(x);
        p.list[k] = row;
        p.list[total + k] = static_cast<std::uint32_t>(p.plan.column_of[x + p.plan.half_width]);
    }
}

struct Place {
    std::int32_t frame, y, x;  // padded
};
LIGHTMILL_BODY Place place_of(std::uint64_t packed) {
    return {static_cast<std::int32_t>(packed >> 40), static_cast<std::int32_t>(packed >> 20 & 0xFFFFF),
            static_cast<std::int32_t>(packed & 0xFFFFF)};
}
// The rounded residual in row r, column c of the window around a place; 0 outside the module.
LIGHTMILL_BODY std::int32_t residual_at(const BandPlan& plan, const std::int32_t* residuals,
                                        const Place& place, int r, int c) {
    const int row = plan.row_of[place.y + r];
    const int column = plan.column_of[place.x + c];
    if (row < 0 || column < 0) return 0;
    return residuals[static_cast<std::int64_t>(place.frame) * plan.pixels + row * plan.columns + column];
}

// ---- compact: one frame's clusters into a region of fixed size, by one block (stream_finder.hpp) ---------

inline constexpr int k_compact_threads = 1024;
using CompactCount = MapCount<k_compact_threads, 32>;

// The region: count, room to 64 bytes, rows, columns (capacity each), cells.
struct CompactParameters {
    BandPlan plan;
    const std::uint32_t* photons;
    const std::int32_t* residuals;
    std::uint32_t capacity;  // clusters; those beyond it are counted, not written
    std::uint64_t* places;   // (capacity) scratch
    std::uint32_t* count;    // true
    std::uint32_t* rows;
    std::uint32_t* columns;
    std::int32_t* cells;
};

struct Compact {
    const CompactParameters& p;
    CompactCount map;

    LIGHTMILL_BODY Compact(const CompactParameters& parameters, std::uint32_t* shared)
        : p(parameters), map{parameters.photons, parameters.plan.map_words(), shared} {}

    LIGHTMILL_BODY void sum_groups(int thread) const {
        if (thread == 0) *p.count = map.sum_groups();
    }
    LIGHTMILL_BODY void list(int thread) const {
        auto k = map.before(thread);
        for (int i = map.first(thread); i < map.last(thread); ++i) {
            const int y = i / p.plan.words;
            for (auto bits = p.photons[i]; bits != 0; bits &= bits - 1, ++k) {
                if (k >= p.capacity) continue;
                const int x = i % p.plan.words * 32 + first_bit(bits);
                p.places[k] = (static_cast<std::uint64_t>(y) << 20) | static_cast<std::uint64_t>(x);
                p.rows[k] = static_cast<std::uint32_t>(p.plan.row_of[y + p.plan.half_height]);
                p.columns[k] = static_cast<std::uint32_t>(p.plan.column_of[x + p.plan.half_width]);
            }
        }
    }
    LIGHTMILL_BODY void cells(int thread) const {
        const std::uint32_t total = *p.count < p.capacity ? *p.count : p.capacity;
        const auto width = static_cast<std::uint32_t>(2 * p.plan.half_width + 1);
        const std::uint32_t cells = width * static_cast<std::uint32_t>(2 * p.plan.half_height + 1);
        for (auto i = static_cast<std::uint32_t>(thread); i < total * cells; i += k_compact_threads) {
            const auto cell = i % cells;
            p.cells[i] = residual_at(p.plan, p.residuals, place_of(p.places[i / cells]),
                                     static_cast<int>(cell / width), static_cast<int>(cell % width));
        }
    }
};

// ---- cells: the residuals of each cluster's window --------------------------------------------------------

inline constexpr int k_cells_threads = 256;
inline constexpr int k_cells_clusters = 32;  // that a block takes at a time

struct CellsParameters {
    BandPlan plan;
    const std::uint64_t* places;
    const unsigned long long* total;
    std::uint64_t capacity;
    const std::int32_t* residuals;  // (frames × plan.pixels)
    std::uint32_t* list;            // (clusters × cells) of it, at cells_at()
    bool narrow;                    // cells are int16
    // 0, or of the first value beyond int16 the complement of cluster · 2^32 + cell · 2^18 + value + 2^17.
    unsigned long long* misfit;
};

LIGHTMILL_BODY void keep_most(unsigned long long& most, unsigned long long value) {
#ifdef __CUDA_ARCH__
    atomicMax(&most, value);
#else
    if (value > most) most = value;
#endif
}

// Asked before any block begins: more than the list has room for are not written at all.
LIGHTMILL_BODY std::uint64_t clusters_to_copy(const CellsParameters& p) {
    return *p.total <= p.capacity ? *p.total : 0;
}

// Thread `thread` of the block that has the clusters from `group`·k_cells_clusters on.
LIGHTMILL_BODY void copy_cells(const CellsParameters& p, std::uint64_t group, int thread) {
    const std::uint64_t total = *p.total;
    auto* to = p.list + cells_at(total);
    const int width = 2 * p.plan.half_width + 1;
    const int cells = width * (2 * p.plan.half_height + 1);
    for (int i = thread; i < k_cells_clusters * cells; i += k_cells_threads) {
        const std::uint64_t k = group * k_cells_clusters + static_cast<std::uint64_t>(i / cells);
        if (k >= total) return;
        const int cell = i % cells;
        const auto value =
            residual_at(p.plan, p.residuals, place_of(p.places[k]), cell / width, cell % width);
        const auto at = k * static_cast<std::uint64_t>(cells) + static_cast<std::uint64_t>(cell);
        if (!p.narrow) {
            reinterpret_cast<std::int32_t*>(to)[at] = value;
            continue;
        }
        reinterpret_cast<std::int16_t*>(to)[at] = static_cast<std::int16_t>(value);
        if (value < INT16_MIN || value > INT16_MAX) {
            keep_most(*p.misfit, ~(k << 32 | static_cast<std::uint64_t>(cell) << 18 |
                                   static_cast<std::uint64_t>(value + (1 << 17))));
        }
    }
}

}  // namespace lightmill::clusters::detail

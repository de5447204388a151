#include "lightmill/vision/embed/embeddings.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "lightmill/base/build_info.hpp"
#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/base/hash.hpp"
#include "lightmill/vision/weights/safetensors.hpp"

namespace lightmill::vision {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view k_format = "lightmill embeddings 1";
// Room for the header at the front of the file, whose text is known at the end only.
constexpr std::int64_t k_header_bytes = 8192;

std::string journal_path(const std::string& path) {
    return partial_path(path) + ".journal";
}

// The digest of a result: every image's name, its number of tiles and their values, in order.
class Digest {
  public:
    void add(const std::string& name, std::int64_t tiles, std::span<const float> values) {
        sha_.update(name.c_str(), name.size() + 1);
        const auto count = static_cast<std::uint64_t>(tiles);
        sha_.update(&count, sizeof count);
        sha_.update(values);
    }
    [[nodiscard]] std::string hex() const { return sha_.hex(); }

  private:
    Sha256 sha_;
};

// Texts, each closed by a zero byte.
std::string joined(const std::vector<std::string>& texts) {
    std::string all;
    for (const auto& text : texts) all.append(text).push_back('\0');
    return all;
}

}  // namespace

struct EmbeddingWriter::State {
    std::string path, partial;
    EmbeddingIdentity identity;
    std::vector<std::string> names;
    std::vector<ImageResult> results;
    std::vector<float> pooled;
    std::int64_t tiles = 0, failed = 0;
    Digest digest;
    FileDescriptor data, journal;
    bool finished = false;

    [[nodiscard]] std::int64_t tile_values() const { return identity.rows * identity.columns; }

    // The journal's first line: what the partial file is of.
    [[nodiscard]] std::string head() const {
        Sha256 list;
        for (const auto& name : names) list.update(name.c_str(), name.size() + 1);
        return Json{{"format", k_format},
                    {"model", identity.model},
                    {"model_digest", identity.model_digest},
                    {"processor", identity.processor},
                    {"rows", identity.rows},
                    {"columns", identity.columns},
                    {"images", names.size()},
                    {"names", list.hex()}}
            .dump(-1, ' ', false, Json::error_handler_t::replace);
    }

    void take(const ImageResult& result, std::span<const float> values) {
        const auto vector = pool_rows(values, identity.columns);
        digest.add(names[results.size()], result.tiles, values);
        pooled.insert(pooled.end(), vector.begin(), vector.end());
        tiles += result.tiles;
        failed += result.tiles == 0 ? 1 : 0;
        results.push_back(result);
    }

    FileDescriptor open(const std::string& file, int flags) const {
        FileDescriptor opened(::open(file.c_str(), flags | O_CLOEXEC, 0644));
        if (!opened.is_open()) throw IoError(file, "open", errno, io_advice(errno));
        return opened;
    }

    // Reads what an earlier run wrote; true where there was one.
    bool resume() {
        std::ifstream lines(journal_path(path));
        std::string line;
        if (!std::getline(lines, line)) return false;
        if (line != head())
            throw Error(
                ErrorCode::state,
                fmt::format(
                    "an earlier run was of something else: {}, expected {}; go on with the same model, "
                    "images and options, or remove it",
                    line, head()),
                partial);
        data = open(partial, O_RDWR);
        const auto size = size_bytes(data, partial);
        std::int64_t at = k_header_bytes;
        std::string kept = line + "\n";
        std::vector<float> values;
        while (std::getline(lines, line) && results.size() < names.size()) {
            const auto entry = Json::parse(line, nullptr, false);
            // The last line of a run that was killed may be cut.
            if (entry.is_discarded() || !entry.contains("tiles") || !entry.contains("failure")) break;
            const ImageResult result{entry["tiles"].get<std::int64_t>(), entry["failure"].get<std::string>()};
            values.resize(static_cast<std::size_t>(result.tiles * tile_values()));
            const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(float));
            if (at + bytes > size) break;
            read_exact(data, partial, at, std::as_writable_bytes(std::span(values)));
            take(result, values);
            at += bytes;
            kept += line + "\n";
        }
        if (::ftruncate(data.get(), at) != 0) throw IoError(partial, "truncate", errno, io_advice(errno));
        if (::lseek(data.get(), at, SEEK_SET) < 0) throw IoError(partial, "seek", errno);
        journal = open(journal_path(path), O_WRONLY | O_TRUNC);
        write_all(journal, journal_path(path), std::as_bytes(std::span(kept)));
        return true;
    }
};

EmbeddingWriter::EmbeddingWriter(std::string path, EmbeddingIdentity identity, std::vector<std::string> names,
                                 bool overwrite, bool resume)
    : state_(std::make_unique<State>()) {
    require_writable(path, overwrite);
    auto& s = *state_;
    s.path = std::move(path);
    s.partial = partial_path(s.path);
    s.identity = std::move(identity);
    s.names = std::move(names);
    if (resume && s.resume()) return;
    s.data = s.open(s.partial, O_RDWR | O_CREAT | O_TRUNC);
    const std::vector<std::byte> room(static_cast<std::size_t>(k_header_bytes));
    write_all(s.data, s.partial, room);
    s.journal = s.open(journal_path(s.path), O_WRONLY | O_CREAT | O_TRUNC);
    const auto head = s.head() + "\n";
    write_all(s.journal, journal_path(s.path), std::as_bytes(std::span(head)));
}

EmbeddingWriter::EmbeddingWriter(EmbeddingWriter&&) noexcept = default;
EmbeddingWriter& EmbeddingWriter::operator=(EmbeddingWriter&&) noexcept = default;
EmbeddingWriter::~EmbeddingWriter() = default;

std::int64_t EmbeddingWriter::done() const noexcept {
    return static_cast<std::int64_t>(state_->results.size());
}
std::int64_t EmbeddingWriter::tiles() const noexcept {
    return state_->tiles;
}
std::int64_t EmbeddingWriter::failed() const noexcept {
    return state_->failed;
}

void EmbeddingWriter::add(const ImageResult& result, std::span<const float> values) {
    auto& s = *state_;
    write_all(s.data, s.partial, std::as_bytes(values));
    // Behind its data: a line in the journal says that they are there.
    const auto line = Json{{"tiles", result.tiles}, {"failure", result.failure}}.dump(
                          -1, ' ', false, Json::error_handler_t::replace) +
                      "\n";
    write_all(s.journal, journal_path(s.path), std::as_bytes(std::span(line)));
    s.take(result, values);
}

std::string EmbeddingWriter::finish() {
    auto& s = *state_;
    if (s.results.size() != s.names.size())
        throw Error(ErrorCode::state,
                    fmt::format("{} of {} images are there", s.results.size(), s.names.size()), s.path);
    std::vector<std::int64_t> offsets{0};
    std::vector<std::uint8_t> failed;
    std::vector<std::string> failures;
    for (const auto& result : s.results) {
        offsets.push_back(offsets.back() + result.tiles);
        failed.push_back(result.tiles == 0 ? 1 : 0);
        failures.push_back(result.failure);
    }
    const auto names = joined(s.names), reasons = joined(failures);
    const auto images = static_cast<std::int64_t>(s.names.size());
    std::vector<TensorInfo> infos;
    std::int64_t at = 0;
    const auto add = [&](const std::string& name, Dtype dtype, std::vector<std::int64_t> shape) {
        const auto bytes = element_count(shape) * size_bytes(dtype);
        infos.push_back({name, dtype, std::move(shape), at, at + bytes});
        at += bytes;
    };
    add("embeddings", Dtype::f32, {s.tiles, s.identity.rows, s.identity.columns});
    add("pooled", Dtype::f32, {images, s.identity.columns});
    // 64-bit values stand at a multiple of eight bytes.
    if (at % 8 != 0) add("padding", Dtype::u8, {8 - at % 8});
    const auto padding = infos.back().name == "padding" ? infos.back().end - infos.back().begin : 0;
    add("offsets", Dtype::i64, {images + 1});
    add("names", Dtype::u8, {static_cast<std::int64_t>(names.size())});
    add("failed", Dtype::u8, {images});
    add("failures", Dtype::u8, {static_cast<std::int64_t>(reasons.size())});
    const auto digest = s.digest.hex();
    const Metadata metadata{{"format", std::string(k_format)},
                            {"model", s.identity.model},
                            {"model_digest", s.identity.model_digest},
                            {"processor", s.identity.processor},
                            {"digest", digest},
                            {"lightmill_version", std::string(version())}};
    const auto header = safetensors_header(infos, metadata, k_header_bytes);
    write_all(s.data, s.partial, std::as_bytes(std::span(s.pooled)));
    const std::string gap(static_cast<std::size_t>(padding), '\0');
    write_all(s.data, s.partial, std::as_bytes(std::span(gap)));
    write_all(s.data, s.partial, std::as_bytes(std::span(offsets)));
    write_all(s.data, s.partial, std::as_bytes(std::span(names)));
    write_all(s.data, s.partial, std::as_bytes(std::span(failed)));
    write_all(s.data, s.partial, std::as_bytes(std::span(reasons)));
    if (::lseek(s.data.get(), 0, SEEK_SET) < 0) throw IoError(s.partial, "seek", errno);
    write_all(s.data, s.partial, std::as_bytes(std::span(header)));
    s.data.close();
    publish(s.path);
    s.journal.close();
    std::error_code ignored;  // what is left of it harms nobody
    std::filesystem::remove(journal_path(s.path), ignored);
    return digest;
}

EmbeddingIndex read_embeddings(const std::string& path) {
    const SafetensorsFile file(path);
    EmbeddingIndex index;
    std::string format;
    for (const auto& [key, value] : file.metadata()) {
        if (key == "format") format = value;
        if (key == "model") index.identity.model = value;
        if (key == "model_digest") index.identity.model_digest = value;
        if (key == "processor") index.identity.processor = value;
        if (key == "digest") index.digest = value;
    }
    if (format != k_format)
        throw FormatError(path, -1,
                          fmt::format("format is {}, expected {}: make the file with `lightmill embed`",
                                      format.empty() ? "not stated" : format, k_format));
    const auto tensor = [&](const std::string& name, Dtype dtype, std::size_t rank) -> const TensorInfo& {
        const auto* info = file.find(name);
        if (info == nullptr || info->dtype != dtype || info->shape.size() != rank)
            throw FormatError(
                path, -1,
                fmt::format("tensor {} of {} and rank {} is not there", name, vision::name(dtype), rank));
        return *info;
    };
    const auto& embeddings = tensor("embeddings", Dtype::f32, 3);
    index.identity.rows = embeddings.shape[1];
    index.identity.columns = embeddings.shape[2];
    const auto& pooled = tensor("pooled", Dtype::f32, 2);
    const auto images = pooled.shape[0];
    index.pooled.resize(static_cast<std::size_t>(element_count(pooled.shape)));
    file.read_bytes(pooled, 0, std::as_writable_bytes(std::span(index.pooled)));
    const auto& offsets = tensor("offsets", Dtype::i64, 1);
    index.offsets.resize(static_cast<std::size_t>(offsets.shape[0]));
    file.read_bytes(offsets, 0, std::as_writable_bytes(std::span(index.offsets)));
    const auto texts = [&](const std::string& name) {
        const auto& info = tensor(name, Dtype::u8, 1);
        std::string all(static_cast<std::size_t>(info.shape[0]), '\0');
        file.read_bytes(info, 0, std::as_writable_bytes(std::span(all)));
        std::vector<std::string> parts;
        for (std::size_t at = 0; at < all.size();) {
            const auto end = std::min(all.find('\0', at), all.size());
            parts.push_back(all.substr(at, end - at));
            at = end + 1;
        }
        return parts;
    };
    index.names = texts("names");
    index.failures = texts("failures");
    const auto n = static_cast<std::size_t>(images);
    if (index.names.size() != n || index.failures.size() != n || index.offsets.size() != n + 1 ||
        pooled.shape[1] != index.identity.columns || index.offsets.front() != 0 ||
        index.offsets.back() != embeddings.shape[0] ||
        !std::is_sorted(index.offsets.begin(), index.offsets.end()))
        throw FormatError(
            path, -1,
            fmt::format("{} pooled vectors, {} names, {} offsets and {} tiles do not belong together", images,
                        index.names.size(), index.offsets.size(), embeddings.shape[0]));
    return index;
}

std::vector<float> pool_rows(std::span<const float> values, std::int64_t columns) {
    const auto n = static_cast<std::size_t>(columns);
    std::vector<double> sum(n, 0.0);
    for (std::size_t i = 0; i < values.size(); ++i) sum[i % n] += static_cast<double>(values[i]);
    std::vector<float> mean(n, 0.0F);
    const std::size_t whole_rows = values.size() / n;
    const auto rows = static_cast<double>(whole_rows);
    if (!values.empty())
        for (std::size_t i = 0; i < n; ++i) mean[i] = static_cast<float>(sum[i] / rows);
    return mean;
}

std::vector<Match> nearest(const EmbeddingIndex& index, std::span<const float> pooled, std::size_t count) {
    const auto n = pooled.size();
    const auto dot = [n](const float* a, const float* b) {
        double sum = 0;
        for (std::size_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
        return sum;
    };
    const double own = std::sqrt(dot(pooled.data(), pooled.data()));
    std::vector<Match> matches;
    for (std::size_t i = 0; i < index.names.size(); ++i) {
        if (index.offsets[i] == index.offsets[i + 1]) continue;
        const float* const other = index.pooled.data() + i * n;
        const double length = own * std::sqrt(dot(other, other));
        matches.push_back({i, length > 0 ? dot(pooled.data(), other) / length : 0});
    }
    count = std::min(count, matches.size());
    std::partial_sort(matches.begin(), matches.begin() + static_cast<std::ptrdiff_t>(count), matches.end(),
                      [](const Match& a, const Match& b) {
                          return a.cosine != b.cosine ? a.cosine > b.cosine : a.image < b.image;
                      });
    matches.resize(count);
    return matches;
}

}  // namespace lightmill::vision

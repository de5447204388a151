#include "lightmill/frames/truth.hpp"

#include <fmt/format.h>

#include <cstring>

#include "lightmill/base/error.hpp"
#include "lightmill/frames/npy_header_internal.hpp"

namespace lightmill::frames {
namespace {
constexpr const char* k_type = "[('frame', '<u8'), ('x', '<f8'), ('y', '<f8'), ('energy', '<f8')]";
}

std::string truth_path(const std::string& path) {
    return path + ".truth.npy";
}

TruthWriter::TruthWriter(const std::string& path, bool overwrite)
    : path_(path), file_(detail::create_npy(path, overwrite)) {}

TruthWriter::~TruthWriter() {
    detail::abandon_npy(file_, path_);
}

void TruthWriter::add(std::uint64_t frame, std::span<const Photon> photons) {
    records_.clear();
    for (const auto& photon : photons) records_.push_back({frame, photon});
    write_all(file_, partial_path(path_), std::as_bytes(std::span(records_)));
    photons_ += photons.size();
}

void TruthWriter::finish() {
    const std::int64_t shape[] = {static_cast<std::int64_t>(photons_)};
    detail::finish_npy(file_, path_, detail::npy_header(k_type, shape));
}

std::vector<TruthRecord> read_truth(const std::string& path) {
    const MappedFile file(path);
    const auto header = detail::parse_npy_header(file.bytes(), path);
    const auto bytes = file.bytes().subspan(header.size_bytes);
    if (header.type != k_type || header.fortran_order || header.shape.size() != 1) {
        throw FormatError(path, 10,
                          fmt::format("found an array of {} with {} dimensions, expected one dimension of {}",
                                      header.type, header.shape.size(), k_type));
    }
    std::vector<TruthRecord> records(bytes.size() / sizeof(TruthRecord));
    if (static_cast<std::uint64_t>(header.shape[0]) != records.size() ||
        bytes.size() % sizeof(TruthRecord) != 0) {
        throw FormatError(path, static_cast<std::int64_t>(header.size_bytes),
                          fmt::format("found {} bytes, expected {} photons of {} bytes", bytes.size(),
                                      header.shape[0], sizeof(TruthRecord)));
    }
    if (!records.empty()) std::memcpy(records.data(), bytes.data(), bytes.size());
    return records;
}

}  // namespace lightmill::frames

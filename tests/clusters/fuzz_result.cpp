// A good result file in which values, extents, types and whole datasets are changed at will, always by
// way of the HDF5 library: what is tested is our reader, not the library's.

#include <hdf5.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "lightmill/base/error.hpp"
#include "lightmill/base/hdf5_internal.hpp"
#include "lightmill/clusters/run/run.hpp"
#include "lightmill/clusters/run/verify.hpp"
#include "lightmill/clusters/sink/pedestal_file.hpp"
#include "lightmill/clusters/sink/result_file.hpp"
#include "tests/clusters/run_scene.hpp"

using namespace lightmill;

namespace {

std::string temporary(const char* name) {
    return (std::filesystem::temp_directory_path() / ("lightmill_fuzz_" + std::to_string(::getpid()) + name))
        .string();
}

std::string good_file() {
    auto path = temporary("_good.h5");
    frames::SimulationOptions scene;
    scene.rows = 6;
    scene.columns = 9;
    scene.photons = 2;
    const auto dark = frames::open_simulated(scene, frames::FrameKind::dark, 30, 1);
    const auto data = frames::open_simulated(scene, frames::FrameKind::data, 20, 1);
    clusters::RunOptions options;
    options.output.output = path;
    options.output.overwrite = true;
    options.speed.threads = 1;
    options.provenance = {{"roi", "none"}};
    static_cast<void>(clusters::run(*data, clusters::train(*dark, {}, {}, {}), options));
    return path;
}

class Input {
  public:
    Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
    [[nodiscard]] bool empty() const { return at_ >= size_; }
    std::uint8_t byte() { return empty() ? std::uint8_t{0} : data_[at_++]; }
    std::uint64_t number() {  // of any size, small ones often
        std::uint64_t value = 0;
        for (auto n = byte() % 9; n > 0; --n) value = value << 8 | byte();
        return value;
    }

  private:
    const std::uint8_t* data_;
    std::size_t size_, at_ = 0;
};

constexpr std::array k_datasets{"clusters/frame_number",
                                "clusters/offset",
                                "clusters/hash",
                                "clusters/row",
                                "clusters/column",
                                "clusters/data",
                                "pedestal/offset",
                                "pedestal/mean",
                                "pedestal/variance",
                                "pedestal/state",
                                "pedestal/seen",
                                "pedestal/sum",
                                "model/mean",
                                "model/variance",
                                "hit_map",
                                "negatives",
                                "spectrum/counts",
                                "source/files",
                                "anomalies/missing"};
constexpr std::array k_attributes{
    "format",        "format_version",  "version",      "complete",       "frames",         "clusters",
    "digest",        "model_digest",    "backend",      "missing_frames", "window",         "n_sigma",
    "epoch",         "memory",          "rule",         "streams",        "ties",           "payload",
    "spectrum_bins", "spectrum_min",    "spectrum_max", "underflow",      "absent_value",   "gain_bits",
    "min_noise",     "pedestal_frames", "module_rows",  "name",           "missing_listed", "roi"};
constexpr std::array k_groups{"/",        "clusters",  "pedestal",   "source",
                              "spectrum", "anomalies", "provenance", "model"};

void change(hid_t file, Input& in) {
    const auto kind = in.byte() % 5;
    const auto name = k_datasets[in.byte() % k_datasets.size()];
    if (kind == 0) {  // one value
        const hdf5::Id set(H5Dopen2(file, name, H5P_DEFAULT));
        const hdf5::Id space(H5Dget_space(set.get()));
        std::array<hsize_t, 4> at{};
        for (auto& a : at) a = in.byte() % 64;
        if (H5Sselect_elements(space.get(), H5S_SELECT_SET, 1, at.data()) < 0) return;
        const std::uint64_t value = in.number();
        const hsize_t one = 1;
        const hdf5::Id memory(H5Screate_simple(1, &one, nullptr));
        H5Dwrite(set.get(), (value & 1) != 0 ? H5T_NATIVE_UINT64 : H5T_NATIVE_INT64, memory.get(),
                 space.get(), H5P_DEFAULT, &value);
    } else if (kind == 1) {  // another length
        const hdf5::Id set(H5Dopen2(file, name, H5P_DEFAULT));
        const hdf5::Id space(H5Dget_space(set.get()));
        std::array<hsize_t, 32> extents{};
        H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr);
        extents[0] = in.number() >> 24;
        H5Dset_extent(set.get(), extents.data());
    } else if (kind == 2) {  // gone, or of another type and shape
        H5Ldelete(file, name, H5P_DEFAULT);
        const hsize_t rank = in.byte() % 4;
        std::array<hsize_t, 4> extents{};
        for (auto& e : extents) e = in.byte() % 10;
        const hdf5::Id space(H5Screate_simple(static_cast<int>(rank), extents.data(), nullptr));
        const std::array types{H5T_NATIVE_UINT64, H5T_NATIVE_INT32, H5T_NATIVE_FLOAT, H5T_C_S1,
                               H5T_NATIVE_UINT8};
        const hdf5::Id set(H5Dcreate2(file, name, types[in.byte() % types.size()], space.get(), H5P_DEFAULT,
                                      H5P_DEFAULT, H5P_DEFAULT));
    } else {  // an attribute
        const hdf5::Id group(H5Gopen2(file, k_groups[in.byte() % k_groups.size()], H5P_DEFAULT));
        const std::string attribute = k_attributes[in.byte() % k_attributes.size()];
        if (kind == 3) {
            const hdf5::Id there(H5Aopen(group.get(), attribute.c_str(), H5P_DEFAULT));
            const std::uint64_t value = in.number();
            H5Awrite(there.get(), H5T_NATIVE_UINT64, &value);
            return;
        }
        H5Adelete(group.get(), attribute.c_str());
        const auto type = in.byte() % 4;
        try {
            if (type == 0)
                hdf5::write_attribute(group.get(), attribute, static_cast<double>(in.number()) / 8, "");
            if (type == 1) hdf5::write_attribute(group.get(), attribute, in.number(), "");
            if (type == 2)
                hdf5::write_text(group.get(), attribute,
                                 std::to_string(in.byte()) + "x" + std::to_string(in.byte()), "");
            if (type == 3)
                hdf5::write_attribute(group.get(), attribute, std::vector<std::int64_t>(in.byte() % 4, 3),
                                      "");
        } catch (const Error&) {
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const auto good = good_file();
    static const auto path = temporary("_changed.h5");
    std::filesystem::copy_file(good, path, std::filesystem::copy_options::overwrite_existing);
    {
        const hdf5::Session session;
        const hdf5::Id file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
        Input in(data, size);
        for (int i = 0; i < 8 && !in.empty(); ++i) change(file.get(), in);
        H5Eclear2(H5E_DEFAULT);
    }
    try {
        const clusters::ResultReader reader(path);
        std::uint64_t clusters = 0;
        for (std::uint64_t at = 0; at < reader.info().frames;) {
            const auto block = reader.read_block(at, 64);
            clusters += block.rows.size();
            at += block.numbers.size();
        }
        if (clusters != reader.info().clusters) std::abort();
    } catch (const Error&) {  // refused: the other right answer
    }
    try {
        static_cast<void>(clusters::verify(path));
    } catch (const Error&) {
    }
    try {
        static_cast<void>(clusters::load_pedestal(path));
    } catch (const Error&) {
    }
    return 0;
}

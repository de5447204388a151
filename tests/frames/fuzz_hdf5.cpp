// HDF5 files that the library wrote, of any content: refused, or read to the last pixel. (Bytes that
// the library did not write would test the library, which is known not to be hardened.)

#include <hdf5.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "lightmill/base/error.hpp"
#include "lightmill/base/hdf5_internal.hpp"
#include "lightmill/frames/hdf5.hpp"

using namespace lightmill;
using hdf5::Extents;
using hdf5::Id;

namespace {

class Choices {
  public:
    Choices(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
    [[nodiscard]] bool any() const { return at_ < size_; }
    std::size_t below(std::size_t limit) { return (at_ < size_ ? data_[at_++] : 0U) % limit; }

  private:
    const std::uint8_t* data_;
    std::size_t size_, at_ = 0;
};

constexpr std::array<const char*, 8> k_names{"/entry/data/data",
                                             "/entry/data/frame number",
                                             "/entry/instrument/detector/Detector Type",
                                             "/a",
                                             "/entry/b",
                                             "/entry/data/c",
                                             "/d/data",
                                             "/d/frame number"};
constexpr std::array<const char*, 5> k_groups{"/", "/entry", "/entry/data", "/d", "/entry/instrument"};
constexpr std::array<const char*, 9> k_texts{"entry", "data", "d", "c", "", "/", "..", "../a", "data/data"};

Id text_type(Choices& choices, std::size_t size) {
    Id type(H5Tcopy(H5T_C_S1));
    H5Tset_size(type.get(), choices.below(2) == 0 ? H5T_VARIABLE : std::max<std::size_t>(size, 1));
    return type;
}

void add_dataset(hid_t file, Choices& choices, const std::string& path) {
    const auto* name = k_names[choices.below(k_names.size())];
    Extents extents(choices.below(5));
    if (choices.below(2) == 0) extents.resize(3);
    constexpr std::array<hsize_t, 8> k_extents{0, 1, 2, 3, 5, 8, hsize_t{1} << 33, hsize_t{1} << 62};
    hsize_t pixels = 1;
    for (auto& extent : extents) {
        extent = k_extents[choices.below(choices.below(8) == 0 ? 8 : 6)];
        pixels = pixels > 1'000'000 ? pixels : pixels * std::min<hsize_t>(extent, 1'000'000'000);
    }
    const Id text = text_type(choices, 8);
    const std::array<hid_t, 8> types{H5T_STD_U16LE, H5T_STD_U8LE,  H5T_STD_U16BE,  H5T_STD_U64LE,
                                     H5T_STD_I16LE, H5T_STD_U32LE, H5T_IEEE_F32LE, text.get()};
    const auto type = types[choices.below(types.size())];
    const Id links(H5Pcreate(H5P_LINK_CREATE)), properties(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_create_intermediate_group(links.get(), 1);
    const auto rank = static_cast<int>(extents.size());
    const Id space(rank == 0 ? H5Screate(choices.below(2) == 0 ? H5S_SCALAR : H5S_NULL)
                             : H5Screate_simple(rank, extents.data(), nullptr));
    const auto layout = choices.below(4);
    if (layout == 1 || layout == 2 || pixels > 1'000'000) {
        const Extents chunk(extents.size(), 1 + choices.below(4));
        H5Pset_chunk(properties.get(), rank, chunk.data());
        if (layout == 2) H5Pset_deflate(properties.get(), 1);
    } else if (layout == 3) {
        const Extents source(1 + choices.below(3), 1 + choices.below(6));
        const Id all(H5Screate_simple(static_cast<int>(source.size()), source.data(), nullptr));
        constexpr std::array<const char*, 4> k_files{".", "none.h5", "part_%b.h5", ""};
        const auto file_choice = choices.below(5);
        H5Pset_virtual(properties.get(), space.get(), file_choice == 4 ? path.c_str() : k_files[file_choice],
                       k_names[choices.below(k_names.size())], all.get());
    }
    if (choices.below(4) == 0) {
        const std::uint16_t fill = 65535;
        H5Pset_fill_value(properties.get(), H5T_NATIVE_UINT16, &fill);
    }
    const Id dataset(H5Dcreate2(file, name, type, space.get(), links.get(), properties.get(), H5P_DEFAULT));
    if (dataset && layout != 3 && pixels <= 1000 && type != text.get()) {
        std::vector<std::uint16_t> values(pixels);
        for (auto& value : values) value = static_cast<std::uint16_t>(choices.below(256) * 257);
        H5Dwrite(dataset.get(), H5T_NATIVE_UINT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
    }
}

void add_attribute(hid_t file, Choices& choices) {
    const Id object(H5Oopen(file,
                            choices.below(3) == 0 ? k_names[choices.below(k_names.size())]
                                                  : k_groups[choices.below(k_groups.size())],
                            H5P_DEFAULT));
    if (!object) return;
    const std::string value = k_texts[choices.below(k_texts.size())];
    const Id type = text_type(choices, value.size());
    const hsize_t two = 2;
    const Id space(choices.below(4) == 0 ? H5Screate_simple(1, &two, nullptr) : H5Screate(H5S_SCALAR));
    const Id attribute(H5Acreate2(object.get(), choices.below(2) == 0 ? "default" : "signal", type.get(),
                                  space.get(), H5P_DEFAULT, H5P_DEFAULT));
    if (!attribute || choices.below(8) == 0) return;
    const std::array<const char*, 2> pointers{value.c_str(), value.c_str()};
    const std::string padded = value + std::string(2 * value.size() + 2, '\0');
    H5Awrite(attribute.get(), type.get(),
             H5Tis_variable_str(type.get()) > 0 ? static_cast<const void*>(pointers.data()) : padded.data());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const auto path =
        (std::filesystem::temp_directory_path() / ("lightmill_fuzz_" + std::to_string(::getpid()) + ".h5"))
            .string();
    Choices choices(data, size);
    {
        const hdf5::Session session;
        const Id file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
        while (choices.any()) {
            switch (choices.below(6)) {
                case 0:
                case 1:
                case 2:
                    add_dataset(file.get(), choices, path);
                    break;
                case 3:
                case 4:
                    add_attribute(file.get(), choices);
                    break;
                default:
                    H5Lcreate_soft(k_names[choices.below(k_names.size())], file.get(),
                                   k_names[choices.below(k_names.size())], H5P_DEFAULT, H5P_DEFAULT);
            }
            H5Eclear2(H5E_DEFAULT);
        }
    }
    for (const auto* name : {"", "/a", "/d/data"}) {
        try {
            const auto source = frames::open_hdf5(path, name);
            const auto& d = source->description();
            const auto pixels = static_cast<std::uint64_t>(d.shape.pixels());
            if (pixels == 0) std::abort();
            frames::Storage storage;
            const auto count = std::min<std::uint64_t>(d.count, pixels < 1'000'000 ? 4 : 0);
            const auto block = source->read(0, count, storage);
            std::uint64_t sum = 0;
            for (auto pixel : block.pixels.flat()) sum += pixel;
            if (block.infos.size() != count || sum > 65535 * pixels * (count + 1)) std::abort();
            (void)source->anomalies();
        } catch (const Error&) {  // refused: the other right answer
        }
    }
    return 0;
}

#pragma once
// What lies where in result and pedestal files. docs/formats/result.md and pedestal.md say it in words.

#include <cstdint>
#include <string>

#include "lightmill/base/hdf5_internal.hpp"
#include "lightmill/clusters/find/find.hpp"
#include "lightmill/clusters/pedestal/pedestal.hpp"
#include "lightmill/clusters/sink/result_writer.hpp"
#include "lightmill/frames/source.hpp"

namespace lightmill::clusters::detail {

inline constexpr std::string_view k_result_format = "lightmill clusters";
inline constexpr std::string_view k_pedestal_format = "lightmill pedestal";
inline constexpr std::int64_t k_format_version = 1;

// Opens for reading: also a file whose writer still lives or was killed (`unfinished` is set then).
[[nodiscard]] hdf5::Id open_file(const std::string& path, bool* unfinished = nullptr);
// The attribute "format" of the root; empty where there is none.
[[nodiscard]] std::string format_of(hid_t file, const std::string& path);
// Throws FormatError where the file is none of this format and version.
void require_format(hid_t file, std::string_view format, const std::string& path);

void write_pedestal(hid_t parent, const Pedestal& pedestal, const std::string& path);
[[nodiscard]] Pedestal read_pedestal(hid_t parent, const std::string& path);

void write_find_options(hid_t group, const FindOptions& options, const std::string& path);
[[nodiscard]] FindOptions read_find_options(hid_t group, const std::string& path);

// Strings of any number as one dataset, padded with NUL.
void write_texts(hid_t parent, const std::string& name, const std::vector<std::string>& texts,
                 const std::string& path);
[[nodiscard]] std::vector<std::string> read_texts(hid_t parent, const std::string& name,
                                                  const std::string& path);

// Makes the places for a state, all of fixed size, and fills them later: no more than bytes change then,
// never the structure of the file.
void create_state(hid_t file, const Pedestal& pedestal, const FindOptions& find,
                  const SpectrumOptions& spectrum, const std::string& path);
void store_state(hid_t file, const ResultPosition& position, bool complete, const std::string& path);
[[nodiscard]] frames::Anomalies read_anomalies(hid_t file, const std::string& path);
[[nodiscard]] ResultPosition load_state(hid_t file, const Pedestal& pedestal, const FindOptions& find,
                                        const SpectrumOptions& spectrum, const std::string& path);

}  // namespace lightmill::clusters::detail

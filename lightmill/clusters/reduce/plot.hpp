#pragma once
// Spectrum and hit map as PNG pictures.

#include <string>

#include "lightmill/clusters/reduce/hit_map.hpp"
#include "lightmill/clusters/reduce/spectrum.hpp"

namespace lightmill::clusters {

struct PlotOptions {
    std::string title = {};  // empty: what is shown, and how many clusters
    bool log_y = false;      // of a spectrum: counts on a logarithmic axis
    int width = 960;         // pixels of the picture
    int height = 640;
};

// Write a PNG file that appears whole or not at all. Throw IoError; OptionError for a size that is not
// allowed.
void plot_spectrum(const Spectrum& spectrum, const std::string& path, const PlotOptions& options = {});
void plot_hit_map(const HitMap& hit_map, const std::string& path, const PlotOptions& options = {});

}  // namespace lightmill::clusters

#pragma once
// Images to embeddings on one pool: decoding, tiles and the tower overlap, results come in the images' order.

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "lightmill/base/progress.hpp"
#include "lightmill/vision/embed/embeddings.hpp"
#include "lightmill/vision/embed/model.hpp"
#include "lightmill/vision/image/decode.hpp"

namespace lightmill::vision {

struct EmbedHooks {
    // Called in the images' order, by the calling thread. values: tiles × output_rows × output; empty with a
    // failure.
    std::function<void(std::size_t image, const ImageResult& result, std::span<const float> values)> result;
    std::function<void(const Progress& images)> progress;
    std::stop_token stop;  // begun images are finished, others are not begun
};

// Embeds images first … of `paths`. An image that cannot be read is a result with a failure and stops
// nothing; other errors end the run. Returns the number of the first image that was not done: paths.size()
// unless stopped. Speed alone: workers.
std::size_t embed(const Model& model, const DecodeOptions& decoding, const std::vector<std::string>& paths,
                  std::size_t first, int workers, const EmbedHooks& hooks);

// What a result depends on beside the model: processor and decoding, as EmbeddingIdentity::processor has
// them.
[[nodiscard]] EmbeddingIdentity identity_of(const Model& model, const DecodeOptions& decoding);

}  // namespace lightmill::vision

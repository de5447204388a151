#pragma once
// Files of embeddings (docs/formats/embeddings.md): a safetensors file that grows as OUT.partial, image by
// image, and gets its name when it is whole.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lightmill::vision {

// What embeddings must share to be compared.
struct EmbeddingIdentity {
    std::string model;                   // its name
    std::string model_digest;            // Tower::digest
    std::string processor;               // processor_text, and how images were decoded
    std::int64_t rows = 0, columns = 0;  // of a tile's embedding
    friend bool operator==(const EmbeddingIdentity&, const EmbeddingIdentity&) = default;
};

// One image's result.
struct ImageResult {
    std::int64_t tiles = 0;  // 0: it failed
    std::string failure;     // why; empty where it did not
};

class EmbeddingWriter {
  public:
    // names: of all images, in the order in which they will come. resume: goes on with OUT.partial where
    // there is one; throws Error(state) where it is of another model, processor or list of images.
    EmbeddingWriter(std::string path, EmbeddingIdentity identity, std::vector<std::string> names,
                    bool overwrite, bool resume);
    EmbeddingWriter(EmbeddingWriter&&) noexcept;
    EmbeddingWriter& operator=(EmbeddingWriter&&) noexcept;
    ~EmbeddingWriter();  // leaves OUT.partial where finish() was not called

    // Images that are already there.
    [[nodiscard]] std::int64_t done() const noexcept;
    [[nodiscard]] std::int64_t tiles() const noexcept;
    [[nodiscard]] std::int64_t failed() const noexcept;
    // The next image: tiles × rows × columns values.
    void add(const ImageResult& result, std::span<const float> values);
    // All images must be there. Returns the digest.
    std::string finish();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// A whole file, its pooled vectors and names in memory.
struct EmbeddingIndex {
    EmbeddingIdentity identity;
    std::string digest;
    std::vector<std::string> names;
    std::vector<std::string> failures;  // empty text where the image did not fail
    std::vector<std::int64_t> offsets;  // tiles before each image, then all
    std::vector<float> pooled;  // (images, columns): the mean of an image's rows; zeros where it failed
};
// Throws IoError, FormatError.
[[nodiscard]] EmbeddingIndex read_embeddings(const std::string& path);

// The mean of `rows` rows, added in order in binary64.
[[nodiscard]] std::vector<float> pool_rows(std::span<const float> values, std::int64_t columns);

struct Match {
    std::size_t image = 0;
    double cosine = 0;
};
// The `count` images nearest to a pooled vector, best first, ties by order; failed ones are left out.
[[nodiscard]] std::vector<Match> nearest(const EmbeddingIndex& index, std::span<const float> pooled,
                                         std::size_t count);

}  // namespace lightmill::vision

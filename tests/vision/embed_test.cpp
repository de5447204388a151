// Images to files of embeddings: order, failures, resuming, searching; the same bytes however the work is
// shared.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/vision/embed/embed.hpp"
#include "lightmill/vision/weights/safetensors.hpp"
#include "lightmill/vision/weights/seeded.hpp"

namespace lightmill::vision {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Embed : public testing::Test {
  protected:
    void SetUp() override {
        fs::create_directories(folder_ / "model");
        const auto config = known_config("tiny");
        write_seeded(config, SeededKind::plain, 1, path("model/model.safetensors"), false);
        write_file(path("model/config.json"), config_json(config));
        for (int i = 0; i < 5; ++i)
            images_.push_back(picture(fmt::format("{}.png", i), 40 + 30 * i, 100 - 10 * i, i));
        std::ofstream(images_[2]) << "not a picture";
    }
    void TearDown() override { fs::remove_all(folder_); }
    std::string path(const std::string& name) const { return (folder_ / name).string(); }

    std::string picture(const std::string& name, int columns, int rows, int shade) const {
        std::vector<std::uint8_t> pixels(static_cast<std::size_t>(columns * rows * 3));
        for (std::size_t i = 0; i < pixels.size(); ++i)
            pixels[i] = static_cast<std::uint8_t>(i * static_cast<std::size_t>(shade + 3) / 11);
        png_image image{};
        image.version = PNG_IMAGE_VERSION;
        image.width = static_cast<png_uint_32>(columns);
        image.height = static_cast<png_uint_32>(rows);
        image.format = PNG_FORMAT_RGB;
        EXPECT_EQ(png_image_write_to_file(&image, path(name).c_str(), 0, pixels.data(), 0, nullptr), 1);
        return path(name);
    }
    Model model() const { return load_model(files_of_folder(path("model")), "auto", 2); }

    // Embeds all images into a file; stops after `last` of them where that is not 0.
    std::string write(const Model& m, const std::string& name, int workers, bool resume = false,
                      std::size_t last = 0) const {
        EmbeddingWriter writer(path(name), identity_of(m, {}), images_, true, resume);
        std::stop_source stop;
        EmbedHooks hooks;
        hooks.stop = stop.get_token();
        hooks.result = [&](std::size_t image, const ImageResult& result, std::span<const float> values) {
            EXPECT_EQ(static_cast<std::int64_t>(image), writer.done());
            writer.add(result, values);
            if (last != 0 && image + 1 >= last) stop.request_stop();
        };
        const auto done = embed(m, {}, images_, static_cast<std::size_t>(writer.done()), workers, hooks);
        EXPECT_EQ(static_cast<std::int64_t>(done), writer.done());
        return done == images_.size() ? writer.finish() : std::string();
    }

    fs::path folder_ = fs::temp_directory_path() / fmt::format("lightmill_embed_{}", ::getpid());
    std::vector<std::string> images_;
};

TEST_F(Embed, TheSameBytesForAnyNumberOfWorkersAndABadImageIsNamed) {
    const auto m = model();
    const auto digest = write(m, "1.safetensors", 1);
    const auto bytes = read_file(path("1.safetensors"));
    for (const int workers : {2, 3, 7}) {
        EXPECT_EQ(write(m, "n.safetensors", workers), digest);
        EXPECT_EQ(read_file(path("n.safetensors")), bytes) << workers;
    }
    const auto index = read_embeddings(path("1.safetensors"));
    EXPECT_EQ(index.names, images_);
    EXPECT_EQ(index.digest, digest);
    EXPECT_EQ(index.identity, identity_of(m, {}));
    EXPECT_EQ(index.offsets[3], index.offsets[2]);  // the bad one has no tiles
    EXPECT_THAT(index.failures[2], HasSubstr("2.png"));
    EXPECT_EQ(index.failures[1], "");
    EXPECT_FALSE(fs::exists(path("1.safetensors.partial")));
    EXPECT_FALSE(fs::exists(path("1.safetensors.partial.journal")));
    // The values themselves: those of the engine alone.
    const SafetensorsFile file(path("1.safetensors"));
    const auto& embeddings = *file.find("embeddings");
    EXPECT_EQ(embeddings.shape, (std::vector<std::int64_t>{index.offsets.back(), 4, 48}));
    const auto tiles = preprocess(decode_file(images_[1]).view(), m.processor);
    ASSERT_EQ(tiles.view().extent(0), index.offsets[2] - index.offsets[1]);
    std::vector<float> expected(static_cast<std::size_t>(tiles.view().extent(0) * 4 * 48)),
        found(expected.size());
    Pool pool(1);
    Engine(m.tower, normalisation(m.processor), pool).run(tiles.view(), expected.data());
    file.read_bytes(embeddings, index.offsets[1] * 4 * 48 * 4, std::as_writable_bytes(std::span(found)));
    EXPECT_EQ(found, expected);
}

TEST_F(Embed, AStoppedRunGoesOnToTheSameBytes) {
    const auto m = model();
    const auto digest = write(m, "whole.safetensors", 2);
    // One worker and a stop at the first image: nothing that is on its way can be the rest of the run.
    EXPECT_EQ(write(m, "parts.safetensors", 1, false, 1), "");
    EXPECT_TRUE(fs::exists(path("parts.safetensors.partial")));
    EXPECT_FALSE(fs::exists(path("parts.safetensors")));
    // A run that was killed may leave a cut line, and data that no line speaks of.
    std::ofstream(path("parts.safetensors.partial.journal"), std::ios::app) << "{\"tiles\":17";
    std::ofstream(path("parts.safetensors.partial"), std::ios::app) << "half a tile";
    EXPECT_EQ(write(m, "parts.safetensors", 2, true), digest);
    EXPECT_EQ(read_file(path("parts.safetensors")), read_file(path("whole.safetensors")));
}

TEST_F(Embed, ARunOfSomethingElseIsNotGoneOnWith) {
    const auto m = model();
    EXPECT_EQ(write(m, "out.safetensors", 1, false, 1), "");
    images_.pop_back();
    try {
        (void)write(m, "out.safetensors", 1, true);
        FAIL() << "resumed";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("an earlier run was of something else"));
    }
}

TEST_F(Embed, AnImageIsNearestToItself) {
    const auto m = model();
    (void)write(m, "index.safetensors", 2);
    const auto index = read_embeddings(path("index.safetensors"));
    for (const std::size_t i : {0U, 1U, 3U, 4U}) {
        const std::span<const float> own(index.pooled.data() + 48 * i, 48);
        const auto matches = nearest(index, own, 10);
        ASSERT_EQ(matches.size(), 4U);  // all but the bad one
        EXPECT_EQ(matches[0].image, i);
        EXPECT_NEAR(matches[0].cosine, 1, 1e-12);
    }
}

TEST_F(Embed, AnIndexThatIsNoneIsRefused) {
    EXPECT_THROW((void)read_embeddings(path("model/model.safetensors")), FormatError);
}

TEST(EmbedProcessor, OptionsComeFromTheModelTypeAndItsManifest) {
    const auto config = known_config("smolvlm-256m-instruct");
    EXPECT_EQ(processor_of(config, {}).longest_edge, 2048);
    EXPECT_FALSE(processor_of(config, {{"split", "false"}}).split);
    const auto siglip = processor_of(known_config("siglip-base-patch16-224"), {});
    EXPECT_EQ(siglip.layout, Layout::square);
    EXPECT_EQ(siglip.filter, Filter::bicubic);
    EXPECT_EQ(siglip.tile, 224);
    EXPECT_THROW((void)processor_of(config, {{"splitt", "false"}}), OptionError);
    EXPECT_THROW((void)processor_of(config, {{"tile", "224"}}), OptionError);
    EXPECT_THROW((void)processor_of(config, {{"filter", "box"}}), OptionError);
}

}  // namespace
}  // namespace lightmill::vision

// safetensors: every check of the format; config.json; the seeded generator.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "lightmill/base/error.hpp"
#include "lightmill/base/hash.hpp"
#include "lightmill/vision/weights/safetensors.hpp"
#include "lightmill/vision/weights/seeded.hpp"

namespace lightmill::vision {
namespace {

using testing::HasSubstr;

class Folder : public testing::Test {
  protected:
    void SetUp() override { std::filesystem::create_directories(folder_); }
    void TearDown() override { std::filesystem::remove_all(folder_); }
    std::string path(const std::string& name) const { return (folder_ / name).string(); }
    std::string write(const std::string& name, const std::string& content) const {
        std::ofstream(path(name), std::ios::binary) << content;
        return path(name);
    }

  private:
    std::filesystem::path folder_ =
        std::filesystem::temp_directory_path() / fmt::format("lightmill_weights_{}", ::getpid());
};

template <class Function>
std::string message_of(Function function) {
    try {
        function();
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

std::string file(const std::string& header, std::size_t data_bytes) {
    const std::uint64_t length = header.size();
    std::string content(8, '\0');
    std::memcpy(content.data(), &length, 8);
    return content + header + std::string(data_bytes, '\0');
}

using Safetensors = Folder;

TEST_F(Safetensors, EveryFaultOfAFileIsNamed) {
    const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
    struct Case {
        std::string content, says;
    };
    const std::vector<Case> cases{
        {"", "0 bytes, expected at least 8"},
        {std::string(8, '\xff'), "a header of 18446744073709551615 bytes"},
        {file("{}", 0).substr(0, 9), "it was cut"},
        {file("[]", 0), "does not begin with {"},
        {file("{" + a, 8), "not JSON"},
        {file("{" + a + "," + a + "}", 8), "tensor a is there twice"},
        {file(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8),
         "a has dtype twice"},
        {file(R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", 8), "unknown dtype F33"},
        {file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", 8), "unknown field x"},
        {file(R"({"a":{"dtype":"F32","shape":[2]}})", 8), "has no data_offsets"},
        {file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,9]}})", 8), "3 numbers, expected 2"},
        {file(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8), "holds -2"},
        {file(R"({"a":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}})", 8), "holds 2.5"},
        {file(R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", 8), "holds a list"},
        {file(R"({"a":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})", 8), "expected a type's name"},
        {file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8), "before it begins"},
        {file(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
         "expected 12 for F32 of shape [3]"},
        {file(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", 8),
         "more than 2^63"},
        {file("{" + a + "}", 7), "it was cut"},
        {file("{" + a + "}", 9), "something was added"},
        {file("{" + a + R"(,"b":{"dtype":"U8","shape":[1],"data_offsets":[9,10]}})", 10), "there is a hole"},
        {file("{" + a + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})", 8), "they overlap"},
        {file(R"({"a":null})", 0), "null stands where a tensor is expected"},
        {file(R"({"a":{"dtype":"F32","shape":{},"data_offsets":[0,8]}})", 8), "holds an object"},
        {file(R"({"__metadata__":{"format":1}})", 0), "expected text"},
    };
    for (const auto& [content, says] : cases) {
        const auto path = write("case.safetensors", content);
        const auto message = message_of([&] { SafetensorsFile{path}; });
        EXPECT_THAT(message, HasSubstr(says)) << content.substr(std::min<std::size_t>(8, content.size()));
        EXPECT_THAT(message, HasSubstr("case.safetensors"));
    }
}

TEST_F(Safetensors, OddButLegalFilesAreRead) {
    const auto path =
        write("odd.safetensors",
              file(R"({"__metadata__":{"a":"b"},"scalar":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                   R"("none":{"dtype":"F16","shape":[0,3],"data_offsets":[4,4]}}     )",
                   4));
    const SafetensorsFile opened(path);
    ASSERT_EQ(opened.infos().size(), 2U);
    EXPECT_EQ(opened.metadata(), (Metadata{{"a", "b"}}));
    float value = 1;
    opened.read("scalar", &value);
    EXPECT_EQ(value, 0);
    EXPECT_EQ(opened.find("none")->shape, (std::vector<std::int64_t>{0, 3}));
}

TEST_F(Safetensors, ThreeTypesAreWidenedExactly) {
    std::vector<TensorInfo> infos{
        {"bf", Dtype::bf16, {3}, 0, 6}, {"h", Dtype::f16, {5}, 6, 16}, {"i", Dtype::i8, {1}, 16, 17}};
    const std::uint16_t words[] = {0x3f80, 0xc049, 0x0001, 0x3c00, 0xc000, 0x0001, 0x7bff, 0x8000};
    std::string content = safetensors_header(infos, {});
    content.append(reinterpret_cast<const char*>(words), sizeof words).push_back('\1');
    const SafetensorsFile opened(write("types.safetensors", content));
    std::array<float, 5> out{};
    opened.read("bf", out.data());
    EXPECT_EQ(out[0], 1.0F);
    EXPECT_EQ(out[1], -3.140625F);
    EXPECT_EQ(out[2], std::bit_cast<float>(0x00010000U));
    opened.read("h", out.data());
    EXPECT_EQ(out, (std::array<float, 5>{1.0F, -2.0F, 0x1p-24F, 65504.0F, -0.0F}));
    EXPECT_THAT(message_of([&] { opened.read("i", out.data()); }),
                HasSubstr("is I8, expected BF16, F16 or F32"));
    EXPECT_THAT(message_of([&] { opened.read("x", out.data()); }), HasSubstr("tensor x is not there"));
}

TEST_F(Safetensors, AValueThatIsNotFiniteIsRefusedWithItsPlace) {
    const float values[] = {1, 2, std::numeric_limits<float>::quiet_NaN()};
    std::string content = safetensors_header(std::vector<TensorInfo>{{"w", Dtype::f32, {3}, 0, 12}}, {});
    content.append(reinterpret_cast<const char*>(values), sizeof values);
    const SafetensorsFile opened(write("nan.safetensors", content));
    std::array<float, 3> out{};
    EXPECT_THAT(message_of([&] { opened.read("w", out.data()); }),
                HasSubstr("tensor w holds nan at element 2"));
}

TEST_F(Safetensors, HeadersArePaddedAndFitWhatWasReserved) {
    const std::vector<TensorInfo> infos{{"w", Dtype::f32, {3}, 0, 12}};
    EXPECT_EQ(safetensors_header(infos, {{"k", "v"}}).size() % 8, 0U);
    EXPECT_EQ(safetensors_header(infos, {{"k", "v"}}, 4096).size(), 4096U);
    EXPECT_THROW((void)safetensors_header(infos, {{"k", std::string(4096, 'v')}}, 4096), Error);
}

TEST_F(Safetensors, SeededWeightsComeBackAsTheyWereMade) {
    const auto config = known_config("tiny");
    for (const auto kind : {SeededKind::plain, SeededKind::peaky, SeededKind::outlier}) {
        const auto path = this->path("seeded.safetensors");
        write_seeded(config, kind, 5, path, true);
        const SafetensorsFile opened(path);
        check_tensors(opened, config);
        const SeededTensors source(config, kind, 5);
        for (const auto& spec : tower_tensors(config)) {
            std::vector<float> a(static_cast<std::size_t>(element_count(spec.shape))), b(a.size());
            opened.read(spec.name, a.data());
            source.read(spec.name, b.data());
            EXPECT_EQ(a, b) << spec.name;
        }
    }
    EXPECT_THROW(write_seeded(config, SeededKind::plain, 5, path("seeded.safetensors"), false), Error);
}

// `tools/vision_oracle.py weights NAME KIND SEED TENSOR`, numpy 1.24.
TEST(SeededWeights, AreTheOnesThatNumpyMakes) {
    struct Case {
        std::string model;
        SeededKind kind;
        std::uint64_t seed;
        std::string tensor, sha256;
    };
    for (const auto& [model, kind, seed, tensor, sha256] :
         {Case{"tiny", SeededKind::outlier, 11, "model.vision_model.encoder.layers.1.mlp.fc2.weight",
               "84393aff4b323a527c619e03b53207db581059b119e28bdcccd12a5b4bcb96b3"},
          Case{"tiny", SeededKind::peaky, 0, "model.vision_model.encoder.layers.0.self_attn.q_proj.weight",
               "0a695c619e45dd5ccbcbbdd7991ce847bcfe207ba7022a54da6cbb1594cc68bb"},
          Case{"tiny", SeededKind::plain, 7, "model.vision_model.post_layernorm.weight",
               "46feef89c614bc206492ff689b991c4043c254e0d24c9387cf732cffa9d109a5"},
          Case{"tiny-pooling", SeededKind::outlier, 1, "vision_model.head.mlp.fc2.weight",
               "64e70105dade720417737d533f7d01d9675fd532e1544d9426d6070f7755182f"}}) {
        const auto config = known_config(model);
        std::vector<float> out(static_cast<std::size_t>(config.intermediate * config.hidden));
        for (const auto& spec : tower_tensors(config))
            if (spec.name == tensor) out.resize(static_cast<std::size_t>(element_count(spec.shape)));
        SeededTensors(config, kind, seed).read(tensor, out.data());
        Sha256 hash;
        hash.update(std::span(out));
        EXPECT_EQ(hash.hex(), sha256) << tensor;
        for (const float v : out) ASSERT_EQ(std::bit_cast<std::uint32_t>(v) & 0xffffU, 0U);  // bfloat16
    }
}

TEST(VisionConfig, OfTheNamedModelsComeBackFromTheirJson) {
    for (const auto* name : {"smolvlm-256m-instruct", "siglip-base-patch16-512", "siglip-base-patch16-224",
                             "tiny", "tiny-pooling"}) {
        const auto config = known_config(name);
        const auto parsed = parse_config(config_json(config), "config.json");
        EXPECT_EQ(parsed.config, config) << name;
        for (const auto& origin : parsed.origins) EXPECT_EQ(origin.source.empty(), false) << origin.key;
    }
    EXPECT_THROW((void)known_config("gpt"), OptionError);
}

TEST(VisionConfig, WhatACheckpointLeavesOutComesFromTheDefaultsAndSaysSo) {
    const std::string text = R"({"model_type":"smolvlm","scale_factor":4,"text_config":{"hidden_size":576},
        "vision_config":{"hidden_size":768,"image_size":512,"num_attention_heads":12,"patch_size":16}})";
    EXPECT_THAT(message_of([&] { (void)parse_config(text, "config.json"); }),
                HasSubstr("vision_config.intermediate_size is not there; expected a whole number"));
    const ConfigDefaults defaults{{"vision_config.intermediate_size", "3072"},
                                  {"vision_config.num_hidden_layers", "12"},
                                  {"vision_config.num_channels", "3"},
                                  {"vision_config.layer_norm_eps", "1e-6"},
                                  {"vision_config.hidden_act", "gelu_pytorch_tanh"},
                                  {"vision_config.hidden_size", "1"}};
    const auto parsed = parse_config(text, "config.json", defaults);
    EXPECT_EQ(parsed.config, known_config("smolvlm-256m-instruct"));  // the file goes before the defaults
    for (const auto& origin : parsed.origins) {
        if (origin.key == "vision_config.num_hidden_layers") {
            EXPECT_EQ(origin.source, "manifest");
        } else if (origin.key == "vision_config.hidden_size") {
            EXPECT_EQ(origin.source, "config.json");
        }
    }
}

TEST(VisionConfig, EveryFaultIsNamed) {
    const auto good = config_json(known_config("smolvlm-256m-instruct"));
    const auto with = [&](const std::string& from, const std::string& to) {
        auto text = good;
        const auto at = text.find(from);
        EXPECT_NE(at, std::string::npos) << from;
        return text.replace(at, from.size(), to);
    };
    const std::vector<std::pair<std::string, std::string>> cases{
        {"{", "not JSON"},
        {"[]", "expected a JSON object"},
        {with("idefics3\"", "llama\""), "model_type is llama, expected idefics3"},
        {with("\"num_attention_heads\": 12", "\"num_attention_heads\": 13"),
         "768 is not a multiple of num_attention_heads 13"},
        {with("\"patch_size\": 16", "\"patch_size\": 17"),
         "image_size 512 is not a multiple of patch_size 17"},
        {with("\"scale_factor\": 4", "\"scale_factor\": 5"), "not a multiple of scale_factor 5"},
        {with("\"hidden_size\": 768", "\"hidden_size\": \"x\""),
         "vision_config.hidden_size is \"x\", expected a whole number"},
        {with("\"num_channels\": 3", "\"num_channels\": 4"), "num_channels is 4, expected 3"},
        {with("gelu_pytorch_tanh", "relu"), "hidden_act is relu, expected gelu_pytorch_tanh"},
        {with("1e-06", "0"), "layer_norm_eps is 0, expected a number above 0"},
        {with("\"vision_config\"", "\"other_config\""), "vision_config is not there"},
    };
    for (const auto& [text, says] : cases)
        EXPECT_THAT(message_of([&, &content = text] { (void)parse_config(content, "config.json"); }),
                    HasSubstr(says));
}

TEST(VisionTensors, MissingMisshapenAndUnknownOnesAreNamed) {
    class Changed final : public TensorSource {
      public:
        std::vector<TensorSpec> all;
        std::string place() const override { return "model.safetensors"; }
        std::vector<TensorSpec> tensors() const override { return all; }
        void read(const std::string&, float*) const override {}
    };
    const auto config = known_config("tiny");
    Changed source;
    source.all = tower_tensors(config);
    source.all.push_back({"model.text_model.norm.weight", {48}});  // not the tower's
    source.all.push_back({"model.vision_model.embeddings.position_ids", {1, 64}});
    check_tensors(source, config);
    const auto whole = source.all;
    source.all.erase(source.all.begin());
    EXPECT_THAT(message_of([&] { check_tensors(source, config); }),
                HasSubstr("patch_embedding.weight is not there, expected it with shape [64, 3, 4, 4]"));
    source.all = whole;
    source.all[0].shape = {64, 48};
    EXPECT_THAT(message_of([&] { check_tensors(source, config); }),
                HasSubstr("has shape [64, 48], expected [64, 3, 4, 4]"));
    source.all = whole;
    source.all.push_back({"model.vision_model.encoder.layers.2.layer_norm1.weight", {64}});
    EXPECT_THAT(message_of([&] { check_tensors(source, config); }),
                HasSubstr("belongs to no part of this tower of 2 layers"));
}

}  // namespace
}  // namespace lightmill::vision

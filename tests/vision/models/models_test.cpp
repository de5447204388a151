// Manifests and the cache without a network: names, look-up, stamps, records.

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"
#include "lightmill/base/hash.hpp"
#include "lightmill/vision/weights/cache.hpp"
#include "lightmill/vision/weights/fetch.hpp"
#include "lightmill/vision/weights/manifest.hpp"

namespace lightmill::vision {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string k_commit(40, 'a');
constexpr const char* k_manifest = R"(name = "tiny"
repository = "owner/model"
revision = "main"
licence = "MIT"
[[files]]
name = "config.json"
[[files]]
name = "parts/model.safetensors"
size = 7
[defaults]
"vision_config.num_channels" = "3"
)";

std::string refusal(const std::string& text) {
    try {
        (void)parse_manifest(text, "m.toml");
    } catch (const FormatError& error) {
        return error.what();
    }
    return {};
}
std::string with(std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
}

TEST(Manifest, says_what_it_says) {
    const auto manifest = parse_manifest(k_manifest, "m.toml");
    EXPECT_EQ(manifest.name, "tiny");
    ASSERT_EQ(manifest.files.size(), 2U);
    EXPECT_EQ(manifest.files[1].name, "parts/model.safetensors");
    EXPECT_EQ(manifest.files[1].size, 7);
    EXPECT_EQ(manifest.files[0].size, -1);
    EXPECT_EQ(manifest.defaults.at("vision_config.num_channels"), "3");
}

TEST(Manifest, faults_are_told_with_their_line) {
    EXPECT_THAT(refusal("name = "), HasSubstr("m.toml, line 1: not TOML"));
    EXPECT_THAT(refusal(with(k_manifest, "licence", "license")), HasSubstr("line 4: found the key license"));
    EXPECT_THAT(refusal(with(k_manifest, "size = 7", "size = -7")),
                HasSubstr("line 9: size: expected a number of bytes"));
    EXPECT_THAT(refusal(with(k_manifest, "size = 7", "sha256 = \"AB\"")), HasSubstr("64 digits of 0-9a-f"));
    EXPECT_THAT(refusal(with(k_manifest, "licence = \"MIT\"", "")), HasSubstr("expected the key licence"));
    EXPECT_THAT(refusal(with(k_manifest, "\"3\"", "3")), HasSubstr("expected a text, in quotes"));
    EXPECT_THAT(refusal(with(k_manifest, "parts/model.safetensors", "config.json")),
                HasSubstr("listed twice"));
    EXPECT_THAT(refusal("name = \"tiny\"\nrepository = \"a/b\"\nrevision = \"main\"\nlicence = \"MIT\"\n"),
                HasSubstr("expected at least one [[files]]"));
}

TEST(Manifest, names_that_could_lead_elsewhere_are_refused) {
    for (const auto* name :
         {"../a.json", "a/../b.json", "/etc/a.json", "a//b.json", ".a.json", "a\\b.json", "a b.json",
          "-a.json", "a..json/b.json", "a.json\n", "", "a.bin", "json", "a/.json", "caf\xc3\xa9.json"})
        EXPECT_THROW(require_file_name(name, "m"), FormatError) << name;
    for (const auto* name : {"a.json", "a/b.safetensors", "model-00001-of-2.safetensors"})
        EXPECT_NO_THROW(require_file_name(name, "m")) << name;
    for (const auto* name : {"a", "a/b/c", "../b", "a/..", "a/b?x", "https://a/b", "a /b", "/b"})
        EXPECT_THROW(require_repository(name, "m"), FormatError) << name;
    EXPECT_NO_THROW(require_repository("HuggingFaceTB/SmolVLM-256M-Instruct", "m"));
    EXPECT_THROW(require_model_name("Tiny", "m"), FormatError);
    EXPECT_THROW(require_model_name("..", "m"), FormatError);
    EXPECT_THROW(require_revision("refs/pr/1", "m"), FormatError);
}

TEST(Manifest, those_of_the_project_are_whole) {
    const auto manifests = read_manifests(LIGHTMILL_MANIFESTS);
    EXPECT_EQ(manifests.size(), 4U);
    EXPECT_EQ(find_manifest(manifests, "siglip-base-patch16-224").repository,
              "google/siglip-base-patch16-224");
    EXPECT_THROW((void)find_manifest(manifests, "siglip"), OptionError);
    EXPECT_THROW((void)read_manifests("/no/such/folder"), IoError);
}

TEST(Address, https_or_this_machine) {
    for (const auto* url :
         {"https://huggingface.co", "http://127.0.0.1:8000", "http://localhost/x", "http://[::1]:1/"})
        EXPECT_TRUE(is_allowed_address(url)) << url;
    for (const auto* url :
         {"http://huggingface.co", "ftp://127.0.0.1", "file:///etc/passwd", "http://127.evil.example",
          "http://localhost.example", "https://user:password@huggingface.co", "huggingface.co", ""})
        EXPECT_FALSE(is_allowed_address(url)) << url;
}

class CacheTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = fs::temp_directory_path() / "lightmill_cache_XXXXXX";
        folder_ = ::mkdtemp(name.data());
        store_ = {folder_ + "/hub", folder_ + "/state"};
        write(repository() + "/refs/main", k_commit);
        put("config.json", "{}");
        put("parts/model.safetensors", "weights");
    }
    void TearDown() override { fs::remove_all(folder_); }

    [[nodiscard]] std::string repository() const { return store_.hub + "/models--owner--model"; }
    [[nodiscard]] std::string snapshot() const { return repository() + "/snapshots/" + k_commit; }
    [[nodiscard]] std::string blob(const std::string& content) const {
        return repository() + "/blobs/" + sha256_hex(content);
    }
    static void write(const std::string& path, const std::string& content) {
        fs::create_directories(fs::path(path).parent_path());
        std::ofstream(path, std::ios::binary) << content;
    }
    // As Hugging Face's tools lay a file down.
    void put(const std::string& name, const std::string& content) const {
        write(blob(content), content);
        detail::link_blob(manifest_, k_commit, name, sha256_hex(content), store_);
    }
    [[nodiscard]] std::string refusal() const {
        try {
            (void)require_model(manifest_, store_);
        } catch (const Error& error) {
            return error.what();
        }
        return {};
    }

    std::string folder_;
    ModelStore store_;
    Manifest manifest_ = parse_manifest(k_manifest, "m.toml");
};

TEST_F(CacheTest, a_whole_model_is_found) {
    const auto paths = require_model(manifest_, store_);
    EXPECT_EQ(paths.at("config.json"), snapshot() + "/config.json");
    EXPECT_EQ(read_file(paths.at("parts/model.safetensors")), "weights");
    EXPECT_EQ(fs::read_symlink(snapshot() + "/parts/model.safetensors").string(),
              "../../../blobs/" + sha256_hex("weights"));
}

TEST_F(CacheTest, what_is_missing_is_named_with_the_reason_and_the_way_out) {
    fs::remove(blob("weights"));
    EXPECT_THAT(refusal(), testing::AllOf(HasSubstr("parts/model.safetensors of tiny is not here"),
                                          HasSubstr("a link to ../../../blobs/"),
                                          HasSubstr("lightmill models fetch tiny"), HasSubstr("import")));
    fs::remove(snapshot() + "/parts/model.safetensors");
    EXPECT_THAT(refusal(), HasSubstr("(not in the cache)"));
    write(repository() + "/.no_exist/" + k_commit + "/parts/model.safetensors", "");
    EXPECT_THAT(refusal(), HasSubstr("(the repository has no such file)"));
    fs::create_directories(snapshot() + "/parts/model.safetensors");
    EXPECT_THAT(refusal(), HasSubstr("(not a file)"));
    fs::remove_all(repository());
    EXPECT_THAT(refusal(), HasSubstr("(no snapshot of this model is in the cache)"));
}

TEST_F(CacheTest, a_link_that_leads_to_itself_is_missing) {
    fs::remove(snapshot() + "/config.json");
    fs::create_symlink("config.json", snapshot() + "/config.json");
    EXPECT_THAT(refusal(), HasSubstr("a link to config.json, which is not there"));
}

TEST_F(CacheTest, a_file_of_another_size_than_the_manifests_is_not_the_file) {
    put("parts/model.safetensors", "weight");
    EXPECT_THAT(refusal(), HasSubstr("(found 6 bytes, expected 7)"));
}

TEST_F(CacheTest, a_reference_that_is_no_commit_is_refused) {
    write(repository() + "/refs/main", "../../elsewhere");
    EXPECT_THAT(refusal(), HasSubstr("refs/main, byte 0: expected a commit of 40 hexadecimal digits"));
}

TEST_F(CacheTest, a_file_is_hashed_once) {
    const auto state = look_up(manifest_, store_);
    EXPECT_TRUE(verify(manifest_, state, 1, store_).hashed);
    const auto second = verify(manifest_, state, 1, store_);
    EXPECT_FALSE(second.hashed);
    EXPECT_TRUE(second.matches());
    EXPECT_EQ(second.found.sha256, sha256_hex("weights"));
    EXPECT_TRUE(verify(manifest_, state, 1, store_, {.again = true}).hashed);
    write(blob("weights"), "WEIGHTS");  // same size
    const auto changed = verify(manifest_, look_up(manifest_, store_), 1, store_);
    EXPECT_TRUE(changed.hashed);
    EXPECT_FALSE(changed.matches());
    EXPECT_THAT(refusal(), HasSubstr("expected " + sha256_hex("weights") + " (hub); remove the file"));
}

TEST_F(CacheTest, a_broken_stamp_is_made_again) {
    const auto state = look_up(manifest_, store_);
    (void)verify(manifest_, state, 1, store_);
    for (const auto& entry : fs::directory_iterator(store_.state + "/stamps")) write(entry.path(), "{");
    EXPECT_TRUE(verify(manifest_, state, 1, store_).hashed);
    EXPECT_FALSE(verify(manifest_, state, 1, store_).hashed);
}

TEST_F(CacheTest, a_small_file_is_known_by_gits_hash) {
    // printf weights | git hash-object --stdin
    const std::string git = "3ab313fff6f41bb35969cd359e9ddfb8033b3ac2";
    EXPECT_EQ(hash_file(blob("weights")).git, git);
    write(repository() + "/blobs/" + git, "weights");
    detail::link_blob(manifest_, k_commit, "parts/model.safetensors", git, store_);
    const auto verified = verify(manifest_, look_up(manifest_, store_), 1, store_);
    EXPECT_EQ(verified.expected.git, git);
    EXPECT_TRUE(verified.matches());
}

TEST_F(CacheTest, a_file_of_which_nothing_is_known_may_not_change_later) {
    const auto path = snapshot() + "/parts/model.safetensors";
    fs::remove(path);
    write(path, "weights");  // no link: caches without them hold files
    EXPECT_EQ(refusal(), "");
    write(path, "WEIGHTS");
    EXPECT_THAT(refusal(), HasSubstr("expected " + sha256_hex("weights") + " (recorded)"));
}

TEST_F(CacheTest, strict_takes_the_manifests_word_only) {
    EXPECT_THROW((void)require_model(manifest_, store_, {.strict = true}), OptionError);
    for (auto& file : manifest_.files)
        file.sha256 = sha256_hex(file.name == "config.json" ? "{}" : "weights");
    EXPECT_EQ(require_model(manifest_, store_, {.strict = true}).size(), 2U);
    manifest_.files[1].sha256 = sha256_hex("other");
    EXPECT_THAT(refusal(), HasSubstr("(manifest)"));
}

TEST_F(CacheTest, a_state_folder_that_cannot_be_written_costs_time_only) {
    write(store_.state, "a file where the folder should be");
    EXPECT_EQ(require_model(manifest_, store_).size(), 2U);
}

}  // namespace
}  // namespace lightmill::vision

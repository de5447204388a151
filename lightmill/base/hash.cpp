#include "lightmill/base/hash.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <xxhash.h>

#include <cstring>
#include <new>

#include "lightmill/base/error.hpp"
#include "lightmill/base/file.hpp"

namespace lightmill {

Xxh3::Xxh3() : state_(XXH3_createState()) {
    if (!state_) throw std::bad_alloc();
    reset();
}
void Xxh3::Free::operator()(void* state) const noexcept {
    XXH3_freeState(static_cast<XXH3_state_t*>(state));
}
void Xxh3::update(const void* data, std::size_t size) noexcept {
    if (size > 0) XXH3_128bits_update(static_cast<XXH3_state_t*>(state_.get()), data, size);
}
Hash128 Xxh3::digest() const noexcept {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(static_cast<const XXH3_state_t*>(state_.get())));
    Hash128 hash;
    std::memcpy(hash.data(), canonical.digest, hash.size());
    return hash;
}
void Xxh3::reset() noexcept {
    XXH3_128bits_reset(static_cast<XXH3_state_t*>(state_.get()));
}

namespace {
EVP_MD_CTX* context(void* state) {
    return static_cast<EVP_MD_CTX*>(state);
}
void require(int ok, const char* call) {
    if (ok != 1)
        throw Error(ErrorCode::unavailable,
                    fmt::format("OpenSSL's {} failed; SHA-256 is needed for digests", call), call);
}
}  // namespace

Sha256::Sha256() : state_(EVP_MD_CTX_new()) {
    if (!state_) throw std::bad_alloc();
    require(EVP_DigestInit_ex(context(state_.get()), EVP_sha256(), nullptr), "EVP_DigestInit_ex");
}
void Sha256::Free::operator()(void* state) const noexcept {
    EVP_MD_CTX_free(context(state));
}
void Sha256::update(const void* data, std::size_t size) {
    if (size > 0) require(EVP_DigestUpdate(context(state_.get()), data, size), "EVP_DigestUpdate");
}
std::string Sha256::hex() const {
    Sha256 copy;
    require(EVP_MD_CTX_copy_ex(context(copy.state_.get()), context(state_.get())), "EVP_MD_CTX_copy_ex");
    std::array<unsigned char, 32> bytes{};
    require(EVP_DigestFinal_ex(context(copy.state_.get()), bytes.data(), nullptr), "EVP_DigestFinal_ex");
    return fmt::format("{:02x}", fmt::join(bytes, ""));
}

std::string sha256_hex(std::string_view bytes) {
    Sha256 sha;
    sha.update(bytes.data(), bytes.size());
    return sha.hex();
}

std::string sha256_file(const std::string& path) {
    const MappedFile file(path);
    Sha256 sha;
    sha.update(file.bytes());
    return sha.hex();
}

}  // namespace lightmill

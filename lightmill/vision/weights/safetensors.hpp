#pragma once
// safetensors files: an 8-byte length, a JSON header, then the tensors' bytes without gap or overlap.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lightmill/base/file.hpp"
#include "lightmill/vision/weights/config.hpp"

namespace lightmill::vision {

enum class Dtype { boolean, u8, i8, i16, u16, f16, bf16, i32, u32, f32, i64, u64, f64, f8_e4m3, f8_e5m2 };
[[nodiscard]] std::string_view name(Dtype dtype) noexcept;  // "BF16"
[[nodiscard]] std::int64_t size_bytes(Dtype dtype) noexcept;

struct TensorInfo {
    std::string name;
    Dtype dtype = Dtype::f32;
    std::vector<std::int64_t> shape;
    std::int64_t begin = 0, end = 0;  // bytes, from the first one behind the header
};
using Metadata = std::vector<std::pair<std::string, std::string>>;

// An open file whose header has been checked whole. Reads go through the descriptor, not through a mapping: a
// file that shrinks meanwhile is an error, not a signal, and its pages do not count to this process's memory.
class SafetensorsFile final : public TensorSource {
  public:
    // Throws IoError, FormatError.
    explicit SafetensorsFile(std::string path);

    [[nodiscard]] const std::vector<TensorInfo>& infos() const noexcept { return infos_; }
    [[nodiscard]] const Metadata& metadata() const noexcept { return metadata_; }
    // Null where there is none of that name.
    [[nodiscard]] const TensorInfo* find(std::string_view name) const noexcept;
    // Bytes of a tensor from its byte `offset` on.
    void read_bytes(const TensorInfo& info, std::int64_t offset, std::span<std::byte> out) const;

    [[nodiscard]] std::string place() const override { return path_; }
    [[nodiscard]] std::vector<TensorSpec> tensors() const override;
    // bf16, f16 and f32 are widened. Throws FormatError for other types and for a value that is not finite.
    void read(const std::string& name, float* out) const override;

  private:
    std::string path_;
    FileDescriptor file_;
    std::int64_t data_ = 0;          // where tensors begin
    std::vector<TensorInfo> infos_;  // by position
    Metadata metadata_;
};

// The checks alone, for a header of `header` (without its length) and `data_bytes` behind it.
void parse_safetensors_header(std::string_view header, std::int64_t data_bytes, const std::string& path,
                              std::vector<TensorInfo>& infos, Metadata& metadata);

// Length and header of a file with these tensors, padded with spaces so that data is aligned to 8 bytes, or
// to `total_bytes` where that is not 0: throws Error(range) where it does not fit.
[[nodiscard]] std::string safetensors_header(std::span<const TensorInfo> infos, const Metadata& metadata,
                                             std::int64_t total_bytes = 0);

// IEEE half precision to binary32, exact.
[[nodiscard]] float half_to_float(std::uint16_t bits) noexcept;

}  // namespace lightmill::vision

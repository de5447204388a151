#include "lightmill/ladder/probe/null_kernel_internal.hpp"

namespace lightmill::ladder::detail {
namespace {

__global__ void nothing(NoParameters) {}

}  // namespace

const void* null_kernel() noexcept {
    return reinterpret_cast<const void*>(&nothing);
}

}  // namespace lightmill::ladder::detail

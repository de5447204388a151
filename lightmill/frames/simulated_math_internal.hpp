#pragma once
// The two expensive steps of the simulator. Each pair (u1, u2) of uniform numbers gives two normal ones,
// r·cos a and r·sin a with r = sqrt(-2 ln u1), a = 2π·u2.

#include <cstddef>
#include <cstdint>

namespace lightmill::frames::detail {

inline constexpr double k_two_pi = 6.283185307179586;

// By the C library, one after another: what the simulator is defined by. u1 in (0, 1], u2 in [0, 1).
void normals_exact(const double* u1, const double* u2, std::size_t pairs, double* normals) noexcept;
// By vectors: within k_normal_error of the above.
void normals_fast(const double* u1, const double* u2, std::size_t pairs, double* normals) noexcept;
inline constexpr double k_normal_error = 1e-13;

// Rounds half to even and clips to 16 bits. Returns false where a value is nearer than `margin` to the
// middle between two integers.
bool round_pixels(const double* values, std::size_t count, double margin, std::uint16_t* out) noexcept;

}  // namespace lightmill::frames::detail

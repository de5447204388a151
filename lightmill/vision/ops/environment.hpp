#pragma once
// Every task of the tower runs under the same rounding, whatever the thread was doing before.

#include <cfenv>

namespace lightmill::vision {

// Round to nearest, subnormal numbers kept, no traps; what was set before comes back at the end.
class FloatEnvironment {
  public:
#if defined(__SSE2__)
    FloatEnvironment() noexcept : saved_(__builtin_ia32_stmxcsr()) { __builtin_ia32_ldmxcsr(0x1F80); }
    ~FloatEnvironment() { __builtin_ia32_ldmxcsr(saved_); }
#else
    FloatEnvironment() noexcept {
        std::fegetenv(&saved_);
        std::fesetenv(FE_DFL_ENV);
    }
    ~FloatEnvironment() { std::fesetenv(&saved_); }
#endif
    FloatEnvironment(const FloatEnvironment&) = delete;
    FloatEnvironment& operator=(const FloatEnvironment&) = delete;

  private:
#if defined(__SSE2__)
    unsigned int saved_;
#else
    std::fenv_t saved_;
#endif
};

}  // namespace lightmill::vision

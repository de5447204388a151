#pragma once
// The folder that the processes of a session share: copies of the builds, the input, the answers to expect.

#include <cstdint>
#include <string>

#include "lightmill/base/file.hpp"

namespace lightmill::ladder {

// Lies in memory where that has the room: reading a disk is not what a rung is timed for. Held by a lock that
// the kernel drops with this process, however it ends: a folder without a holder is one that a killed session
// left, and the next session removes it.
class SharedFolder {
  public:
    // `memory` is a folder of a file system in memory, `otherwise` the folder itself where that has no room
    // for `bytes`. Throws Error where neither has.
    SharedFolder(const std::string& memory, const std::string& name, const std::string& otherwise,
                 std::int64_t bytes);
    SharedFolder(const SharedFolder&) = delete;
    SharedFolder& operator=(const SharedFolder&) = delete;
    ~SharedFolder();  // removes it

    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    // Why it does not lie in memory; empty where it does.
    [[nodiscard]] const std::string& why_not_memory() const noexcept { return why_not_memory_; }

  private:
    std::string path_;
    std::string why_not_memory_;
    FileDescriptor lock_;
};

}  // namespace lightmill::ladder

#pragma once
// What the processes of one session share, and how one of them is played from its start to its end.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lightmill/ladder/clock/clock.hpp"
#include "lightmill/ladder/run/rows.hpp"
#include "lightmill/ladder/run/run.hpp"
#include "lightmill/ladder/run/shared_folder.hpp"

namespace lightmill::ladder {

// The right answer of one configuration, after each repetition.
struct Expected {
    std::vector<std::string> checksums;
    std::string file;  // the answer after the last repetition
};

// Everything that one fresh process needs.
struct Job {
    const SubjectType* subject = nullptr;
    Settings config;
    std::size_t build = 0;
    bool foreign = false;  // its answers need not be bit-identical
    const Expected* expected = nullptr;
};

class Workshop {
  public:
    // Both must stay. Throws OptionError for builds that are one and the same.
    Workshop(const Ladder& ladder, const RunOptions& options);

    // Makes the shared folder, in memory or as `otherwise`, with copies of the builds. Returns why it does
    // not lie in memory, empty where it does.
    std::string open(const std::string& name, const std::string& otherwise);
    // The folder for what workers print; without it, the shared one.
    void set_logs(const std::string& folder) { logs_ = folder; }
    // Makes the input that all share. Returns its SHA-256, empty where the subject has none.
    std::string make_input();

    // Plays one process; rows go to `keep`. Returns why its answer is wrong or it failed, empty where all is
    // well. `output`, where given, names the file that the last answer stays in; `padding` moves the stack.
    std::string play(const Job& job, const std::string& log, const Row& pattern,
                     const std::function<void(const Row&)>& keep, const std::string& output,
                     const std::string& padding);
    // Seconds that a process takes, from one repetition, which is thrown away.
    double process_s(const Job& job, const std::string& log);

    [[nodiscard]] std::string shared(const std::string& name) const;  // a file of the shared folder
    [[nodiscard]] const std::vector<std::string>& copies() const noexcept { return copies_; }
    [[nodiscard]] const std::vector<std::string>& hashes() const noexcept { return hashes_; }  // SHA-256
    // Whether workers have hardware counters, in words.
    [[nodiscard]] const std::string& counters() const noexcept { return counters_; }
    [[nodiscard]] const GpuMonitor& gpus() const noexcept { return gpus_; }

  private:
    [[nodiscard]] std::vector<std::string> environment(const std::string& padding) const;
    [[nodiscard]] std::string greeting() const;
    [[nodiscard]] Launch launch(const SubjectType& subject, const Settings& config, std::size_t build) const;
    [[nodiscard]] std::string log_file(const std::string& name) const;

    const Ladder& ladder_;
    const RunOptions& options_;
    std::unique_ptr<SharedFolder> shared_;
    std::string logs_;
    std::string input_;                // empty: none
    std::vector<std::string> hashes_;  // of the builds
    std::vector<std::string> copies_;  // of the builds, named by their content
    std::string counters_ = "not asked for: no rung is ours";
    GpuMonitor gpus_;
};

}  // namespace lightmill::ladder

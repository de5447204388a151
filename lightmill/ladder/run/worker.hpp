#pragma once
// The other end of the protocol for our own subjects: what a worker process does.

#include <string>
#include <vector>

#include "lightmill/ladder/plan/subject.hpp"

namespace lightmill::ladder {

// Arguments of a worker: subject, input file (empty for none), settings of work and configuration.
[[nodiscard]] std::vector<std::string> worker_arguments(const std::string& subject, const std::string& input,
                                                        const Settings& work, const Settings& configuration);
// One line that tells settings apart.
[[nodiscard]] std::string encoded(const Settings& settings);

// Answers requests from descriptor `in` on descriptor `out` until "end" or the end of the file. Returns
// the exit code. Throws OptionError for arguments that worker_arguments did not make.
int serve(const std::vector<std::string>& arguments, const Subjects& subjects, int in, int out);

}  // namespace lightmill::ladder

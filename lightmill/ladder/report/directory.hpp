#pragma once
// A session's directory: docs/formats/ladder.md describes the files.

#include <string>

#include "lightmill/ladder/report/analysis.hpp"

namespace lightmill::ladder {

// session.json, env.json and, where the session has ceilings, probe.json. Each appears whole or not at all.
// Rows are not written: the runner appends them to rows.csv as they are made.
void write_session(const std::string& directory, const Session& session);

// Throws IoError where a file is missing, FormatError where one is not what its format says. What an
// interrupted session leaves can be read: a last line of rows.csv that is not whole is dropped, with a note.
[[nodiscard]] Session read_session(const std::string& directory);

// Analyses what is there and writes summary.json.
Summary analyse(const std::string& directory);

// Analyses and writes summary.json, summary.md and report.html, then manifest.json with the SHA-256 of every
// file of the directory. Replaces what was there.
Summary write_report(const std::string& directory);

}  // namespace lightmill::ladder

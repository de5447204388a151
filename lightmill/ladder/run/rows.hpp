#pragma once
// rows.csv: one line a repetition, written as it is made (docs/formats/ladder.md).

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lightmill/base/file.hpp"
#include "lightmill/ladder/clock/clock.hpp"
#include "lightmill/ladder/plan/subject.hpp"

namespace lightmill::ladder {

struct Row {
    std::string session = {};
    int round = 0;
    int slot = 0;
    std::string arm = {};
    std::string executable = {};  // SHA-256 of what ran
    int repetition = 0;
    Measurement measured = {};
    double items = 0;
    std::uint64_t count = 0;
    std::string checksum = {};
    std::vector<Detector> detectors = {};
    std::string gpu = {};                        // clocks and throttle reasons after the repetition
    std::string invalid = {};                    // why it does not count; empty where it does
    std::vector<std::string> not_quotable = {};  // guards that fired
};

// Appends whole lines. What was written before a full disk or a kill stays readable.
class RowWriter {
  public:
    // Creates the file with its head line, or goes on behind the whole lines of one that is there.
    explicit RowWriter(const std::string& path);
    // On the disk, as far as the kernel knows, when this returns. Throws IoError; the file then ends with
    // the row before.
    void write(const Row& row);

  private:
    std::string path_;
    FileDescriptor file_;
    std::int64_t size_ = 0;
};

// Every whole line. Throws FormatError for a line that is not a row. No file: no rows.
[[nodiscard]] std::vector<Row> read_rows(const std::string& path);

// Which processes a file of rows holds.
struct Made {
    using Process = std::pair<std::string, int>;  // arm and round
    std::map<Process, int> repetitions;           // of those that began
    std::set<Process> closed;                     // of those to which no row will be added
};
// `repetitions`: of a whole process.
[[nodiscard]] Made made_so_far(const std::vector<Row>& rows, int repetitions);

}  // namespace lightmill::ladder
